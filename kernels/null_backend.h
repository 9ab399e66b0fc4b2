// A device that does nothing in no time: for tests of planners and executors, which care about
// addresses and order only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/backend.h"

namespace olm2 {

class NullBackend : public Backend {
 public:
  // Every node asks for this much scratch.
  explicit NullBackend(int64_t workspace_bytes = 0) : workspace_bytes_(workspace_bytes) {}
  std::string_view name() const override { return "null"; }
  std::string description() const override { return "null: computes nothing"; }
  int64_t alignment() const override { return 64; }
  std::unique_ptr<Kernel> prepare(const Graph&, const Node&) override {
    return std::make_unique<Nothing>(workspace_bytes_);
  }

 private:
  class Nothing : public Kernel {
   public:
    explicit Nothing(int64_t workspace_bytes) : workspace_bytes_(workspace_bytes) {}
    int64_t workspace_bytes() const override { return workspace_bytes_; }
    void run(std::span<const Tensor>, std::span<const Tensor>, void*) override {}

   private:
    int64_t workspace_bytes_;
  };

  int64_t workspace_bytes_;
};

}  // namespace olm2
