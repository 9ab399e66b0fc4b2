// How long things take: the planner's only knowledge of a machine.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/tier.h"

namespace olm2 {

struct KernelProfile {
  double seconds = 0;  // With operands that were just used: how nodes of a step follow each other.
  int64_t workspace_bytes = 0;
  double cold_seconds = 0;  // With operands in no cache, as when it runs again; >= seconds.
};

struct LinkProfile {
  double bytes_per_s = 0;  // A low percentile of what was measured; 0: the link does not exist.
  double latency_s = 0;
  // While a copy runs on this link, computing takes this many times as long (>= 1).
  double compute_slowdown = 1;
};

// What a kernel takes where nothing is measured: a launch, and then arithmetic or traffic,
// whichever is slower (Williams et al. 2009).
struct Roofline {
  double flops_per_s = 100e9;
  double bytes_per_s = 20e9;
  double launch_s = 5e-6;
};

struct Profile {
  std::string device;  // "Xeon ..., 2 threads, oneDNN 2.6.3": who was measured, for people.
  std::string source;  // "measured" | "estimated" | a file name.
  std::map<std::string, KernelProfile> kernels;  // By signature() of a node.
  std::optional<Roofline> roofline = {};         // For kernels that are not listed.
  LinkProfile device_to_host;
  LinkProfile host_to_device;
};

}  // namespace olm2
