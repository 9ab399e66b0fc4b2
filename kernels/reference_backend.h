// Runs every node by its op's reference kernel: slow, short, right, in f32 and f64.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/backend.h"

namespace olm2 {

// The reference kernel of the node's op.  Throws Error if it has none.
std::unique_ptr<Kernel> make_reference_kernel(const Node& node);

// Throws Error that names the node if one of its operands is of a type `backend` does not compute.
void expect_computable(const Backend& backend, const Graph& graph, const Node& node);

class ReferenceBackend : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  std::string description() const override { return "reference kernels, 1 thread"; }
  int64_t alignment() const override { return 64; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override {
    expect_computable(*this, graph, node);
    return make_reference_kernel(node);
  }
};

}  // namespace olm2
