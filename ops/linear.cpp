// linear: y = x W + bias, and its two gradients  dx = dy W^T,  dW = x^T dy,  db = sum of dy.
// With {transposed} the weight is stored (O, I): the tied head reads the (V, C) token table so.
// The gradients add to what is there already: a tied weight, a later micro batch.
#include <string>

#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

// N rows, I inputs, O outputs; the weight's element (i, o) lies at i * step_i + o * step_o.
struct Sizes {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
  int64_t step_i = 0;
  int64_t step_o = 0;
};

Sizes sizes_of(const Attrs& attrs, const Shape& x, int64_t outputs) {
  const bool transposed = is_set(attrs, "transposed");
  return {.rows = row_count(x),
          .inputs = x.back(),
          .outputs = outputs,
          .step_i = transposed ? 1 : outputs,
          .step_o = transposed ? x.back() : 1};
}

double product_flops(const Shape& x, int64_t outputs) {
  return 2 * static_cast<double>(element_count(x)) * static_cast<double>(outputs);
}

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> in) {
  const bool bias = is_set(attrs, "bias");
  const bool transposed = is_set(attrs, "transposed");
  expect_count("linear", in, bias ? 3 : 2, bias ? "x, weight, bias" : "x, weight");
  expect_floating("linear", "x", in[0], 1);
  expect_axes("linear", "weight", in[1], 2);
  const Shape& weight = in[1].shape;
  if (in[1].dtype != in[0].dtype || weight[transposed ? 1 : 0] != in[0].shape.back()) {
    throw Error("linear: inner sizes or dtypes differ: " + to_string(in[0]) + " x " +
                to_string(in[1]) + (transposed ? " transposed" : "") +
                "; is the weight stored the other way round?");
  }
  const int64_t outputs = weight[transposed ? 0 : 1];
  if (bias) {
    expect_type("linear", "bias", in[2], {{outputs}, in[0].dtype},
                "to fit weight " + to_string(in[1]));
  }
  return {{with_last_axis(in[0].shape, outputs), in[0].dtype}};
}

template <typename T>
void reference(const KernelArgs& args) {
  const Sizes n = sizes_of(args.attrs, args.in[0].shape(), args.out[0].shape().back());
  const T* const x = args.in[0].as<T>();
  const T* const weight = args.in[1].as<T>();
  const T* const bias = is_set(args.attrs, "bias") ? args.in[2].as<T>() : nullptr;
  T* const y = args.out[0].as<T>();
  for (int64_t row = 0; row < n.rows; ++row) {
    for (int64_t o = 0; o < n.outputs; ++o) {
      double sum = bias == nullptr ? 0.0 : static_cast<double>(bias[o]);
      for (int64_t i = 0; i < n.inputs; ++i) {
        sum += static_cast<double>(x[row * n.inputs + i]) * weight[i * n.step_i + o * n.step_o];
      }
      y[row * n.outputs + o] = static_cast<T>(sum);
    }
  }
}

Cost cost(const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
  return streaming_cost(product_flops(in[0].shape, out[0].shape.back()), in, out);
}

// Weight first: x is forgotten before dx is born.
std::vector<ValueId> grad(const GradRequest& request) {
  const Node& node = request.node;
  const double transposed = attr_or(node.attrs, "transposed", 0);
  const ValueId dy = request.output_grads[0];
  const bool bias_wanted = node.inputs.size() == 3 && request.wanted[2];
  std::vector<ValueId> grads(node.inputs.size());
  if (request.wanted[1] || bias_wanted) {
    const ValueId weight_sum = request.accumulators[1];
    const ValueId bias_sum = bias_wanted ? request.accumulators[2] : ValueId{};
    std::vector<ValueId> inputs{node.inputs[0], dy};
    if (weight_sum.valid()) inputs.push_back(weight_sum);
    if (bias_sum.valid()) inputs.push_back(bias_sum);
    const NodeId id = request.graph.add("linear_grad_weight", request.name("grad_weight"), inputs,
                                        {{"transposed", transposed},
                                         {"bias", bias_wanted ? 1.0 : 0.0},
                                         {"accumulate_weight", weight_sum.valid() ? 1.0 : 0.0},
                                         {"accumulate_bias", bias_sum.valid() ? 1.0 : 0.0}});
    if (request.wanted[1]) grads[1] = request.graph.node(id).outputs[0];
    if (bias_wanted) grads[2] = request.graph.node(id).outputs[1];
  }
  if (request.wanted[0]) {
    std::vector<ValueId> inputs{dy, node.inputs[1]};
    if (request.accumulators[0].valid()) inputs.push_back(request.accumulators[0]);
    grads[0] = request.graph.add_value("linear_grad_input", request.name("grad_input"), inputs,
                                       {{"transposed", transposed}});
  }
  return grads;
}

std::vector<ValueType> infer_grad_input(const Attrs& attrs, std::span<const ValueType> in) {
  const bool transposed = is_set(attrs, "transposed");
  expect_count("linear_grad_input", in, in.size() == 3 ? 3 : 2, "dy, weight[, accumulator]");
  expect_floating("linear_grad_input", "dy", in[0], 1);
  expect_axes("linear_grad_input", "weight", in[1], 2);
  const Shape& weight = in[1].shape;
  if (in[1].dtype != in[0].dtype || weight[transposed ? 0 : 1] != in[0].shape.back()) {
    throw Error("linear_grad_input: inner sizes or dtypes differ: dy " + to_string(in[0]) +
                ", weight " + to_string(in[1]) + (transposed ? " transposed" : ""));
  }
  const ValueType dx{with_last_axis(in[0].shape, weight[transposed ? 1 : 0]), in[0].dtype};
  if (in.size() == 3) expect_type("linear_grad_input", "accumulator", in[2], dx, "like dx");
  return {dx};
}

template <typename T>
void reference_grad_input(const KernelArgs& args) {
  const Sizes n = sizes_of(args.attrs, args.out[0].shape(), args.in[0].shape().back());
  const T* const dy = args.in[0].as<T>();
  const T* const weight = args.in[1].as<T>();
  const T* const accumulator = args.in.size() == 3 ? args.in[2].as<T>() : nullptr;
  T* const dx = args.out[0].as<T>();
  for (int64_t row = 0; row < n.rows; ++row) {
    for (int64_t i = 0; i < n.inputs; ++i) {
      const int64_t at = row * n.inputs + i;
      double sum = accumulator == nullptr ? 0.0 : static_cast<double>(accumulator[at]);
      for (int64_t o = 0; o < n.outputs; ++o) {
        sum += static_cast<double>(dy[row * n.outputs + o]) * weight[i * n.step_i + o * n.step_o];
      }
      dx[at] = static_cast<T>(sum);
    }
  }
}

std::vector<ValueType> infer_grad_weight(const Attrs& attrs, std::span<const ValueType> in) {
  constexpr std::string_view op = "linear_grad_weight";
  const bool bias = is_set(attrs, "bias");
  const bool to_weight = is_set(attrs, "accumulate_weight");
  const bool to_bias = is_set(attrs, "accumulate_bias");
  if (to_bias && !bias) throw Error("linear_grad_weight: accumulate_bias without bias");
  const size_t count = 2 + (to_weight ? 1U : 0U) + (to_bias ? 1U : 0U);
  expect_count(op, in, count, "x, dy[, accumulator dW][, accumulator db]");
  expect_floating(op, "x", in[0], 1);
  expect_floating(op, "dy", in[1], 1);
  const int64_t outputs = in[1].shape.back();
  expect_type(op, "dy", in[1], {with_last_axis(in[0].shape, outputs), in[0].dtype},
              "to fit x " + to_string(in[0]));
  const int64_t inputs = in[0].shape.back();
  const Shape shape = is_set(attrs, "transposed") ? Shape{outputs, inputs} : Shape{inputs, outputs};
  std::vector<ValueType> out{{shape, in[0].dtype}};
  if (bias) out.push_back({{outputs}, in[0].dtype});
  if (to_weight) expect_type(op, "accumulator dW", in[2], out[0], "like dW");
  if (to_bias) expect_type(op, "accumulator db", in.back(), out[1], "like db");
  return out;
}

template <typename T>
void reference_grad_weight(const KernelArgs& args) {
  const Sizes n = sizes_of(args.attrs, args.in[0].shape(), args.in[1].shape().back());
  const T* const x = args.in[0].as<T>();
  const T* const dy = args.in[1].as<T>();
  start_from<T>(args.out[0], is_set(args.attrs, "accumulate_weight") ? &args.in[2] : nullptr);
  for (int64_t i = 0; i < n.inputs; ++i) {
    for (int64_t o = 0; o < n.outputs; ++o) {
      T& element = args.out[0].as<T>()[i * n.step_i + o * n.step_o];
      double sum = element;
      for (int64_t row = 0; row < n.rows; ++row) {
        sum += static_cast<double>(x[row * n.inputs + i]) * dy[row * n.outputs + o];
      }
      element = static_cast<T>(sum);
    }
  }
  if (!is_set(args.attrs, "bias")) return;
  start_from<T>(args.out[1], is_set(args.attrs, "accumulate_bias") ? &args.in.back() : nullptr);
  for (int64_t o = 0; o < n.outputs; ++o) {
    double sum = args.out[1].as<T>()[o];
    for (int64_t row = 0; row < n.rows; ++row) sum += dy[row * n.outputs + o];
    args.out[1].as<T>()[o] = static_cast<T>(sum);
  }
}

Cost cost_grad_weight(const Attrs& attrs, std::span<const ValueType> in,
                      std::span<const ValueType> out) {
  double flops = product_flops(in[0].shape, in[1].shape.back());
  if (is_set(attrs, "bias")) flops += static_cast<double>(element_count(in[1].shape));
  return streaming_cost(flops, in, out);
}

std::vector<InPlace> in_place_grad_weight(const Attrs& attrs, size_t input_count) {
  std::vector<InPlace> pairs;
  if (is_set(attrs, "accumulate_weight")) pairs.push_back({.output = 0, .input = 2});
  if (is_set(attrs, "accumulate_bias")) {
    pairs.push_back({.output = 1, .input = static_cast<int>(input_count) - 1});
  }
  return pairs;
}

std::vector<Sample> samples() {
  return {{.inputs = {f32({3, 5}), f32({5, 7})}, .attrs = {{"transposed", 0}, {"bias", 0}}},
          {.inputs = {f32({2, 3, 5}), f32({5, 4}), f32({4})},
           .attrs = {{"transposed", 0}, {"bias", 1}}},
          {.inputs = {f32({2, 3, 5}), f32({4, 5})}, .attrs = {{"transposed", 1}, {"bias", 0}}},
          {.inputs = {f32({1}), f32({1, 1}), f32({1})}, .attrs = {{"transposed", 1}, {"bias", 1}}}};
}

std::vector<Sample> samples_grad_input() {
  std::vector<Sample> all;
  for (const bool transposed : {false, true}) {
    const ValueType weight = transposed ? f32({7, 5}) : f32({5, 7});
    const Attrs attrs{{"transposed", transposed ? 1.0 : 0.0}};
    all.push_back({.inputs = {f32({2, 3, 7}), weight}, .attrs = attrs});
    all.push_back({.inputs = {f32({2, 3, 7}), weight, f32({2, 3, 5})}, .attrs = attrs});
  }
  return all;
}

// Every combination of the four flags that makes sense.
std::vector<Sample> samples_grad_weight() {
  std::vector<Sample> all;
  for (const int flags : {0, 1, 2, 3, 4, 5, 6, 7, 14, 15, 12, 13}) {
    const auto flag = [&](int bit) { return (flags >> bit & 1) != 0 ? 1.0 : 0.0; };
    Sample sample{.inputs = {f32({2, 3, 5}), f32({2, 3, 7})},
                  .attrs = {{"transposed", flag(0)},
                            {"accumulate_weight", flag(1)},
                            {"bias", flag(2)},
                            {"accumulate_bias", flag(3)}}};
    if (flag(1) != 0) sample.inputs.push_back(flag(0) != 0 ? f32({7, 5}) : f32({5, 7}));
    if (flag(3) != 0) sample.inputs.push_back(f32({7}));
    all.push_back(sample);
  }
  return all;
}

const OpDef kLinear{
    .name = "linear",
    .summary = "y = x W + bias",
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .reference = by_dtype<reference<float>, reference<double>>,
    .samples = samples,
};
const OpDef kLinearGradInput{
    .name = "linear_grad_input",
    .summary = "dx = dy W^T + accumulator",
    .infer = infer_grad_input,
    .cost = cost,
    .reference = by_dtype<reference_grad_input<float>, reference_grad_input<double>>,
    .in_place = [](const Attrs&, size_t input_count) -> std::vector<InPlace> {
      if (input_count < 3) return {};
      return {{.output = 0, .input = 2}};
    },
    .samples = samples_grad_input,
};
const OpDef kLinearGradWeight{
    .name = "linear_grad_weight",
    .summary = "dW = x^T dy + accumulator, db = sum of dy + accumulator",
    .infer = infer_grad_weight,
    .cost = cost_grad_weight,
    .reference = by_dtype<reference_grad_weight<float>, reference_grad_weight<double>>,
    .in_place = in_place_grad_weight,
    .samples = samples_grad_weight,
};
const RegisterOp kRegister{kLinear};
const RegisterOp kRegisterGradInput{kLinearGradInput};
const RegisterOp kRegisterGradWeight{kLinearGradWeight};

}  // namespace

ValueId linear(Graph& graph, std::string_view name, ValueId x, ValueId weight, ValueId bias,
               bool transposed) {
  std::vector<ValueId> inputs{x, weight};
  if (bias.valid()) inputs.push_back(bias);
  return graph.add_value(
      "linear", name, inputs,
      {{"transposed", transposed ? 1.0 : 0.0}, {"bias", bias.valid() ? 1.0 : 0.0}});
}

}  // namespace olm2
