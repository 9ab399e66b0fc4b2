#include "planner/keep_all.h"

#include <numeric>

#include "planner/realize.h"
#include "planner/steps.h"

namespace olm2 {

Plan keep_all_plan(const Problem& problem) {
  Plan plan;
  for (size_t n = 0; n < problem.graph->nodes().size(); ++n) {
    plan.steps.push_back(compute_step(n));
  }
  return with_earliest_drops(problem, plan);
}

PolicyResult plan_none(const Problem& problem, const PlanOptions& /*options*/) {
  PolicyResult result{
      .plan = keep_all_plan(problem),
      .bound_s = std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0),
      .space = "none",
      .solver = "none"};
  const bool fits = is_within(replay(problem, result.plan).peak, problem.budget);
  result.status = fits ? Status::optimal : Status::unknown;
  return result;
}

std::vector<Plan> smallest_none(const Problem& problem, const PlanOptions& /*options*/) {
  return {keep_all_plan(problem)};
}

}  // namespace olm2
