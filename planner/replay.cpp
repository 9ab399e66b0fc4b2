#include <algorithm>

#include "planner/planner.h"
#include "planner/trace.h"

namespace olm2 {

Occupancy replay(const Problem& problem, const Plan& plan) {
  const PlanTrace trace = trace_plan(problem, plan);
  const size_t steps = plan.steps.size();
  BytesPerTier start{};
  for (const Tier tier : kTiers) {
    start[index_of(tier)] = padded(problem.state_bytes_in(tier), problem.alignment);
  }
  std::vector<BytesPerTier> change(steps + 1);
  for (const Stay& stay : trace.stays) {
    if (stay.is_home) continue;
    const size_t tier = index_of(stay.tier);
    if (stay.begin < 0) {
      start[tier] += stay.bytes;
    } else {
      change[static_cast<size_t>(stay.begin)][tier] += stay.bytes;
    }
    if (stay.end != kNeverDropped) change[static_cast<size_t>(stay.end)][tier] -= stay.bytes;
  }
  Occupancy result;
  result.peak = start;
  BytesPerTier now = start;
  for (size_t k = 0; k < steps; ++k) {
    for (size_t tier = 0; tier < kTierCount; ++tier) now[tier] += change[k][tier];
    if (now[index_of(Tier::device)] > result.peak[index_of(Tier::device)]) {
      result.peak_step = static_cast<int32_t>(k);
    }
    for (size_t tier = 0; tier < kTierCount; ++tier) {
      result.peak[tier] = std::max(result.peak[tier], now[tier]);
    }
    result.per_step.push_back(now);
  }
  return result;
}

}  // namespace olm2
