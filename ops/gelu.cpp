// gelu: the smooth gate of the feed-forward layer, in the tanh form GPT-2 was trained with.
//   y = x (1 + tanh u) / 2,  u = k (x + a x^3),  k = sqrt(2 / pi),  a = 0.044715.
// Source: Hendrycks and Gimpel 2016, section 2.
#include <cmath>

#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

constexpr double kScale = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kCubic = 0.044715;
constexpr double kFlops = 12;  // Per element, with tanh counted as a handful.

std::vector<ValueType> infer(const Attrs&, std::span<const ValueType> in) {
  expect_count("gelu", in, 1, "x");
  expect_floating("gelu", "x", in[0]);
  return {in[0]};
}

std::vector<ValueType> infer_grad(const Attrs&, std::span<const ValueType> in) {
  expect_count("gelu_grad", in, 2, "x, dy");
  expect_floating("gelu_grad", "x", in[0]);
  expect_type("gelu_grad", "dy", in[1], in[0], "like x");
  return {in[0]};
}

std::vector<ValueId> grad(const GradRequest& request) {
  const ValueId dx = request.graph.add_value("gelu_grad", request.name("grad"),
                                             {request.node.inputs[0], request.output_grads[0]});
  return {add_to(request, 0, dx)};
}

template <typename T>
void reference(const KernelArgs& args) {
  const T* const x = args.in[0].as<T>();
  T* const y = args.out[0].as<T>();
  for (int64_t i = 0; i < args.out[0].elements(); ++i) {
    const double v = x[i];
    y[i] = static_cast<T>(0.5 * v * (1 + std::tanh(kScale * (v + kCubic * v * v * v))));
  }
}

template <typename T>
void reference_grad(const KernelArgs& args) {
  const T* const x = args.in[0].as<T>();
  const T* const dy = args.in[1].as<T>();
  T* const dx = args.out[0].as<T>();
  for (int64_t i = 0; i < args.out[0].elements(); ++i) {
    const double v = x[i];
    const double tanh_u = std::tanh(kScale * (v + kCubic * v * v * v));
    const double du = kScale * (1 + 3 * kCubic * v * v);
    dx[i] = static_cast<T>(dy[i] * (0.5 * (1 + tanh_u) + 0.5 * v * (1 - tanh_u * tanh_u) * du));
  }
}

Cost cost(const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
  return streaming_cost(kFlops * static_cast<double>(element_count(out[0].shape)), in, out);
}

const OpDef kGelu{
    .name = "gelu",
    .summary = "Gaussian error linear unit, tanh form",
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .reference = by_dtype<reference<float>, reference<double>>,
    .samples = []() -> std::vector<Sample> {
      return {{.inputs = {f32({1})}}, {.inputs = {f32({3, 5, 7})}}};
    },
};
const OpDef kGeluGrad{
    .name = "gelu_grad",
    .summary = "gradient of gelu",
    .infer = infer_grad,
    .cost = cost,
    .reference = by_dtype<reference_grad<float>, reference_grad<double>>,
    .in_place = [](const Attrs&, size_t) -> std::vector<InPlace> {
      return {{.output = 0, .input = 1}};
    },
    .samples = []() -> std::vector<Sample> {
      return {{.inputs = {f32({1}), f32({1})}}, {.inputs = {f32({3, 5, 7}), f32({3, 5, 7})}}};
    },
};
const RegisterOp kRegister{kGelu};
const RegisterOp kRegisterGrad{kGeluGrad};

}  // namespace

ValueId gelu(Graph& graph, std::string_view name, ValueId x) {
  return graph.add_value("gelu", name, {x});
}

}  // namespace olm2
