#include "planner/realize.h"

#include <algorithm>

#include "planner/relieve.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);

}  // namespace

Realized realize(const Problem& problem, const Plan& plan, const PlaceOptions& options) {
  Realized result{.plan = plan, .schedule = lower(problem, plan)};
  place(problem, result.schedule, options);
  add_waits(problem, result.schedule);
  result.seconds = simulate(problem, result.schedule).seconds;
  return result;
}

Realized squeeze(const Problem& problem, const Realized& placed, const PlaceOptions& options) {
  constexpr int kRounds = 8;
  PlaceOptions enough = options;
  enough.enough[kDevice] = problem.budget[kDevice];
  Realized best = placed;
  Realized last = placed;
  for (int round = 0; round < kRounds && !is_within(best.schedule.arena, problem.budget); ++round) {
    const std::optional<Plan> relieved =
        relieve(problem, last.plan, last.schedule, problem.budget[kDevice]);
    if (!relieved) break;
    last = realize(problem, *relieved, enough);
    if (last.schedule.arena[kDevice] < best.schedule.arena[kDevice]) best = last;
  }
  return best;
}

Realized trim(const Problem& problem, Realized placed, double seconds,
              const PlaceOptions& options) {
  constexpr int kRounds = 6;
  constexpr double kNoticeable = 1.005;
  seconds = std::max(seconds, placed.seconds);
  Realized last = placed;
  for (int round = 0; round < kRounds; ++round) {
    const auto live = static_cast<double>(replay(problem, placed.plan).peak[kDevice]);
    if (static_cast<double>(placed.schedule.arena[kDevice]) <= kNoticeable * live) break;
    const std::optional<Plan> relieved =
        relieve(problem, last.plan, last.schedule, static_cast<int64_t>(live));
    if (!relieved) break;
    last = realize(problem, *relieved, options);
    const bool is_better = last.seconds <= seconds &&
                           last.schedule.arena[kDevice] < placed.schedule.arena[kDevice] &&
                           is_within(last.schedule.arena, problem.budget);
    if (is_better) placed = last;
  }
  return placed;
}

BytesPerTier placed_bytes(const Problem& problem, const Plan& plan, const PlaceOptions& options) {
  Schedule schedule = lower(problem, plan);
  place(problem, schedule, options);
  return schedule.arena;
}

bool is_within(const BytesPerTier& bytes, const BytesPerTier& budget) {
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    if (bytes[tier] > budget[tier]) return false;
  }
  return true;
}

}  // namespace olm2
