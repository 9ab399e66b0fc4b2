// adamw: one step of Adam with decoupled weight decay and the gradient clipped by its global norm.
// Source: Loshchilov and Hutter 2019, algorithm 2; clipping: Pascanu et al. 2013.
#include <algorithm>
#include <cmath>
#include <string>

#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

constexpr double kFlops = 16;         // Per element.
constexpr double kNormMargin = 1e-6;  // Keeps the clipping factor finite at norm 0.

// The inputs.
constexpr size_t kParameter = 0;
constexpr size_t kGradient = 1;
constexpr size_t kM = 2;
constexpr size_t kV = 3;
constexpr size_t kNorm = 4;
constexpr size_t kRates = 5;

void expect_options(const Attrs& attrs) {
  for (const std::string_view key : {"beta1", "beta2"}) {
    const double beta = required_attr("adamw", attrs, key);
    if (beta >= 0 && beta < 1) continue;
    throw Error("adamw: " + std::string(key) + " is " + std::to_string(beta) +
                ", expected at least 0 and below 1");
  }
  for (const std::string_view key : {"epsilon", "weight_decay", "grad_clip"}) {
    if (required_attr("adamw", attrs, key) >= 0) continue;
    throw Error("adamw: " + std::string(key) + " is " + std::to_string(attr_or(attrs, key, 0)) +
                ", expected at least 0");
  }
}

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> in) {
  expect_count("adamw", in, 6, "parameter, gradient, m, v, norm, rates");
  expect_options(attrs);
  const ValueType& parameter = in[kParameter];
  expect_floating("adamw", "parameter", parameter);
  expect_type("adamw", "gradient", in[kGradient], parameter, "like the parameter");
  const ValueType moment{parameter.shape, sum_dtype(parameter.dtype)};
  expect_type("adamw", "m", in[kM], moment, "to fit the parameter");
  expect_type("adamw", "v", in[kV], moment, "to fit the parameter");
  expect_type("adamw", "norm", in[kNorm], {{1}, moment.dtype});
  expect_type("adamw", "rates", in[kRates], {{3}, moment.dtype},
              "{learning rate, 1 - beta1^t, 1 - beta2^t}");
  return {parameter, moment, moment};
}

template <typename T>
void keep_unchanged(const KernelArgs& args) {
  start_from<T>(args.out[0], &args.in[kParameter]);
  start_from<T>(args.out[1], &args.in[kM]);
  start_from<T>(args.out[2], &args.in[kV]);
}

template <typename T>
void reference(const KernelArgs& args) {
  const double norm = args.in[kNorm].as<T>()[0];
  if (!std::isfinite(norm)) return keep_unchanged<T>(args);
  const double clip = attr_or(args.attrs, "grad_clip", 0);
  const double factor = clip > 0 ? std::min(1.0, clip / (norm + kNormMargin)) : 1.0;
  const double beta1 = attr_or(args.attrs, "beta1", 0);
  const double beta2 = attr_or(args.attrs, "beta2", 0);
  const double epsilon = attr_or(args.attrs, "epsilon", 0);
  const double decay = attr_or(args.attrs, "weight_decay", 0);
  const T* const rates = args.in[kRates].as<T>();
  for (int64_t i = 0; i < args.out[0].elements(); ++i) {
    const double g = factor * args.in[kGradient].as<T>()[i];
    const double m = beta1 * args.in[kM].as<T>()[i] + (1 - beta1) * g;
    const double v = beta2 * args.in[kV].as<T>()[i] + (1 - beta2) * g * g;
    const double p = args.in[kParameter].as<T>()[i];
    const double step = (m / rates[1]) / (std::sqrt(v / rates[2]) + epsilon);
    args.out[0].as<T>()[i] = static_cast<T>(p - rates[0] * (decay * p + step));
    args.out[1].as<T>()[i] = static_cast<T>(m);
    args.out[2].as<T>()[i] = static_cast<T>(v);
  }
}

const OpDef kAdamW{
    .name = "adamw",
    .summary = "one AdamW step on a parameter and its two moments",
    .infer = infer,
    .cost =
        [](const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
          return streaming_cost(kFlops * static_cast<double>(element_count(in[0].shape)), in, out);
        },
    .reference = by_dtype<reference<float>, reference<double>>,
    .in_place = [](const Attrs&, size_t) -> std::vector<InPlace> {
      return {{.output = 0, .input = kParameter},
              {.output = 1, .input = kM},
              {.output = 2, .input = kV}};
    },
    .samples = []() -> std::vector<Sample> {
      const Attrs attrs{{"beta1", 0.9},
                        {"beta2", 0.95},
                        {"epsilon", 1e-8},
                        {"weight_decay", 0.1},
                        {"grad_clip", 0.5}};
      Attrs unclipped = attrs;
      unclipped["grad_clip"] = 0;
      unclipped["weight_decay"] = 0;
      const auto types = [](const Shape& shape) -> std::vector<ValueType> {
        return {f32(shape), f32(shape), f32(shape), f32(shape), f32({1}), f32({3})};
      };
      return {{.inputs = types({3, 5}), .attrs = attrs, .positive_inputs = {kV, kNorm, kRates}},
              {.inputs = types({7}), .attrs = unclipped, .positive_inputs = {kV, kNorm, kRates}}};
    },
};
const RegisterOp kRegister{kAdamW};

}  // namespace

NodeId adamw(Graph& graph, std::string_view name, ValueId parameter, ValueId gradient, ValueId m,
             ValueId v, ValueId norm, ValueId rates, const AdamW& options) {
  return graph.add("adamw", name, {parameter, gradient, m, v, norm, rates},
                   {{"beta1", options.beta1},
                    {"beta2", options.beta2},
                    {"epsilon", options.epsilon},
                    {"weight_decay", options.weight_decay},
                    {"grad_clip", options.grad_clip}});
}

}  // namespace olm2
