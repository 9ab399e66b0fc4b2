// add: the residual connection, and the sum of gradients.
#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

std::vector<ValueType> infer(const Attrs&, std::span<const ValueType> in) {
  expect_count("add", in, 2, "a, b");
  expect_floating("add", "a", in[0]);
  expect_type("add", "b", in[1], in[0], "like a");
  return {in[0]};
}

// The gradient of a sum is handed through: no node at all unless there is something to add to.
std::vector<ValueId> grad(const GradRequest& request) {
  std::vector<ValueId> grads(2);
  for (size_t i = 0; i < 2; ++i) {
    if (request.wanted[i]) grads[i] = add_to(request, i, request.output_grads[0]);
  }
  return grads;
}

template <typename T>
void reference(const KernelArgs& args) {
  const T* const a = args.in[0].as<T>();
  const T* const b = args.in[1].as<T>();
  T* const y = args.out[0].as<T>();
  for (int64_t i = 0; i < args.out[0].elements(); ++i) y[i] = a[i] + b[i];
}

const OpDef kAdd{
    .name = "add",
    .summary = "a + b, element by element",
    .infer = infer,
    .grad = grad,
    .cost =
        [](const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
          return streaming_cost(static_cast<double>(element_count(in[0].shape)), in, out);
        },
    .reference = by_dtype<reference<float>, reference<double>>,
    .in_place = [](const Attrs&, size_t) -> std::vector<InPlace> {
      return {{.output = 0, .input = 0}, {.output = 0, .input = 1}};
    },
    .samples = []() -> std::vector<Sample> {
      return {{.inputs = {f32({1}), f32({1})}}, {.inputs = {f32({2, 3, 5}), f32({2, 3, 5})}}};
    },
};
const RegisterOp kRegister{kAdd};

}  // namespace

ValueId add(Graph& graph, std::string_view name, ValueId a, ValueId b) {
  return graph.add_value("add", name, {a, b});
}

}  // namespace olm2
