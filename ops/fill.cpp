// fill: a value without inputs, every element the same.  The seed of a differentiation.
#include <algorithm>
#include <string>

#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> in) {
  expect_count("fill", in, 0, "none");
  required_attr("fill", attrs, "value");
  ValueType type{{}, is_set(attrs, "f64") ? DType::f64 : DType::f32};
  for (size_t axis = 0;; ++axis) {
    const double size = attr_or(attrs, "d" + std::to_string(axis), -1);
    if (size < 0) return {type};
    type.shape.push_back(static_cast<int64_t>(size));
  }
}

template <typename T>
void reference(const KernelArgs& args) {
  const auto value = static_cast<T>(attr_or(args.attrs, "value", 0));
  std::fill_n(args.out[0].as<T>(), args.out[0].elements(), value);
}

const OpDef kFill{
    .name = "fill",
    .summary = "a value whose elements are all the same number",
    .infer = infer,
    .cost = [](const Attrs&, std::span<const ValueType> in,
               std::span<const ValueType> out) { return streaming_cost(0, in, out); },
    .reference = by_dtype<reference<float>, reference<double>>,
    .samples = []() -> std::vector<Sample> {
      return {{.attrs = {{"value", 0.75}}},
              {.attrs = {{"value", -3}, {"d0", 3}, {"d1", 5}}},
              {.attrs = {{"value", 0.1}, {"d0", 7}, {"f64", 1}}}};
    },
};
const RegisterOp kRegister{kFill};

}  // namespace

ValueId fill(Graph& graph, std::string_view name, ValueType type, double value) {
  expect_floating("fill", name, type);
  Attrs attrs{{"value", value}, {"f64", type.dtype == DType::f64 ? 1.0 : 0.0}};
  for (size_t axis = 0; axis < type.shape.size(); ++axis) {
    attrs["d" + std::to_string(axis)] = static_cast<double>(type.shape[axis]);
  }
  return graph.add_value("fill", name, {}, attrs);
}

}  // namespace olm2
