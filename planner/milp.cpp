#include "planner/milp.h"

#include <algorithm>
#include <numeric>

#include "planner/arrange.h"
#include "planner/deadline.h"
#include "planner/glpk_solver.h"
#include "planner/guide.h"
#include "planner/milp_model.h"
#include "planner/milp_slots.h"
#include "planner/search.h"

namespace olm2 {
namespace {

constexpr int kMostAttempts = 6;      // With ever smaller budgets.
constexpr int kMostForbidden = 200;   // Choices that only tolerances let through.
constexpr double kBoundShare = 0.25;  // Of the time limit, for the bound.
constexpr double kNarrowShare = 0.3;  // Of the time limit, for the narrow space's minimum.
constexpr std::string_view kWidestSpace = "jit1";  // That "auto" looks into.

struct Question {
  const Problem& problem;
  const PlanOptions& options;
  Deadline deadline;
  std::vector<Slot> slots;
  bool may_swap = false;
};

double mandatory_seconds(const Problem& problem) {
  return std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0);
}

Solution solve(const Question& question, MilpModel& model) {
  const std::vector<Row> rows = likely_memory_rows(model);
  model.linear.rows.insert(model.linear.rows.end(), rows.begin(), rows.end());
  SolverRequest request{
      .gap = question.options.gap,
      .time_limit_s = question.deadline.left_s(),
      .broken_rows = [&](std::span<const double> x) { return broken_memory_rows(model, x); },
      .should_stop = question.options.should_stop,
      .memory_limit_bytes = question.options.memory_limit_bytes,
  };
  if (question.options.progress) {
    request.progress = [&](double gap) {
      question.options.progress(question.deadline.passed_s(), gap);
    };
  }
  Solution solution = olm2::solve(model.linear, request);
  if (request.progress) {
    const bool found = !solution.x.empty();
    request.progress(found ? 1 - solution.bound / solution.objective : -1.0);
  }
  return solution;
}

Decisions run_slots(const Question& question, const std::vector<bool>& runs) {
  Decisions decisions;
  for (size_t s = 0; s < question.slots.size(); ++s) {
    if (runs[s]) decisions.order.push_back(question.slots[s].node);
  }
  decisions.swapped.resize(question.problem.graph->values().size(), 0);
  return decisions;
}

// Every optional slot runs; then those that cost most stop where the budget allows it.
Decisions recompute_greedily(const Question& question) {
  const BytesPerTier& budget = question.problem.budget;
  std::vector<bool> runs(question.slots.size(), true);
  std::vector<size_t> optional;
  for (size_t s = 0; s < question.slots.size(); ++s) {
    if (question.slots[s].optional) optional.push_back(s);
  }
  const auto seconds = [&](size_t s) { return run_seconds(question.problem, question.slots[s]); };
  std::ranges::stable_sort(optional, [&](size_t a, size_t b) { return seconds(a) > seconds(b); });
  for (const size_t s : optional) {
    if (question.deadline.left_s() == 0) break;
    runs[s] = false;
    const BytesPerTier least = least_bytes(question.problem, run_slots(question, runs));
    runs[s] = least[index_of(Tier::device)] > budget[index_of(Tier::device)];
  }
  return run_slots(question, runs);
}

bool found_plan(const Solution& solution) {
  return solution.verdict == Solution::Verdict::optimal ||
         solution.verdict == Solution::Verdict::feasible;
}

// Lowers what the model may use by what its last decisions exceed.
void tighten(BytesPerTier& target, const BytesPerTier& least, const BytesPerTier& budget) {
  for (size_t t = 0; t < kTierCount; ++t) {
    target[t] = std::max<int64_t>(0, target[t] - std::max<int64_t>(0, least[t] - budget[t]));
  }
}

// The narrowest candidate set, unguided: solves, arranges and tightens until the exact plan fits.
// Without copies the slots that run say everything, and a choice that a solver's tolerances let
// through is forbidden instead.  False: no plan was found.
bool solve_narrow(const Question& question, PolicyResult& result) {
  BytesPerTier target = question.problem.budget;
  std::vector<Row> forbidden;
  const int most = question.may_swap ? kMostAttempts : kMostForbidden;
  for (int attempt = 0; attempt < most && question.deadline.left_s() > 0; ++attempt) {
    MilpModel model = build_model(question.problem, question.slots,
                                  {.may_swap = question.may_swap,
                                   .partial_swap = question.options.partial_swap,
                                   .minimise_budget = false,
                                   .budget = target});
    model.linear.rows.insert(model.linear.rows.end(), forbidden.begin(), forbidden.end());
    const Solution solution = solve(question, model);
    if (!found_plan(solution)) return false;
    Arrangement arrangement =
        arrange(question.problem, decisions_of(question.problem, model, solution.x));
    if (arrangement.fits(question.problem.budget)) {
      result.status = Status::feasible;
      result.plan = std::move(arrangement.plan);
      return true;
    }
    if (model.swaps.empty()) {
      forbidden.push_back(forbid(model, solution.x));
    } else {
      tighten(target, arrangement.least, question.problem.budget);
    }
  }
  return false;
}

TurnBound bound_of(const Question& question, bool may_recompute) {
  if (question.options.bound) return *question.options.bound;
  return turn_bound(question.problem, may_recompute, question.may_swap,
                    kBoundShare * question.options.time_limit_s);
}

Question ask(const Problem& problem, const PlanOptions& options, bool may_recompute,
             bool may_swap) {
  return {.problem = problem,
          .options = options,
          .deadline = Deadline(options),
          .slots = slots_of(problem, options.space, may_recompute),
          .may_swap = may_swap};
}

PolicyResult empty_result(const Problem& problem, const PlanOptions& options) {
  return {.status = Status::unknown,
          .plan = {},
          .bound_s = mandatory_seconds(problem),
          .space = std::string(narrowest_space(problem, options.space)),
          .solver = glpk_name()};
}

}  // namespace

PolicyResult plan_by_milp(const Problem& problem, const PlanOptions& options, bool may_recompute,
                          bool may_swap) {
  const Question question = ask(problem, options, may_recompute, may_swap);
  PolicyResult result = empty_result(problem, options);
  Arrangement kept = arrange(problem, keep_everything(*problem.graph));
  if (kept.fits(problem.budget)) {
    result.status = Status::optimal;
    result.plan = std::move(kept.plan);
    return result;
  }
  const TurnBound bound = bound_of(question, may_recompute);
  result.bound_s = std::max(result.bound_s, bound.seconds);
  // Guided programs are smaller: with copies, where programs are large, they come first.
  if (!(may_recompute && may_swap) && solve_narrow(question, result)) return result;
  PlanOptions rest = options;
  rest.time_limit_s = question.deadline.left_s();
  PolicyResult found = search_plans(problem, rest, bound, may_recompute, may_swap);
  if (found.status != Status::unknown) return found;
  Arrangement greedy = arrange(problem, recompute_greedily(question));
  if (greedy.fits(problem.budget)) {
    result.status = Status::feasible;
    result.plan = std::move(greedy.plan);
    return result;
  }
  rest.time_limit_s = question.deadline.left_s();
  std::optional<PolicyResult> smallest = minimum_by_milp(problem, rest, may_recompute, may_swap);
  const bool fits = smallest && replay(problem, smallest->plan).peak[index_of(Tier::device)] <=
                                    problem.budget[index_of(Tier::device)];
  if (fits) {
    result.status = Status::feasible;
    result.plan = std::move(smallest->plan);
  }
  return result;
}

namespace {

// The smallest plan of one candidate set.
std::optional<PolicyResult> minimum_in(const Problem& problem, const PlanOptions& options,
                                       bool may_recompute, bool may_swap) {
  const Question question = ask(problem, options, may_recompute, may_swap);
  MilpModel model = build_model(problem, question.slots,
                                {.may_swap = may_swap,
                                 .partial_swap = options.partial_swap,
                                 .minimise_budget = true,
                                 .budget = problem.budget});
  const Solution solution = solve(question, model);
  const Decisions decisions = found_plan(solution)
                                  ? decisions_of(problem, model, solution.x)
                                  : run_slots(question, std::vector(question.slots.size(), true));
  Problem roomy = problem;
  roomy.budget[index_of(Tier::device)] = least_bytes(problem, decisions)[index_of(Tier::device)];
  Arrangement arrangement = arrange(roomy, decisions);
  if (!arrangement.fits(roomy.budget)) return std::nullopt;
  PolicyResult result = empty_result(problem, options);
  result.status = Status::feasible;
  result.plan = std::move(arrangement.plan);
  return result;
}

}  // namespace

PolicyResult widen_by_milp(const Problem& problem, const PlanOptions& options, bool may_recompute,
                           bool may_swap) {
  const Question question = ask(problem, options, may_recompute, may_swap);
  PlanOptions rest = options;
  const TurnBound bound = bound_of(question, may_recompute);
  rest.time_limit_s = question.deadline.left_s();
  return search_plans(problem, rest, bound, may_recompute, may_swap);
}

std::optional<PolicyResult> minimum_by_milp(const Problem& problem, const PlanOptions& options,
                                            bool may_recompute, bool may_swap) {
  const Deadline deadline(options);
  PlanOptions part = options;
  const bool widens = options.space == "auto" && may_recompute;
  if (widens) part.time_limit_s = kNarrowShare * options.time_limit_s;
  std::optional<PolicyResult> best = minimum_in(problem, part, may_recompute, may_swap);
  if (!widens || narrowest_space(problem, options.space) == "full") return best;
  part.space = kWidestSpace;
  part.time_limit_s = deadline.left_s();
  std::optional<PolicyResult> wide = minimum_in(problem, part, may_recompute, may_swap);
  const auto bytes = [&](const PolicyResult& result) {
    return replay(problem, result.plan).peak[index_of(Tier::device)];
  };
  return wide && (!best || bytes(*wide) < bytes(*best)) ? std::move(wide) : std::move(best);
}

}  // namespace olm2
