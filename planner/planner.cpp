#include "planner/planner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "planner/bound.h"
#include "planner/chen.h"
#include "planner/keep_all.h"
#include "planner/moving_state.h"
#include "planner/realize.h"
#include "planner/smallest.h"
#include "planner/solver_process.h"

namespace olm2 {
namespace {

constexpr double kSmallestShare = 0.25;  // Of the time limit, for the smallest plan in any case.
constexpr double kBoundShare = 0.25;     // Of the time limit, for the bound.
constexpr int kMaxTries = 8;             // Of a policy, with ever smaller budgets.
constexpr std::array<std::string_view, 2> kSpaces = {"auto", "single0"};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void check_space(const PlanOptions& options) {
  if (std::ranges::find(kSpaces, options.space) != kSpaces.end()) return;
  std::string names;
  for (const std::string_view name : kSpaces) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw Error("planner.space: got '" + options.space + "', expected one of " + names);
}

bool is_stopped(const PlanOptions& options) {
  return options.should_stop && options.should_stop();
}

bool has_plan(const PolicyResult& result) {
  return result.status == Status::optimal || result.status == Status::feasible;
}

// A policy's answer, realized within the budget.
struct Found {
  std::optional<Realized> realized;
  PolicyResult first;  // The answer for the budget asked for: its bound holds.
  int64_t loss_bytes = 0;
};

// Asks a policy for plans until one fits with its addresses, each time with a device and host
// budget lower by what the last plan was too large.
Found plan_until_it_fits(const Problem& problem, const Policy& policy, PlanOptions options,
                         const Stopwatch& watch) {
  Found found;
  Problem asked = problem;
  const double time_limit_s = options.time_limit_s;
  for (int attempt = 0; attempt < kMaxTries; ++attempt) {
    options.time_limit_s = time_limit_s - watch.seconds();
    if (attempt > 0 && (options.time_limit_s <= 0 || is_stopped(options))) break;
    PolicyResult result = policy.plan(asked, options);
    if (attempt == 0) found.first = result;
    if (!has_plan(result)) break;
    Realized realized = realize(problem, result.plan);
    if (is_within(realized.schedule.arena, problem.budget)) {
      found.realized = std::move(realized);
      const size_t device = index_of(Tier::device);
      found.loss_bytes = problem.budget[device] - asked.budget[device];
      break;
    }
    for (size_t tier = 0; tier < kTierCount; ++tier) {
      const int64_t excess = realized.schedule.arena[tier] - problem.budget[tier];
      asked.budget[tier] -= std::max<int64_t>(excess, 0);
    }
  }
  return found;
}

// Keeps the faster answer; the bound stays that of `best`.
void consider(Found other, Found& best) {
  if (!other.realized) return;
  if (best.realized && best.realized->seconds <= other.realized->seconds) return;
  best.realized = std::move(other.realized);
  best.loss_bytes = other.loss_bytes;
}

bool is_close_enough(const Found& found, const PlanOptions& options) {
  return found.realized && found.first.bound_s >= found.realized->seconds * (1 - options.gap);
}

// The fastest of what the policy finds and, where that is not close to its bound, of what its
// other questions and the policies within its reach find.
Found best_plan(const Problem& problem, const Policy& policy, const PlanOptions& options,
                const Stopwatch& watch) {
  Found found = plan_until_it_fits(problem, policy, options, watch);
  const auto wants_more = [&] {
    return !is_close_enough(found, options) && watch.seconds() < options.time_limit_s &&
           !is_stopped(options);
  };
  // Whole tensors leave fewer gaps between addresses.
  if (policy.swaps && options.partial_swap && (found.loss_bytes > 0 || !found.realized) &&
      wants_more()) {
    PlanOptions whole_tensors = options;
    whole_tensors.partial_swap = false;
    consider(plan_until_it_fits(problem, policy, whole_tensors, watch), found);
  }
  for (const std::string_view name : policy.contains) {
    if (name == "chen") {  // Needs no solver.
      consider(plan_until_it_fits(problem, find_policy(name), options, Stopwatch()), found);
    } else if (wants_more()) {
      consider(plan_until_it_fits(problem, find_policy(name), options, watch), found);
    }
  }
  return found;
}

void count_work(const Problem& problem, const Plan& plan, Certificate& certificate) {
  std::vector<bool> is_done(problem.graph->nodes().size(), false);
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::copy) certificate.copied_bytes += step.range.bytes();
    if (step.kind != Step::Kind::compute) continue;
    const auto node = static_cast<size_t>(step.node.index);
    if (is_done[node]) ++certificate.recomputed;
    is_done[node] = true;
  }
}

// Fills in all that follows from a realized plan, and has it checked.
void accept(const Problem& problem, Realized realized, Planned& planned) {
  Certificate& certificate = planned.certificate;
  certificate.objective_s = realized.seconds;
  // A bound that a plan beats is none; within rounding it is met.
  constexpr double kRounding = 1e-9;
  if (realized.seconds < certificate.bound_s * (1 - kRounding)) {
    certificate.bound_s = std::min(certificate.baseline_s, realized.seconds);
  }
  certificate.bound_s = std::min(certificate.bound_s, realized.seconds);
  certificate.gap =
      realized.seconds > 0 ? (realized.seconds - certificate.bound_s) / realized.seconds : 0;
  certificate.peak = realized.schedule.arena;
  count_work(problem, realized.plan, certificate);
  planned.plan = std::move(realized.plan);
  planned.schedule = check(problem, std::move(realized.schedule));
}

std::string describe(const Minimum& minimum) {
  constexpr size_t kNamed = 8;
  std::string text = std::to_string(minimum.bytes) + " bytes; binding moment: " + minimum.moment +
                     "; alive there:";
  for (size_t i = 0; i < std::min(kNamed, minimum.alive.size()); ++i) {
    text += (i == 0 ? " " : ", ") + minimum.alive[i];
  }
  if (minimum.alive.size() > kNamed) {
    text += " and " + std::to_string(minimum.alive.size() - kNamed) + " more";
  }
  return text;
}

// What is proven of all plans that `policy` is compared with.
TurnBound bound_for(const Problem& problem, const Policy& policy, const PlanOptions& options) {
  return turn_bound(problem, policy.bound_recomputes, policy.bound_copies,
                    kBoundShare * options.time_limit_s);
}

// Whether it is proven that no plan of any kind fits.
bool is_proven_impossible(const Problem& problem, const Policy& policy, const TurnBound& bound,
                          const PlanOptions& options) {
  if (bound.fits || (policy.bound_recomputes && policy.bound_copies)) return !bound.fits;
  return !turn_bound(problem, true, true, kBoundShare * options.time_limit_s).fits;
}

}  // namespace

void refuse(const Problem& problem, const std::optional<SmallestPlan>& smallest, bool is_impossible,
            Certificate& certificate) {
  const int64_t budget = problem.budget[index_of(Tier::device)];
  const Minimum proven = proven_minimum(problem);
  certificate.status = is_impossible ? Status::infeasible : Status::unknown;
  std::string text = "memory.device_budget: " + std::to_string(budget) +
                     " bytes are too few for policy " + certificate.policy;
  if (smallest) {
    text += ", whose smallest plan needs " + describe(describe_minimum(problem, *smallest));
  } else {
    text += " within the host budget of " + std::to_string(problem.budget[index_of(Tier::host)]) +
            " bytes";
  }
  if (budget < proven.bytes) {
    text += ". No plan of any policy fits: " + proven.moment + " alone needs " +
            std::to_string(proven.bytes) + " bytes";
  } else if (is_impossible) {
    text += ". No plan of any policy fits, whatever it runs again or moves";
  }
  certificate.message = text + ". Raise the budget, or make the batch smaller.";
}

Planned plan_program(const Problem& problem, const PlanOptions& asked) {
  if (!is_settled(problem)) return plan_moving_state(problem, asked);
  const Stopwatch watch;
  const SolverSession session;
  PlanOptions options = asked;
  if (asked.progress) {  // Seconds of all solves together.
    options.progress = [&](double, double gap) { asked.progress(watch.seconds(), gap); };
  }
  const Policy& policy = find_policy(options.policy);
  check_space(options);
  Planned planned;
  Certificate& certificate = planned.certificate;
  certificate.policy = policy.name;

  // Where everything fits, nothing is faster: forgetting or moving anything only adds work.
  Realized keep_all = realize(problem, keep_all_plan(problem));
  certificate.baseline_s = keep_all.seconds;
  certificate.bound_s = keep_all.seconds;
  if (is_within(keep_all.schedule.arena, problem.budget)) {
    certificate.status = Status::optimal;
    certificate.bound_space = "every plan";
    certificate.space = "complete";
    certificate.solver = "none";
    accept(problem, std::move(keep_all), planned);
    certificate.solve_seconds = watch.seconds();
    return planned;
  }

  const TurnBound bound = bound_for(problem, policy, options);
  certificate.bound_s = std::max(certificate.bound_s, bound.seconds);
  certificate.bound_space = bound.text;
  Found found;
  if (bound.fits) found = best_plan(problem, policy, options, watch);
  std::optional<Realized>& best = found.realized;
  std::optional<SmallestPlan> smallest;
  if (!best) {
    PlanOptions rest = options;
    rest.time_limit_s =
        std::max(options.time_limit_s - watch.seconds(), kSmallestShare * options.time_limit_s);
    rest.progress = nullptr;  // Its gap is one of bytes.
    smallest = smallest_plan(problem, rest);
    const int64_t budget = problem.budget[index_of(Tier::device)];
    if (smallest && smallest->device_bytes <= budget) best = realize(problem, smallest->plan);
  }
  certificate.space = has_plan(found.first) ? found.first.space : "heuristic";
  certificate.solver = found.first.solver.empty() ? "none" : found.first.solver;
  if (!best) {
    refuse(problem, smallest, is_proven_impossible(problem, policy, bound, options), certificate);
  } else {
    const bool is_proven =
        std::abs(best->seconds - certificate.bound_s) <= 1e-9 * certificate.bound_s;
    certificate.status = is_proven ? Status::optimal : Status::feasible;
    certificate.placement_loss_bytes = found.loss_bytes;
    accept(problem, std::move(*best), planned);
  }
  certificate.solve_seconds = watch.seconds();
  return planned;
}

Planned certify(const Problem& problem, const PlanOptions& options, const Plan& plan,
                std::string_view solver) {
  Planned planned;
  Certificate& certificate = planned.certificate;
  certificate.policy = options.policy;
  const Problem settled = settle(problem, /*early=*/false).problem;
  certificate.baseline_s = realize(settled, keep_all_plan(settled)).seconds;
  const TurnBound bound = turn_bound(problem, true, true, kBoundShare * options.time_limit_s);
  certificate.bound_s = std::max(certificate.baseline_s, bound.seconds);
  certificate.bound_space = bound.text;
  certificate.status = Status::feasible;
  certificate.space = "heuristic";
  certificate.solver = solver;
  accept(problem, realize(problem, unsettle(problem, plan)), planned);
  return planned;
}

}  // namespace olm2
