// select_position: one token's vector of each sequence, all that sampling needs of the head.
#include <algorithm>

#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

std::vector<ValueType> infer(const Attrs&, std::span<const ValueType> in) {
  expect_count("select_position", in, 2, "x, position");
  expect_floating("select_position", "x", in[0]);
  expect_axes("select_position", "x", in[0], 3);
  const Shape& x = in[0].shape;
  expect_type("select_position", "position", in[1], {{x[0]}, DType::i32},
              "to fit x " + to_string(in[0]));
  return {{{x[0], x[2]}, in[0].dtype}};
}

template <typename T>
void reference(const KernelArgs& args) {
  const Shape& x = args.in[0].shape();
  const int32_t* const position = args.in[1].as<int32_t>();
  for (int64_t b = 0; b < x[0]; ++b) {
    const T* const row = args.in[0].as<T>() + (b * x[1] + position[b]) * x[2];
    std::copy_n(row, x[2], args.out[0].as<T>() + b * x[2]);
  }
}

const OpDef kSelectPosition{
    .name = "select_position",
    .summary = "x[b, position[b], :]",
    .infer = infer,
    .cost =
        [](const Attrs&, std::span<const ValueType>, std::span<const ValueType> out) {
          return Cost{.flops = 0, .bytes = 2 * static_cast<double>(out[0].bytes())};
        },
    .reference = by_dtype<reference<float>, reference<double>>,
    .samples = []() -> std::vector<Sample> {
      return {{.inputs = {f32({2, 5, 3}), i32({2})}, .integer_limit = {0, 5}},
              {.inputs = {f32({1, 1, 1}), i32({1})}, .integer_limit = {0, 1}}};
    },
};
const RegisterOp kRegister{kSelectPosition};

}  // namespace

ValueId select_position(Graph& graph, std::string_view name, ValueId x, ValueId position) {
  return graph.add_value("select_position", name, {x, position});
}

}  // namespace olm2
