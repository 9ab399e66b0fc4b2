#include "planner/realize.h"

namespace olm2 {

Realized realize(const Problem& problem, const Plan& plan) {
  Realized result{.plan = plan, .schedule = lower(problem, plan)};
  place(problem, result.schedule);
  add_waits(problem, result.schedule);
  result.seconds = simulate(problem, result.schedule).seconds;
  return result;
}

BytesPerTier placed_bytes(const Problem& problem, const Plan& plan) {
  Schedule schedule = lower(problem, plan);
  place(problem, schedule);
  return schedule.arena;
}

bool is_within(const BytesPerTier& bytes, const BytesPerTier& budget) {
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    if (bytes[tier] > budget[tier]) return false;
  }
  return true;
}

}  // namespace olm2
