// From an online rule to the two functions of a policy's row.
#include <deque>
#include <iterator>
#include <numeric>

#include "planner/keep_all.h"
#include "planner/online.h"

namespace olm2 {

double least_recently_used(const Evictable& value) {
  return static_cast<double>(value.last_use);
}

PolicyResult plan_online(const Problem& problem, const AccessSequence& sequence,
                         const OnlineRule& rule, const OnlineHints& hints) {
  PolicyResult result{
      .bound_s = std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0),
      .space = "heuristic",
      .solver = "none"};
  std::optional<Plan> plan = run_online(problem, sequence, rule, hints);
  if (!plan) return result;
  result.status = Status::feasible;
  result.plan = std::move(*plan);
  return result;
}

std::vector<Plan> smallest_online(const Problem& problem, const OnlineRule& rule) {
  constexpr size_t kDevice = index_of(Tier::device);
  constexpr int kHalvings = 12;
  constexpr size_t kKept = 2;  // The last may need more for its addresses than the one before.
  const AccessSequence sequence = access_sequence(problem);
  std::deque<Plan> plans = {keep_all_plan(problem)};
  Problem asked = problem;
  int64_t low = proven_minimum(problem).bytes;
  int64_t high = replay(problem, plans.front()).peak[kDevice];
  for (int k = 0; k < kHalvings && low < high; ++k) {
    asked.budget[kDevice] = k == 0 ? low : low + (high - low) / 2;
    std::optional<Plan> plan = run_online(asked, sequence, rule);
    if (!plan) {
      low = asked.budget[kDevice];
      continue;
    }
    high = asked.budget[kDevice];
    plans.push_back(std::move(*plan));
    if (plans.size() > kKept) plans.pop_front();
  }
  return {std::make_move_iterator(plans.begin()), std::make_move_iterator(plans.end())};
}

}  // namespace olm2
