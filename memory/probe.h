// Measures what a link between two tiers gives, alone and beside computing.
#pragma once

#include <cstdint>
#include <functional>

#include "core/profile.h"
#include "core/tier.h"

namespace olm2 {

struct ProbeOptions {
  int64_t bytes = int64_t{32} << 20;  // Of one copy: beyond every cache.
  int copies = 12;                    // Timed alone; and as many runs of computing, beside copies.
  double percentile = 0.1;            // Of the bandwidths measured; the promise of the link.
};

// `lane` joins two tiers that are main memory (device and host of the CPU backend).  `compute`
// runs a piece of typical computing, of some milliseconds.
//   bytes_per_s       low percentile of single copies, alone and beside `compute`
//   latency_s         median time from the end of an instruction to the end of a one-line copy that
//                     waited for it, while `compute` goes on
//   compute_slowdown  median time of `compute` while the lane copies without a pause, divided by
//                     its median time alone; at least 1
// Throws Error if memory is missing, and what `compute` throws.
LinkProfile probe_link(Lane lane, const std::function<void()>& compute,
                       const ProbeOptions& options = {});

}  // namespace olm2
