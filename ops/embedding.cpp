// embedding: each token becomes its row of the token table plus its position's row.
// The gradient of the token table adds up the rows of equal tokens in the order of the batch, in
// double: the same bits whatever the number of threads.
// A token outside [0, V) is the loader's error: no kernel looks.
// Source: Radford et al. 2018, section 3.1.
#include <algorithm>

#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

std::vector<ValueType> infer(const Attrs&, std::span<const ValueType> in) {
  expect_count("embedding", in, 3, "tokens, token_table, position_table");
  expect_axes("embedding", "tokens", in[0], 2);
  expect_type("embedding", "tokens", in[0], {in[0].shape, DType::i32});
  expect_floating("embedding", "token_table", in[1]);
  expect_axes("embedding", "token_table", in[1], 2);
  expect_axes("embedding", "position_table", in[2], 2);
  const int64_t tokens = in[0].shape[1];
  const int64_t channels = in[1].shape[1];
  expect_type("embedding", "position_table", in[2], {{in[2].shape[0], channels}, in[1].dtype},
              "to fit token_table " + to_string(in[1]));
  if (in[2].shape[0] < tokens) {
    throw Error("embedding: tokens " + to_string(in[0]) + " are longer than position_table " +
                to_string(in[2]) + "; shorten the sequence or enlarge the context");
  }
  return {{{in[0].shape[0], tokens, channels}, in[1].dtype}};
}

template <typename T>
void reference(const KernelArgs& args) {
  const Shape& y = args.out[0].shape();
  const int64_t channels = y[2];
  const int32_t* const tokens = args.in[0].as<int32_t>();
  for (int64_t n = 0; n < y[0] * y[1]; ++n) {
    const T* const token = args.in[1].as<T>() + tokens[n] * channels;
    const T* const position = args.in[2].as<T>() + n % y[1] * channels;
    T* const row = args.out[0].as<T>() + n * channels;
    for (int64_t c = 0; c < channels; ++c) row[c] = token[c] + position[c];
  }
}

// Only the rows that are read are moved, not the table.
Cost cost(const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
  return {.flops = static_cast<double>(element_count(out[0].shape)),
          .bytes = static_cast<double>(in[0].bytes() + 3 * out[0].bytes())};
}

std::vector<ValueId> grad(const GradRequest& request) {
  const Node& node = request.node;
  const ValueId dx = request.output_grads[0];
  const auto rows = [&](size_t input) {
    return static_cast<double>(request.graph.type(node.inputs[input]).shape[0]);
  };
  std::vector<ValueId> grads(3);
  if (request.wanted[1]) {
    std::vector<ValueId> inputs{node.inputs[0], dx};
    if (request.accumulators[1].valid()) inputs.push_back(request.accumulators[1]);
    grads[1] = request.graph.add_value("embedding_grad_tokens", request.name("grad_tokens"), inputs,
                                       {{"vocabulary", rows(1)}});
  }
  if (request.wanted[2]) {
    std::vector<ValueId> inputs{dx};
    if (request.accumulators[2].valid()) inputs.push_back(request.accumulators[2]);
    grads[2] = request.graph.add_value("embedding_grad_positions", request.name("grad_positions"),
                                       inputs, {{"positions", rows(2)}});
  }
  return grads;
}

std::vector<ValueType> infer_grad_tokens(const Attrs& attrs, std::span<const ValueType> in) {
  constexpr std::string_view op = "embedding_grad_tokens";
  expect_count(op, in, in.size() == 3 ? 3 : 2, "tokens, dx[, accumulator]");
  expect_floating(op, "dx", in[1]);
  expect_axes(op, "dx", in[1], 3);
  const Shape& dx = in[1].shape;
  expect_type(op, "tokens", in[0], {{dx[0], dx[1]}, DType::i32}, "to fit dx " + to_string(in[1]));
  const ValueType table{{required_size(op, attrs, "vocabulary"), dx[2]}, in[1].dtype};
  if (in.size() == 3) expect_type(op, "accumulator", in[2], table, "like the token table");
  return {table};
}

template <typename T>
void reference_grad_tokens(const KernelArgs& args) {
  const int32_t* const tokens = args.in[0].as<int32_t>();
  const int64_t count = args.in[0].elements();
  const int64_t channels = args.out[0].shape()[1];
  const T* const dx = args.in[1].as<T>();
  start_from<T>(args.out[0], args.in.size() == 3 ? &args.in[2] : nullptr);
  for (int64_t first = 0; first < count; ++first) {
    if (std::find(tokens, tokens + first, tokens[first]) != tokens + first) continue;
    T* const row = args.out[0].as<T>() + tokens[first] * channels;
    for (int64_t c = 0; c < channels; ++c) {
      double sum = row[c];
      for (int64_t n = first; n < count; ++n) {
        if (tokens[n] == tokens[first]) sum += dx[n * channels + c];
      }
      row[c] = static_cast<T>(sum);
    }
  }
}

// Without an accumulator the whole table is written; with one, on which the output lies, only the
// rows of the batch are touched.
Cost cost_grad_tokens(const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
  const auto dx = static_cast<double>(in[1].bytes());
  const double table = in.size() == 3 ? 0.0 : static_cast<double>(out[0].bytes());
  return {.flops = static_cast<double>(element_count(in[1].shape)),
          .bytes = static_cast<double>(in[0].bytes()) + 3 * dx + table};
}

std::vector<ValueType> infer_grad_positions(const Attrs& attrs, std::span<const ValueType> in) {
  constexpr std::string_view op = "embedding_grad_positions";
  expect_count(op, in, in.size() == 2 ? 2 : 1, "dx[, accumulator]");
  expect_floating(op, "dx", in[0]);
  expect_axes(op, "dx", in[0], 3);
  const Shape& dx = in[0].shape;
  const ValueType table{{required_size(op, attrs, "positions"), dx[2]}, in[0].dtype};
  if (table.shape[0] < dx[1]) {
    throw Error("embedding_grad_positions: dx " + to_string(in[0]) +
                " is longer than the position table " + to_string(table));
  }
  if (in.size() == 2) expect_type(op, "accumulator", in[1], table, "like the position table");
  return {table};
}

template <typename T>
void reference_grad_positions(const KernelArgs& args) {
  const Shape& shape = args.in[0].shape();
  const int64_t row = shape[1] * shape[2];
  const T* const dx = args.in[0].as<T>();
  start_from<T>(args.out[0], args.in.size() == 2 ? &args.in[1] : nullptr);
  for (int64_t i = 0; i < row; ++i) {
    double sum = args.out[0].as<T>()[i];
    for (int64_t b = 0; b < shape[0]; ++b) sum += dx[b * row + i];
    args.out[0].as<T>()[i] = static_cast<T>(sum);
  }
}

Cost cost_grad_positions(const Attrs&, std::span<const ValueType> in,
                         std::span<const ValueType> out) {
  return streaming_cost(static_cast<double>(element_count(in[0].shape)), in, out);
}

std::vector<Sample> samples() {
  return {{.inputs = {i32({2, 5}), f32({4, 3}), f32({5, 3})}, .integer_limit = {4, 0, 0}},
          {.inputs = {i32({3, 1}), f32({1, 7}), f32({3, 7})}, .integer_limit = {1, 0, 0}}};
}

std::vector<Sample> samples_grad_tokens() {
  const Attrs attrs{{"vocabulary", 4}};
  return {{.inputs = {i32({2, 5}), f32({2, 5, 3})}, .attrs = attrs, .integer_limit = {4, 0}},
          {.inputs = {i32({2, 5}), f32({2, 5, 3}), f32({4, 3})},
           .attrs = attrs,
           .integer_limit = {4, 0, 0}}};
}

std::vector<Sample> samples_grad_positions() {
  return {{.inputs = {f32({3, 5, 7})}, .attrs = {{"positions", 6}}},
          {.inputs = {f32({3, 5, 7}), f32({6, 7})}, .attrs = {{"positions", 6}}}};
}

const OpDef kEmbedding{
    .name = "embedding",
    .summary = "token_table[tokens] + position_table",
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .reference = by_dtype<reference<float>, reference<double>>,
    .samples = samples,
};
const OpDef kEmbeddingGradTokens{
    .name = "embedding_grad_tokens",
    .summary = "gradient of embedding by the token table",
    .infer = infer_grad_tokens,
    .cost = cost_grad_tokens,
    .reference = by_dtype<reference_grad_tokens<float>, reference_grad_tokens<double>>,
    .in_place = [](const Attrs&, size_t input_count) -> std::vector<InPlace> {
      if (input_count < 3) return {};
      return {{.output = 0, .input = 2}};
    },
    .samples = samples_grad_tokens,
};
const OpDef kEmbeddingGradPositions{
    .name = "embedding_grad_positions",
    .summary = "gradient of embedding by the position table",
    .infer = infer_grad_positions,
    .cost = cost_grad_positions,
    .reference = by_dtype<reference_grad_positions<float>, reference_grad_positions<double>>,
    .in_place = [](const Attrs&, size_t input_count) -> std::vector<InPlace> {
      if (input_count < 2) return {};
      return {{.output = 0, .input = 1}};
    },
    .samples = samples_grad_positions,
};
const RegisterOp kRegister{kEmbedding};
const RegisterOp kRegisterGradTokens{kEmbeddingGradTokens};
const RegisterOp kRegisterGradPositions{kEmbeddingGradPositions};

}  // namespace

ValueId embedding(Graph& graph, std::string_view name, ValueId tokens, ValueId token_table,
                  ValueId position_table) {
  return graph.add_value("embedding", name, {tokens, token_table, position_table});
}

}  // namespace olm2
