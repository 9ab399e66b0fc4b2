#include "kernels/reference_backend.h"

#include <string>

#include "core/error.h"

namespace olm2 {
namespace {

class ReferenceRunner : public Kernel {
 public:
  explicit ReferenceRunner(const Node& node) : attrs_(node.attrs), kernel_(node.op->reference) {}
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void*) override {
    kernel_({.attrs = attrs_, .in = in, .out = out});
  }

 private:
  Attrs attrs_;
  ReferenceKernel kernel_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> make_reference_kernel(const Node& node) {
  if (node.op->reference == nullptr) {
    throw Error("node '" + node.name + "': op '" + std::string(node.op->name) +
                "' has no reference kernel");
  }
  return std::make_unique<ReferenceRunner>(node);
}

void expect_computable(const Backend& backend, const Graph& graph, const Node& node) {
  for (const std::vector<ValueId>* operands : {&node.inputs, &node.outputs}) {
    for (const ValueId value : *operands) {
      if (backend.computes(graph.type(value).dtype)) continue;
      throw Error("backend " + std::string(backend.name()) + ": node '" + node.name +
                  "' has the operand " + to_string(graph.type(value)) +
                  ", which it cannot compute with; train with train.dtype = \"float32\" (bfloat16 "
                  "can be planned by olm2-plan with planner.profile = \"estimate\" or a profile "
                  "file)");
    }
  }
}

}  // namespace olm2
