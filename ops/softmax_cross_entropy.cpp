// softmax_cross_entropy: the loss of a language model, from logits, without storing probabilities.
//   lse = log sum exp logits,  loss = mean of (lse - logits[target]),
//   dlogits = dloss / count (exp(logits - lse) - [column is the target]).
// Columns from `classes` on are padding and never read; rows with a target < 0 are ignored.  Where
// every target is ignored, loss and gradient are 0.
#include <algorithm>
#include <cmath>
#include <string>

#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

int64_t expect_classes(std::string_view op, const Attrs& attrs, const ValueType& logits) {
  const int64_t classes = required_size(op, attrs, "classes");
  if (classes <= logits.shape.back()) return classes;
  throw Error(std::string(op) + ": " + std::to_string(classes) + " classes, but logits are " +
              to_string(logits));
}

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> in) {
  constexpr std::string_view op = "softmax_cross_entropy";
  expect_count(op, in, 2, "logits, targets");
  expect_floating(op, "logits", in[0], 1);
  expect_classes(op, attrs, in[0]);
  const Shape rows = without_last_axis(in[0].shape);
  expect_type(op, "targets", in[1], {rows, DType::i32}, "to fit logits " + to_string(in[0]));
  const DType sums = sum_dtype(in[0].dtype);
  return {{{1}, sums}, {rows, sums}};
}

std::vector<ValueType> infer_grad(const Attrs& attrs, std::span<const ValueType> in) {
  constexpr std::string_view op = "softmax_cross_entropy_grad";
  expect_count(op, in, 4, "logits, targets, lse, dloss");
  expect_floating(op, "logits", in[0], 1);
  expect_classes(op, attrs, in[0]);
  const Shape rows = without_last_axis(in[0].shape);
  const std::string because = "to fit logits " + to_string(in[0]);
  expect_type(op, "targets", in[1], {rows, DType::i32}, because);
  const DType sums = sum_dtype(in[0].dtype);
  expect_type(op, "lse", in[2], {rows, sums}, because);
  expect_type(op, "dloss", in[3], {{1}, sums});
  return {in[0]};
}

std::vector<ValueId> grad(const GradRequest& request) {
  expect_only_first_output(request);
  const Node& node = request.node;
  const ValueId dlogits = request.graph.add_value(
      "softmax_cross_entropy_grad", request.name("grad"),
      {node.inputs[0], node.inputs[1], node.outputs[1], request.output_grads[0]}, node.attrs);
  return {add_to(request, 0, dlogits), {}};
}

// How many rows the mean is over, at least 1.
double counted_rows(const Tensor& targets) {
  const int32_t* const first = targets.as<int32_t>();
  const auto counted =
      std::count_if(first, first + targets.elements(), [](int32_t target) { return target >= 0; });
  return std::max(1.0, static_cast<double>(counted));
}

template <typename T>
double log_sum_exp(const T* logits, int64_t classes) {
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - largest);
  return largest + std::log(sum);
}

template <typename T>
void reference(const KernelArgs& args) {
  const int64_t width = args.in[0].shape().back();
  const auto classes = static_cast<int64_t>(attr_or(args.attrs, "classes", 0));
  const int32_t* const targets = args.in[1].as<int32_t>();
  double sum = 0;
  for (int64_t row = 0; row < args.in[1].elements(); ++row) {
    const T* const logits = args.in[0].as<T>() + row * width;
    const double lse = log_sum_exp(logits, classes);
    args.out[1].as<T>()[row] = static_cast<T>(lse);
    if (targets[row] >= 0) sum += lse - logits[targets[row]];
  }
  args.out[0].as<T>()[0] = static_cast<T>(sum / counted_rows(args.in[1]));
}

template <typename T>
void reference_grad(const KernelArgs& args) {
  const int64_t width = args.in[0].shape().back();
  const auto classes = static_cast<int64_t>(attr_or(args.attrs, "classes", 0));
  const int32_t* const targets = args.in[1].as<int32_t>();
  const double scale = args.in[3].as<T>()[0] / counted_rows(args.in[1]);
  for (int64_t row = 0; row < args.in[1].elements(); ++row) {
    const T* const logits = args.in[0].as<T>() + row * width;
    const double lse = args.in[2].as<T>()[row];
    T* const dlogits = args.out[0].as<T>() + row * width;
    for (int64_t c = 0; c < width; ++c) {
      const bool takes_part = c < classes && targets[row] >= 0;
      const double hit = c == targets[row] ? 1 : 0;
      dlogits[c] = takes_part ? static_cast<T>(scale * (std::exp(logits[c] - lse) - hit)) : T{0};
    }
  }
}

Cost cost(const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
  return streaming_cost(8 * static_cast<double>(element_count(in[0].shape)), in, out);
}

std::vector<Sample> samples() {
  return {
      {.inputs = {f32({2, 3, 7}), i32({2, 3})}, .attrs = {{"classes", 7}}, .integer_limit = {0, 7}},
      {.inputs = {f32({5, 8}), i32({5})}, .attrs = {{"classes", 5}}, .integer_limit = {0, 5}},
      {.inputs = {f32({1, 1}), i32({1})}, .attrs = {{"classes", 1}}, .integer_limit = {0, 1}}};
}

std::vector<Sample> samples_grad() {
  return {{.inputs = {f32({2, 3, 7}), i32({2, 3}), f32({2, 3}), f32({1})},
           .attrs = {{"classes", 7}},
           .integer_limit = {0, 7, 0, 0}},
          {.inputs = {f32({5, 8}), i32({5}), f32({5}), f32({1})},
           .attrs = {{"classes", 5}},
           .integer_limit = {0, 5, 0, 0}}};
}

const OpDef kSoftmaxCrossEntropy{
    .name = "softmax_cross_entropy",
    .summary = "mean cross-entropy of softmax(logits) against targets, in nats",
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .reference = by_dtype<reference<float>, reference<double>>,
    .samples = samples,
};
const OpDef kSoftmaxCrossEntropyGrad{
    .name = "softmax_cross_entropy_grad",
    .summary = "gradient of softmax_cross_entropy by the logits",
    .infer = infer_grad,
    .cost = cost,
    .reference = by_dtype<reference_grad<float>, reference_grad<double>>,
    .in_place = [](const Attrs&, size_t) -> std::vector<InPlace> {
      return {{.output = 0, .input = 0}};
    },
    .samples = samples_grad,
};
const RegisterOp kRegister{kSoftmaxCrossEntropy};
const RegisterOp kRegisterGrad{kSoftmaxCrossEntropyGrad};

}  // namespace

ValueId softmax_cross_entropy(Graph& graph, std::string_view name, ValueId logits, ValueId targets,
                              int64_t classes) {
  return graph.add_value("softmax_cross_entropy", name, {logits, targets},
                         {{"classes", static_cast<double>(classes)}});
}

}  // namespace olm2
