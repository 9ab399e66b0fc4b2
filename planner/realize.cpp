#include "planner/realize.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include "planner/relieve.h"
#include "planner/trace.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);

// Which part of what a place is for.
using Purpose = std::tuple<Tier, int32_t, int32_t, int64_t, int64_t>;

Purpose purpose_of(const Stay& stay) {
  return {stay.tier, stay.value.index, stay.node.index, stay.range.begin, stay.range.end};
}

// For each buffer of `plan` the offset of its like in `placed`, the k-th of its purpose for the
// k-th; -1 if there is none.
std::vector<int64_t> offsets_for(const Problem& problem, const Plan& plan, const Realized& placed) {
  std::map<Purpose, std::deque<int64_t>> known;
  const PlanTrace before = trace_plan(problem, placed.plan);
  for (size_t k = 0; k < before.stays.size(); ++k) {
    known[purpose_of(before.stays[k])].push_back(placed.schedule.buffers[k].offset);
  }
  std::vector<int64_t> offsets;
  for (const Stay& stay : trace_plan(problem, plan).stays) {
    std::deque<int64_t>& left = known[purpose_of(stay)];
    offsets.push_back(left.empty() ? -1 : left.front());
    if (!left.empty()) left.pop_front();
  }
  return offsets;
}

// A plan that is brought below a limit step by step: at first few buffers move, then bytes that are
// on their way are given up where something still lies above the limit, and few move again.
class Squeezing {
 public:
  Squeezing(const Problem& problem, const Realized& placed, const PlaceOptions& options)
      : problem_(problem), last_(placed), options_(options) {
    options_.effort = std::max(options_.effort, 1);
    most_effort_ = 8 * options_.effort;
  }

  // The next plan; null if there is nothing left to give up.
  const Realized* next(int64_t limit) {
    const std::optional<Plan> plan =
        is_first_ ? last_.plan : relieve(problem_, last_.plan, last_.schedule, limit);
    is_first_ = false;
    if (!plan) return nullptr;
    options_.enough[kDevice] = limit;
    options_.start = offsets_for(problem_, *plan, last_);
    const int64_t before = last_.schedule.arena[kDevice];
    last_ = realize(problem_, *plan, options_);
    if (last_.schedule.arena[kDevice] >= before) {
      options_.effort = std::min(2 * options_.effort, most_effort_);
    }
    return &last_;
  }

 private:
  const Problem& problem_;
  Realized last_;
  PlaceOptions options_;
  int most_effort_ = 1;
  bool is_first_ = true;
};

struct TrimTarget {
  double aim = 1;      // Arena / live bytes that are sought ...
  double enough = 1;   // ... and that need not be beaten.
  double seconds = 0;  // That it may last.
};

Realized trim_to(const Problem& problem, Realized placed, const TrimTarget& target,
                 const PlaceOptions& options) {
  constexpr int kRounds = 6;
  Squeezing squeezing(problem, placed, options);
  for (int round = 0; round < kRounds; ++round) {
    const auto live = static_cast<double>(replay(problem, placed.plan).peak[kDevice]);
    if (static_cast<double>(placed.schedule.arena[kDevice]) <= target.enough * live) break;
    const Realized* next = squeezing.next(static_cast<int64_t>(target.aim * live));
    if (next == nullptr) break;
    const bool is_better = next->seconds <= target.seconds &&
                           next->schedule.arena[kDevice] < placed.schedule.arena[kDevice] &&
                           is_within(next->schedule.arena, problem.budget);
    if (is_better) placed = *next;
  }
  return placed;
}

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
  const int64_t budget = problem.budget[kDevice];
  Squeezing squeezing(problem, placed, options);
  Realized best = placed;
  for (int round = 0; round < kRounds && !is_within(best.schedule.arena, problem.budget); ++round) {
    const Realized* next = squeezing.next(budget);
    if (next == nullptr) break;
    if (next->schedule.arena[kDevice] < best.schedule.arena[kDevice]) best = *next;
  }
  return best;
}

Realized trim(const Problem& problem, Realized placed, double seconds,
              const PlaceOptions& options) {
  constexpr double kNoticeable = 1.005;
  constexpr double kTooMuch = 1.01;
  seconds = std::max(seconds, placed.seconds);
  placed = trim_to(problem, std::move(placed), {1.0, kNoticeable, seconds}, options);
  return trim_to(problem, std::move(placed), {kTooMuch, kTooMuch, seconds}, options);
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
