// global_norm: the length of all gradients laid end to end, for clipping and for the log.
// Blocks of a fixed number of elements are summed in double, then the blocks in order: the bits
// depend on no number of threads.  Source: Pascanu et al. 2013, section 3.2.
#include <algorithm>
#include <cmath>
#include <string>

#include "ops/operands.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

constexpr int64_t kBlock = 4096;  // Elements.

std::vector<ValueType> infer(const Attrs&, std::span<const ValueType> in) {
  if (in.empty()) throw Error("global_norm: got no inputs, expected at least 1");
  for (size_t i = 0; i < in.size(); ++i) {
    const std::string operand = "input " + std::to_string(i);
    expect_floating("global_norm", operand, in[i]);
    expect_type("global_norm", operand, in[i], {in[i].shape, in[0].dtype}, "like the first input");
  }
  return {{{1}, sum_dtype(in[0].dtype)}};
}

template <typename T>
void reference(const KernelArgs& args) {
  double total = 0;
  for (const Tensor& tensor : args.in) {
    const T* const x = tensor.as<T>();
    for (int64_t begin = 0; begin < tensor.elements(); begin += kBlock) {
      const int64_t end = std::min(begin + kBlock, tensor.elements());
      double sum = 0;
      for (int64_t i = begin; i < end; ++i) sum += static_cast<double>(x[i]) * x[i];
      total += sum;
    }
  }
  args.out[0].as<T>()[0] = static_cast<T>(std::sqrt(total));
}

Cost cost(const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
  double flops = 0;
  for (const ValueType& type : in) flops += 2 * static_cast<double>(element_count(type.shape));
  return streaming_cost(flops, in, out);
}

const OpDef kGlobalNorm{
    .name = "global_norm",
    .summary = "Euclidean norm over all inputs together",
    .infer = infer,
    .cost = cost,
    .reference = by_dtype<reference<float>, reference<double>>,
    .samples = []() -> std::vector<Sample> {
      return {{.inputs = {f32({1})}}, {.inputs = {f32({3, 5}), f32({7}), f32({5003})}}};
    },
};
const RegisterOp kRegister{kGlobalNorm};

}  // namespace

ValueId global_norm(Graph& graph, std::string_view name, const std::vector<ValueId>& values) {
  return graph.add_value("global_norm", name, values);
}

}  // namespace olm2
