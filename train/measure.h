// Where a Profile comes from: measured kernel by kernel, estimated, or read from a file.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/profile.h"
#include "core/schedule.h"
#include "memory/arena.h"

namespace olm2 {

// Adds to `profile` every kernel of the graph that it lacks: run alone on operands of the right
// sizes, once to warm up and then at least three times and 20 ms, median kept.  Needs memory for
// one node's operands at a time.  `progress` is called with (kernels done, kernels in all).
void measure_kernels(std::span<const Graph* const> graphs, Backend& backend, Profile& profile,
                     const std::function<void(size_t, size_t)>& progress = {});

// One kernel with operands of its own, ready to run again and again.
class KernelRunner {
 public:
  KernelRunner(const Graph& graph, const Node& node, Backend& backend);
  void run() const;
  double timed_run() const;  // Seconds.
  int64_t workspace_bytes() const { return kernel_->workspace_bytes(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  Arena arena_;
  std::vector<Tensor> tensors_;
  size_t inputs_ = 0;
};

// Of the kernels of `graphs`, the one that takes longest by the profile.
KernelRunner most_expensive_kernel(std::span<const Graph* const> graphs, Backend& backend,
                                   const Profile& profile);

// The same from FLOPs and bytes; workspaces are the backend's, or where it does not
// compute such types the least that the op needs (Cost).
void estimate_kernels(std::span<const Graph* const> graphs, Backend& backend, Profile& profile);

// Copies what the profile knows into the problem.  Throws Error naming a kernel that it neither
// lists nor can estimate.
void apply_profile(const Profile& profile, Problem& problem);

// JSON text, byte-equal for equal profiles.
std::string to_json(const Profile& profile);
// Throws Error that names `origin` and what is wrong.
Profile parse_profile(const std::string& text, const std::string& origin);

}  // namespace olm2
