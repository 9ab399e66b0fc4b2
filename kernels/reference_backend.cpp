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

}  // namespace olm2
