#include "train/plan_sweep.h"

#include <algorithm>
#include <tuple>

#include "core/error.h"
#include "planner/realize.h"

namespace olm2 {
namespace {

// Smaller is better: seconds of an optimizer step, then bytes.
std::tuple<double, BytesPerTier> rank(const RunPrograms& run, const RunPlan& plan) {
  return {step_time(plan, run.grad_accumulation).planned_s, plan.peak};
}

// A lower bound for program `i` at the budget of `own`, with state laid out as in `plan`.
double bound_for(const StateSearch& own, const RunPlan& plan, size_t i) {
  const bool is_of_layout = own.plan && own.plan->state == plan.state;
  return is_of_layout ? own.certificates[i].bound_s
                      : plan.programs[i].planned.certificate.baseline_s;
}

void rewrite(Certificate& certificate, double bound_s, int64_t found_for_bytes) {
  constexpr double kRounding = 1e-9;
  certificate.bound_s = std::min(bound_s, certificate.objective_s);
  certificate.gap = 1 - certificate.bound_s / certificate.objective_s;
  certificate.status = certificate.gap <= kRounding ? Status::optimal : Status::feasible;
  certificate.space += ", planned for " + std::to_string(found_for_bytes) + " bytes";
}

// The plan that `other` found, under the budgets for which `own` was the answer.
StateSearch adopt(const StateSearch& own, const StateSearch& other, const Budgets& budgets) {
  StateSearch search{.plan = other.plan, .solve_seconds = own.solve_seconds};
  RunPlan& plan = *search.plan;
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    PlannedProgram& entry = plan.programs[i];
    entry.problem.budget = budgets.bytes;
    entry.planned.schedule = check(entry.problem, entry.planned.schedule->schedule());
    rewrite(entry.planned.certificate, bound_for(own, plan, i),
            plan.budgets.bytes[index_of(Tier::device)]);
    search.certificates.push_back(entry.planned.certificate);
  }
  plan.budgets = budgets;
  return search;
}

}  // namespace

std::vector<StateSearch> sweep_budgets(const RunPrograms& run, const std::vector<Problem>& problems,
                                       std::span<const Budgets> budgets, const PlanOptions& options,
                                       bool planned_state,
                                       const std::function<void(size_t)>& begins) {
  std::vector<StateSearch> found;
  for (size_t i = 0; i < budgets.size(); ++i) {
    if (begins) begins(i);
    found.push_back(search_state(run, problems, budgets[i], options, planned_state));
  }
  return exchange_plans(run, budgets, found);
}

std::vector<StateSearch> exchange_plans(const RunPrograms& run, std::span<const Budgets> budgets,
                                        const std::vector<StateSearch>& found) {
  ensure(budgets.size() == found.size(), "one search per budget");
  std::vector<StateSearch> exchanged;
  for (size_t i = 0; i < found.size(); ++i) {
    const StateSearch& own = found[i];
    const StateSearch* best = &own;
    for (const StateSearch& other : found) {
      if (!other.plan || !is_within(other.plan->peak, budgets[i].bytes)) continue;
      if (!best->plan || rank(run, *other.plan) < rank(run, *best->plan)) best = &other;
    }
    exchanged.push_back(best == &own ? own : adopt(own, *best, budgets[i]));
  }
  return exchanged;
}

}  // namespace olm2
