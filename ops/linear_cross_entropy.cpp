// linear_cross_entropy: the output head and its loss in one, so that the logits never exist whole.
//   logits = x W [+ bias],  loss = mean of (log sum exp logits - logits[target])
// The rows of x are cut into `chunks` runs, rows * i / chunks to rows * (i + 1) / chunks, and only
// one run's logits exist at a time.  In training the loss and its gradients come from one node:
// the logits of a chunk become their own gradient, which goes into dx and dW at once, chunk after
// chunk in order.  (Made in a node of its own, the gradient would compute every logit again.)
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

constexpr std::string_view kLoss = "linear_cross_entropy";
constexpr std::string_view kGrad = "linear_cross_entropy_grad";

void expect_chunks(std::string_view op, const Attrs& attrs, const ValueType& x) {
  const int64_t chunks = required_size(op, attrs, "chunks");
  if (chunks <= row_count(x.shape)) return;
  throw Error(std::string(op) + ": " + std::to_string(chunks) + " chunks, but x is " +
              to_string(x) + ", " + std::to_string(row_count(x.shape)) + " rows");
}

// x, weight, targets[, bias]: what both ops begin with.  Returns how many inputs that are.
size_t expect_head(std::string_view op, const Attrs& attrs, std::span<const ValueType> in) {
  const size_t count = is_set(attrs, "bias") ? 4 : 3;
  if (in.size() < count) expect_count(op, in, count, "x, weight, targets[, bias]");
  const bool transposed = is_set(attrs, "transposed");
  expect_floating(op, "x", in[0], 1);
  expect_axes(op, "weight", in[1], 2);
  const Shape& weight = in[1].shape;
  if (in[1].dtype != in[0].dtype || weight[transposed ? 1 : 0] != in[0].shape.back()) {
    throw Error(std::string(op) + ": inner sizes or dtypes differ: " + to_string(in[0]) + " x " +
                to_string(in[1]) + (transposed ? " transposed" : "") +
                "; is the weight stored the other way round?");
  }
  expect_type(op, "targets", in[2], {without_last_axis(in[0].shape), DType::i32},
              "to fit x " + to_string(in[0]));
  const int64_t columns = weight[transposed ? 0 : 1];
  if (count == 4) {
    expect_type(op, "bias", in[3], {{columns}, in[0].dtype}, "to fit weight " + to_string(in[1]));
  }
  if (required_size(op, attrs, "classes") > columns) {
    throw Error(std::string(op) + ": " + std::to_string(required_size(op, attrs, "classes")) +
                " classes, but weight " + to_string(in[1]) + " gives " + std::to_string(columns) +
                " columns");
  }
  expect_chunks(op, attrs, in[0]);
  return count;
}

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> in) {
  expect_count(kLoss, in, expect_head(kLoss, attrs, in), "x, weight, targets[, bias]");
  return {{{1}, sum_dtype(in[0].dtype)}};
}

std::vector<ValueType> infer_grad(const Attrs& attrs, std::span<const ValueType> in) {
  size_t next = expect_head(kGrad, attrs, in);
  required_attr(kGrad, attrs, "seed");
  const bool to_weight = is_set(attrs, "accumulate_weight");
  const bool to_bias = is_set(attrs, "accumulate_bias");
  if ((to_weight && !is_set(attrs, "grad_weight")) || (to_bias && !is_set(attrs, "grad_bias")) ||
      (is_set(attrs, "grad_bias") && !is_set(attrs, "bias"))) {
    throw Error(std::string(kGrad) + ": a gradient is added to or wanted that is not made");
  }
  expect_count(kGrad, in, next + (to_weight ? 1U : 0U) + (to_bias ? 1U : 0U),
               "x, weight, targets[, bias][, accumulator dW][, accumulator db]");
  std::vector<ValueType> out{{{1}, sum_dtype(in[0].dtype)}};
  if (is_set(attrs, "grad_x")) out.push_back(in[0]);
  if (is_set(attrs, "grad_weight")) out.push_back(in[1]);
  if (is_set(attrs, "grad_bias")) out.push_back(in[3]);
  if (to_weight) expect_type(kGrad, "accumulator dW", in[next++], in[1], "like the weight");
  if (to_bias) expect_type(kGrad, "accumulator db", in[next], in[3], "like the bias");
  return out;
}

// Replaces the loss by the op that makes its gradients too.
std::vector<ValueId> grad_with_loss(const GradRequest& request, double seed) {
  const Node& node = request.node;
  const bool bias_wanted = node.inputs.size() == 4 && request.wanted[3];
  const ValueId weight_sum = request.accumulators[1];
  const ValueId bias_sum = bias_wanted ? request.accumulators[3] : ValueId{};
  std::vector<ValueId> inputs = node.inputs;
  if (weight_sum.valid()) inputs.push_back(weight_sum);
  if (bias_sum.valid()) inputs.push_back(bias_sum);
  Attrs attrs = node.attrs;
  attrs["seed"] = seed;
  attrs["grad_x"] = request.wanted[0] ? 1 : 0;
  attrs["grad_weight"] = request.wanted[1] ? 1 : 0;
  attrs["grad_bias"] = bias_wanted ? 1 : 0;
  attrs["accumulate_weight"] = weight_sum.valid() ? 1 : 0;
  attrs["accumulate_bias"] = bias_sum.valid() ? 1 : 0;
  const NodeId id = request.graph.value(node.outputs[0]).producer;
  request.graph.replace(id, kGrad, inputs, attrs);

  const std::vector<ValueId> made = request.graph.node(id).outputs;
  std::vector<ValueId> grads(node.inputs.size());
  size_t next = 1;
  if (request.wanted[0]) grads[0] = made.at(next++);
  if (request.wanted[1]) grads[1] = made.at(next++);
  if (bias_wanted) grads[3] = made.at(next);
  grads[0] = add_to(request, 0, grads[0]);
  return grads;
}

// The head as the references see it: one row of logits at a time, in double.
template <typename T>
struct Head {
  explicit Head(const KernelArgs& args)
      : inputs(args.in[0].shape().back()),
        columns(args.in[1].elements() / inputs),
        classes(static_cast<int64_t>(attr_or(args.attrs, "classes", 0))),
        step_i(is_set(args.attrs, "transposed") ? 1 : columns),
        step_o(is_set(args.attrs, "transposed") ? inputs : 1),
        x(args.in[0].as<T>()),
        weight(args.in[1].as<T>()),
        targets(args.in[2].as<int32_t>()),
        bias(is_set(args.attrs, "bias") ? args.in[3].as<T>() : nullptr),
        rows(args.in[2].elements()),
        logits(static_cast<size_t>(classes)) {
    counted = std::max<double>(1, static_cast<double>(std::count_if(
                                      targets, targets + rows, [](int32_t t) { return t >= 0; })));
  }

  // Fills `logits`; returns the log of the sum of their exponentials.
  double logits_of(int64_t row) {
    for (int64_t o = 0; o < classes; ++o) {
      double sum = bias == nullptr ? 0.0 : static_cast<double>(bias[o]);
      for (int64_t i = 0; i < inputs; ++i) {
        sum += static_cast<double>(x[row * inputs + i]) * weight[i * step_i + o * step_o];
      }
      logits[static_cast<size_t>(o)] = sum;
    }
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - largest);
    return largest + std::log(sum);
  }
  // What the row adds to the loss, before the mean.
  double loss_of(int64_t row, double lse) const {
    return targets[row] < 0 ? 0 : lse - logits[static_cast<size_t>(targets[row])];
  }

  int64_t inputs;
  int64_t columns;
  int64_t classes;
  int64_t step_i;
  int64_t step_o;
  const T* x;
  const T* weight;
  const int32_t* targets;
  const T* bias;
  int64_t rows;
  double counted = 1;
  std::vector<double> logits;
};

template <typename T>
void reference(const KernelArgs& args) {
  Head<T> head(args);
  double loss = 0;
  for (int64_t row = 0; row < head.rows; ++row) loss += head.loss_of(row, head.logits_of(row));
  args.out[0].as<T>()[0] = static_cast<T>(loss / head.counted);
}

// The gradients a node asks for; null: not asked for.
template <typename T>
struct Gradients {
  explicit Gradients(const KernelArgs& args) {
    size_t next_out = 1;
    size_t next_in = is_set(args.attrs, "bias") ? 4 : 3;
    if (is_set(args.attrs, "grad_x")) x = args.out[next_out++].as<T>();
    if (is_set(args.attrs, "grad_weight")) {
      const bool adds = is_set(args.attrs, "accumulate_weight");
      start_from<T>(args.out[next_out], adds ? &args.in[next_in++] : nullptr);
      weight = args.out[next_out++].as<T>();
    }
    if (!is_set(args.attrs, "grad_bias")) return;
    const bool adds = is_set(args.attrs, "accumulate_bias");
    start_from<T>(args.out[next_out], adds ? &args.in[next_in] : nullptr);
    bias = args.out[next_out].as<T>();
  }
  T* x = nullptr;
  T* weight = nullptr;
  T* bias = nullptr;
};

// Row by row; dx goes over x only when the row's x has been used.
template <typename T>
void reference_grad(const KernelArgs& args) {
  Head<T> head(args);
  const Gradients<T> gradients(args);
  const double scale = attr_or(args.attrs, "seed", 1) / head.counted;
  std::vector<double> dx(static_cast<size_t>(head.inputs));
  double loss = 0;
  for (int64_t row = 0; row < head.rows; ++row) {
    const double lse = head.logits_of(row);
    loss += head.loss_of(row, lse);
    std::fill(dx.begin(), dx.end(), 0.0);
    for (int64_t o = 0; o < head.classes && head.targets[row] >= 0; ++o) {
      const double hit = o == head.targets[row] ? 1 : 0;
      const double dlogit = scale * (std::exp(head.logits[static_cast<size_t>(o)] - lse) - hit);
      if (gradients.bias != nullptr) gradients.bias[o] += static_cast<T>(dlogit);
      for (int64_t i = 0; i < head.inputs; ++i) {
        const int64_t at = i * head.step_i + o * head.step_o;
        dx[static_cast<size_t>(i)] += dlogit * head.weight[at];
        if (gradients.weight == nullptr) continue;
        gradients.weight[at] += static_cast<T>(dlogit * head.x[row * head.inputs + i]);
      }
    }
    if (gradients.x == nullptr) continue;
    for (size_t i = 0; i < dx.size(); ++i) {
      gradients.x[static_cast<size_t>(row * head.inputs) + i] = static_cast<T>(dx[i]);
    }
  }
  args.out[0].as<T>()[0] = static_cast<T>(loss / head.counted);
}

// Every chunk reads the weight again; its logits are scratch, read or written `visits` times.
Cost chunked_cost(const Attrs& attrs, std::span<const ValueType> in, std::span<const ValueType> out,
                  double products, double visits) {
  const auto rows = static_cast<double>(row_count(in[0].shape));
  const auto inputs = static_cast<double>(in[0].shape.back());
  const double logits = rows * static_cast<double>(element_count(in[1].shape)) / inputs;
  const auto chunks = static_cast<int64_t>(attr_or(attrs, "chunks", 1));
  const auto again = static_cast<double>(chunks - 1);
  Cost cost = streaming_cost((2 * inputs * products + 8) * logits, in, out);
  cost.bytes += visits * logits * static_cast<double>(byte_size(in[0].dtype));
  cost.bytes += again * static_cast<double>(in[1].bytes());
  const int64_t most_rows = (row_count(in[0].shape) + chunks - 1) / chunks;
  cost.workspace = in[1].bytes() / in[0].shape.back() * most_rows;
  return cost;
}

Cost cost(const Attrs& attrs, std::span<const ValueType> in, std::span<const ValueType> out) {
  return chunked_cost(attrs, in, out, 1, 2);
}

Cost cost_grad(const Attrs& attrs, std::span<const ValueType> in, std::span<const ValueType> out) {
  const double to_x = is_set(attrs, "grad_x") ? 1 : 0;
  const double to_weight = is_set(attrs, "grad_weight") ? 1 : 0;
  Cost cost = chunked_cost(attrs, in, out, 1 + to_x + to_weight, 3 + to_x + to_weight);
  // dx reads the weight once more per chunk; dW is read and written again.
  const double again = attr_or(attrs, "chunks", 1) - 1;
  cost.bytes += again * (to_x + 2 * to_weight) * static_cast<double>(in[1].bytes());
  return cost;
}

std::vector<InPlace> in_place_grad(const Attrs& attrs, size_t) {
  std::vector<InPlace> pairs;
  int output = 1;
  int input = is_set(attrs, "bias") ? 4 : 3;
  if (is_set(attrs, "grad_x")) pairs.push_back({.output = output++, .input = 0});
  if (is_set(attrs, "accumulate_weight")) pairs.push_back({.output = output, .input = input++});
  if (is_set(attrs, "grad_weight")) ++output;
  if (is_set(attrs, "accumulate_bias")) pairs.push_back({.output = output, .input = input});
  return pairs;
}

// Rows divided evenly and not, padding columns, both ways to store the weight, with and without
// bias, one chunk and as many as rows.
std::vector<Sample> samples() {
  const auto sample = [](ValueType x, ValueType weight, int64_t classes, int64_t chunks) {
    const Shape rows = without_last_axis(x.shape);
    const bool transposed = weight.shape[1] == x.shape.back();
    return Sample{.inputs = {x, weight, i32(rows)},
                  .attrs = {{"transposed", transposed ? 1.0 : 0.0},
                            {"bias", 0},
                            {"classes", static_cast<double>(classes)},
                            {"chunks", static_cast<double>(chunks)}},
                  .integer_limit = {0, 0, classes}};
  };
  std::vector<Sample> all{
      sample(f32({2, 3, 5}), f32({7, 5}), 7, 1), sample(f32({2, 3, 5}), f32({7, 5}), 7, 4),
      sample(f32({6, 3}), f32({3, 5}), 4, 6), sample(f32({5, 3}), f32({3, 8}), 8, 2),
      sample(f32({1, 2}), f32({1, 2}), 1, 1)};
  Sample& biased = all[3];
  biased.inputs.push_back(f32({8}));
  biased.attrs["bias"] = 1;
  biased.integer_limit.push_back(0);
  return all;
}

// Every sample of the loss, with every gradient that can be wanted or added to.
std::vector<Sample> samples_grad() {
  std::vector<Sample> all;
  for (const Sample& loss : samples()) {
    const bool bias = is_set(loss.attrs, "bias");
    for (const int flags : {0, 1, 2, 3, 11, 4, 7, 31}) {
      const auto flag = [&](int bit) { return (flags >> bit & 1) != 0; };
      if (flag(2) && !bias) continue;
      Sample sample = loss;
      sample.attrs["seed"] = 0.75;
      sample.attrs["grad_x"] = flag(0) ? 1 : 0;
      sample.attrs["grad_weight"] = flag(1) ? 1 : 0;
      sample.attrs["grad_bias"] = flag(2) ? 1 : 0;
      sample.attrs["accumulate_weight"] = flag(3) ? 1 : 0;
      sample.attrs["accumulate_bias"] = flag(4) ? 1 : 0;
      if (flag(3)) sample.inputs.push_back(loss.inputs[1]);
      if (flag(4)) sample.inputs.push_back(loss.inputs[3]);
      sample.integer_limit.resize(sample.inputs.size(), 0);
      all.push_back(sample);
    }
  }
  return all;
}

const OpDef kLinearCrossEntropy{
    .name = kLoss,
    .summary = "mean cross-entropy of softmax(x W + bias), in chunks of rows",
    .infer = infer,
    .grad_with_loss = grad_with_loss,
    .cost = cost,
    .reference = by_dtype<reference<float>, reference<double>>,
    .samples = samples,
};
const OpDef kLinearCrossEntropyGrad{
    .name = kGrad,
    .summary = "linear_cross_entropy together with seed times its gradients",
    .infer = infer_grad,
    .cost = cost_grad,
    .reference = by_dtype<reference_grad<float>, reference_grad<double>>,
    .in_place = in_place_grad,
    .samples = samples_grad,
};
const RegisterOp kRegister{kLinearCrossEntropy};
const RegisterOp kRegisterGrad{kLinearCrossEntropyGrad};

}  // namespace

ValueId linear_cross_entropy(Graph& graph, std::string_view name, const OutputHead& head) {
  std::vector<ValueId> inputs{head.x, head.weight, head.targets};
  if (head.bias.valid()) inputs.push_back(head.bias);
  return graph.add_value(kLoss, name, inputs,
                         {{"transposed", head.transposed ? 1.0 : 0.0},
                          {"bias", head.bias.valid() ? 1.0 : 0.0},
                          {"classes", static_cast<double>(head.classes)},
                          {"chunks", static_cast<double>(head.chunks)}});
}

}  // namespace olm2
