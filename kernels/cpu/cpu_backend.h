// The CPU as a device: for each op the fast kernel of kernels/cpu, else the op's reference kernel.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/backend.h"

namespace olm2 {

struct CpuOptions {
  int threads = 0;         // 0: all of the machine, or OMP_NUM_THREADS.
  bool use_onednn = true;  // Where the build has it; otherwise Eigen.
};

// Kernels may be run from any thread, one at a time; the constructing one has its team of OpenMP
// threads ready, another allocates it when it first runs a kernel.  Graphs in f64 run on reference
// kernels.
class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options = {});
  std::string_view name() const override { return "cpu"; }
  std::string description() const override;  // "cpu (oneDNN 2.6.3, AVX-512, 2 threads)"
  int64_t alignment() const override { return 64; }
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override;
  int threads() const { return threads_; }

 private:
  int threads_;
  bool use_onednn_;
};

}  // namespace olm2
