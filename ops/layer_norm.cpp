// layer_norm: each row is shifted to mean 0 and scaled to variance 1, then by weight and bias.
// mean and rstd of the rows are kept for the gradient.  With xhat = (x - mean) rstd, g = dy weight:
//   dx = rstd (g - mean(g) - xhat mean(g xhat)),  dw = sum of dy xhat,  db = sum of dy.
// Source: Ba et al. 2016, eq. 4.
#include <array>
#include <cmath>
#include <string>

#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

void expect_row(std::string_view op, const ValueType& x) {
  expect_floating(op, "x", x, 1);
  if (x.shape.back() > 0) return;
  throw Error(std::string(op) + ": x is " + to_string(x) + ", expected a last axis of at least 1");
}

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> in) {
  expect_count("layer_norm", in, 3, "x, weight, bias");
  expect_row("layer_norm", in[0]);
  required_attr("layer_norm", attrs, "epsilon");
  const ValueType channels{{in[0].shape.back()}, in[0].dtype};
  expect_type("layer_norm", "weight", in[1], channels, "to fit x " + to_string(in[0]));
  expect_type("layer_norm", "bias", in[2], channels, "to fit x " + to_string(in[0]));
  const ValueType rows{without_last_axis(in[0].shape), sum_dtype(in[0].dtype)};
  return {in[0], rows, rows};
}

template <typename T>
void reference(const KernelArgs& args) {
  const int64_t channels = args.in[0].shape().back();
  const double epsilon = attr_or(args.attrs, "epsilon", 0);
  const T* const weight = args.in[1].as<T>();
  const T* const bias = args.in[2].as<T>();
  for (int64_t row = 0; row < row_count(args.in[0].shape()); ++row) {
    const T* const x = args.in[0].as<T>() + row * channels;
    T* const y = args.out[0].as<T>() + row * channels;
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c) sum += x[c];
    const double mean = sum / static_cast<double>(channels);
    double squares = 0;
    for (int64_t c = 0; c < channels; ++c) squares += (x[c] - mean) * (x[c] - mean);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(channels) + epsilon);
    for (int64_t c = 0; c < channels; ++c) {
      y[c] = static_cast<T>((x[c] - mean) * rstd * weight[c] + bias[c]);
    }
    args.out[1].as<T>()[row] = static_cast<T>(mean);
    args.out[2].as<T>()[row] = static_cast<T>(rstd);
  }
}

Cost cost(const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
  return streaming_cost(8 * static_cast<double>(element_count(in[0].shape)), in, out);
}

// The inputs of layer_norm_grad that are always there; the accumulators follow in this order.
constexpr size_t kX = 0;
constexpr size_t kWeight = 1;
constexpr size_t kMean = 2;
constexpr size_t kRstd = 3;
constexpr size_t kDy = 4;
constexpr size_t kFirstAccumulator = 5;
constexpr std::array<std::string_view, 3> kFlags = {"accumulate_x", "accumulate_weight",
                                                    "accumulate_bias"};

// Index of the accumulator of output k among the inputs; -1 if there is none.
int accumulator_index(const Attrs& attrs, size_t output) {
  auto index = static_cast<int>(kFirstAccumulator);
  for (size_t k = 0; k < output; ++k) index += is_set(attrs, kFlags[k]) ? 1 : 0;
  return is_set(attrs, kFlags[output]) ? index : -1;
}

std::vector<ValueId> grad(const GradRequest& request) {
  expect_only_first_output(request);
  const Node& node = request.node;
  std::vector<ValueId> inputs{node.inputs[0], node.inputs[1], node.outputs[1], node.outputs[2],
                              request.output_grads[0]};
  Attrs attrs;
  for (size_t i = 0; i < 3; ++i) {
    const bool accumulates = request.accumulators[i].valid();
    attrs.emplace(kFlags[i], accumulates ? 1.0 : 0.0);
    if (accumulates) inputs.push_back(request.accumulators[i]);
  }
  const NodeId id = request.graph.add("layer_norm_grad", request.name("grad"), inputs, attrs);
  std::vector<ValueId> grads = request.graph.node(id).outputs;
  for (size_t i = 0; i < 3; ++i) {
    if (!request.wanted[i]) grads[i] = {};
  }
  return grads;
}

std::vector<ValueType> infer_grad(const Attrs& attrs, std::span<const ValueType> in) {
  constexpr std::string_view op = "layer_norm_grad";
  size_t count = kFirstAccumulator;
  for (const std::string_view flag : kFlags) count += is_set(attrs, flag) ? 1U : 0U;
  expect_count(op, in, count, "x, weight, mean, rstd, dy[, dx][, dw][, db]");
  expect_row(op, in[kX]);
  const ValueType channels{{in[kX].shape.back()}, in[kX].dtype};
  const ValueType rows{without_last_axis(in[kX].shape), sum_dtype(in[kX].dtype)};
  const std::string because = "to fit x " + to_string(in[kX]);
  expect_type(op, "weight", in[kWeight], channels, because);
  expect_type(op, "mean", in[kMean], rows, because);
  expect_type(op, "rstd", in[kRstd], rows, because);
  expect_type(op, "dy", in[kDy], in[kX], because);
  std::vector<ValueType> out{in[kX], channels, channels};
  for (size_t k = 0; k < 3; ++k) {
    const int index = accumulator_index(attrs, k);
    if (index < 0) continue;
    expect_type(op, kFlags[k], in[static_cast<size_t>(index)], out[k], because);
  }
  return out;
}

template <typename T>
void grad_of_parameters(const KernelArgs& args) {
  const int64_t channels = args.in[kX].shape().back();
  const int64_t rows = args.in[kMean].elements();
  const T* const mean = args.in[kMean].as<T>();
  const T* const rstd = args.in[kRstd].as<T>();
  T* const dw = args.out[1].as<T>();
  T* const db = args.out[2].as<T>();
  for (int64_t c = 0; c < channels; ++c) {
    double weight_sum = dw[c];
    double bias_sum = db[c];
    for (int64_t row = 0; row < rows; ++row) {
      const double x = args.in[kX].as<T>()[row * channels + c];
      const double dy = args.in[kDy].as<T>()[row * channels + c];
      weight_sum += dy * (x - mean[row]) * rstd[row];
      bias_sum += dy;
    }
    dw[c] = static_cast<T>(weight_sum);
    db[c] = static_cast<T>(bias_sum);
  }
}

template <typename T>
void grad_of_row(const KernelArgs& args, int64_t row, const T* accumulator) {
  const int64_t channels = args.in[kX].shape().back();
  const T* const x = args.in[kX].as<T>() + row * channels;
  const T* const dy = args.in[kDy].as<T>() + row * channels;
  const T* const weight = args.in[kWeight].as<T>();
  const double mean = args.in[kMean].as<T>()[row];
  const double rstd = args.in[kRstd].as<T>()[row];
  T* const dx = args.out[0].as<T>() + row * channels;
  double sum = 0;
  double sum_xhat = 0;
  for (int64_t c = 0; c < channels; ++c) {
    const double g = static_cast<double>(dy[c]) * weight[c];
    sum += g;
    sum_xhat += g * (x[c] - mean) * rstd;
  }
  const double g_mean = sum / static_cast<double>(channels);
  const double g_xhat_mean = sum_xhat / static_cast<double>(channels);
  for (int64_t c = 0; c < channels; ++c) {
    const double g = static_cast<double>(dy[c]) * weight[c];
    const double start = accumulator == nullptr ? 0.0 : accumulator[row * channels + c];
    dx[c] = static_cast<T>(start + rstd * (g - g_mean - (x[c] - mean) * rstd * g_xhat_mean));
  }
}

// The parameters first: dx may lie on dy.
template <typename T>
void reference_grad(const KernelArgs& args) {
  const auto accumulator = [&](size_t output) -> const Tensor* {
    const int index = accumulator_index(args.attrs, output);
    return index < 0 ? nullptr : &args.in[static_cast<size_t>(index)];
  };
  start_from<T>(args.out[1], accumulator(1));
  start_from<T>(args.out[2], accumulator(2));
  grad_of_parameters<T>(args);
  const Tensor* const dx_start = accumulator(0);
  for (int64_t row = 0; row < args.in[kMean].elements(); ++row) {
    grad_of_row<T>(args, row, dx_start == nullptr ? nullptr : dx_start->as<T>());
  }
}

Cost cost_grad(const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
  return streaming_cost(16 * static_cast<double>(element_count(in[0].shape)), in, out);
}

std::vector<InPlace> in_place_grad(const Attrs& attrs, size_t) {
  std::vector<InPlace> pairs{{.output = 0, .input = kDy}};
  for (size_t k = 0; k < 3; ++k) {
    const int index = accumulator_index(attrs, k);
    if (index >= 0) pairs.push_back({.output = static_cast<int>(k), .input = index});
  }
  return pairs;
}

std::vector<Sample> samples() {
  const Attrs attrs{{"epsilon", 1e-5}};
  return {{.inputs = {f32({2, 3, 5}), f32({5}), f32({5})}, .attrs = attrs},
          {.inputs = {f32({7}), f32({7}), f32({7})}, .attrs = attrs},
          {.inputs = {f32({3, 1}), f32({1}), f32({1})}, .attrs = attrs}};
}

std::vector<Sample> samples_grad() {
  std::vector<Sample> all;
  for (unsigned flags = 0; flags < 8; ++flags) {
    Sample sample{.inputs = {f32({2, 3, 5}), f32({5}), f32({2, 3}), f32({2, 3}), f32({2, 3, 5})}};
    for (size_t k = 0; k < 3; ++k) {
      const bool accumulates = (flags >> k & 1U) != 0;
      sample.attrs.emplace(kFlags[k], accumulates ? 1.0 : 0.0);
      if (accumulates) sample.inputs.push_back(k == 0 ? f32({2, 3, 5}) : f32({5}));
    }
    all.push_back(sample);
  }
  return all;
}

const OpDef kLayerNorm{
    .name = "layer_norm",
    .summary = "rows of mean 0 and variance 1, scaled and shifted",
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .reference = by_dtype<reference<float>, reference<double>>,
    .samples = samples,
};
const OpDef kLayerNormGrad{
    .name = "layer_norm_grad",
    .summary = "gradient of layer_norm by x, weight and bias",
    .infer = infer_grad,
    .cost = cost_grad,
    .reference = by_dtype<reference_grad<float>, reference_grad<double>>,
    .in_place = in_place_grad,
    .samples = samples_grad,
};
const RegisterOp kRegister{kLayerNorm};
const RegisterOp kRegisterGrad{kLayerNormGrad};

}  // namespace

ValueId layer_norm(Graph& graph, std::string_view name, ValueId x, ValueId weight, ValueId bias,
                   double epsilon) {
  return graph.add_value("layer_norm", name, {x, weight, bias}, {{"epsilon", epsilon}});
}

}  // namespace olm2
