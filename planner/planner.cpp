#include "planner/planner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
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
constexpr int kMoreTries = 3;            // After the first that fits where squeezed.
constexpr int64_t kPartOfExcess = 4;     // By which the budget is lowered then.
constexpr size_t kDevice = index_of(Tier::device);
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::array<std::string_view, 6> kSpaces = {"auto", "single0", "single1",
                                                     "jit0", "jit1",    "full"};

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

}  // namespace

std::span<const std::string_view> all_spaces() {
  return kSpaces;
}

namespace {

bool has_plan(const PolicyResult& result) {
  return result.status == Status::optimal || result.status == Status::feasible;
}

// A policy's answer, realized within the budget.
struct Found {
  std::optional<Realized> realized = {};
  PolicyResult first = {};  // The answer for the budget asked for: its bound holds.
  int64_t loss_bytes = 0;
  bool is_squeezed = false;  // Addresses cost time.
};

// Keeps the faster answer; the bound stays that of `best`.
void consider(Found other, Found& best) {
  if (!other.realized) return;
  if (best.realized && best.realized->seconds <= other.realized->seconds) return;
  best.realized = std::move(other.realized);
  best.loss_bytes = other.loss_bytes;
  best.is_squeezed = other.is_squeezed;
}

bool is_close_enough(const Found& found, const PlanOptions& options) {
  return found.realized && found.first.bound_s >= found.realized->seconds * (1 - options.gap);
}

// By `part` of it.
void lower_by_excess(const BytesPerTier& arena, const Problem& problem, int64_t part,
                     Problem& asked) {
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    asked.budget[tier] -= std::max<int64_t>(arena[tier] - problem.budget[tier], 0) / part;
  }
}

// As long as the policy sought addresses.
PlaceOptions placing_of(const Problem& problem, const PlanOptions& options,
                        const PolicyResult& result) {
  PlaceOptions placing{.effort = options.place_effort * result.place_effort};
  if (result.place_effort > 1) placing.enough = problem.budget;
  return placing;
}

// Asks a policy for plans until one fits with its addresses, each time with a device and host
// budget lower by what the last plan was too large.  A plan that is too large is squeezed as well,
// which costs time instead of bytes: the faster of the two ways counts.
Found plan_until_it_fits(const Problem& problem, const Policy& policy, PlanOptions options,
                         const Stopwatch& watch) {
  Found found;
  Problem asked = problem;
  const double time_limit_s = options.time_limit_s;
  int tries = kMaxTries;
  for (int attempt = 0; attempt < tries; ++attempt) {
    options.time_limit_s = time_limit_s - watch.seconds();
    if (attempt > 0 && (options.time_limit_s <= 0 || is_stopped(options))) break;
    PolicyResult result = policy.plan(asked, options);
    if (attempt == 0) found.first = result;
    if (!has_plan(result)) break;
    const PlaceOptions place_options = placing_of(problem, options, result);
    const Realized realized = realize(problem, result.plan, place_options);
    const bool fits = is_within(realized.schedule.arena, problem.budget);
    Realized squeezed = squeeze(problem, realized, place_options);
    const bool fits_squeezed = is_within(squeezed.schedule.arena, problem.budget);
    const int64_t loss_bytes = problem.budget[kDevice] - asked.budget[kDevice];
    if (!fits_squeezed) {
      lower_by_excess(squeezed.schedule.arena, problem, 1, asked);
      continue;
    }
    consider({.realized = std::move(squeezed), .loss_bytes = loss_bytes, .is_squeezed = !fits},
             found);
    if (fits || is_close_enough(found, options)) break;
    tries = std::min(tries, attempt + 1 + kMoreTries);
    // Somewhere between squeezing it all and squeezing nothing.
    const bool is_last = attempt + 2 == tries;
    lower_by_excess(realized.schedule.arena, problem, is_last ? 1 : kPartOfExcess, asked);
  }
  return found;
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
  if (policy.widen != nullptr && wants_more()) {
    Policy wider = policy;
    wider.plan = policy.widen;
    Found other = plan_until_it_fits(problem, wider, options, watch);
    const std::string space = other.first.space;
    const double before_s = found.realized ? found.realized->seconds : kNever;
    consider(std::move(other), found);
    if (found.realized && found.realized->seconds < before_s) found.first.space = space;
  }
  // Whole tensors leave fewer gaps between addresses.
  if (policy.swaps && options.partial_swap &&
      (found.loss_bytes > 0 || found.is_squeezed || !found.realized) && wants_more()) {
    PlanOptions whole_tensors = options;
    whole_tensors.partial_swap = false;
    consider(plan_until_it_fits(problem, policy, whole_tensors, watch), found);
  }
  for (const std::string_view name : policy.contains) {
    if (name == "chen") {  // Needs no solver.
      consider(plan_until_it_fits(problem, find_policy(name), options, Stopwatch()), found);
    } else if (wants_more()) {
      PlanOptions other = options;
      other.bound = nullptr;  // That of another question.
      consider(plan_until_it_fits(problem, find_policy(name), other, watch), found);
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

void note_early_end(const SolverSession& session, const PlanOptions& options,
                    const Stopwatch& watch, Certificate& certificate) {
  std::string reason = session.reason();
  if (reason.empty() && watch.seconds() >= options.time_limit_s) reason = "time is up";
  if (reason.empty() && is_stopped(options)) reason = "it was stopped";
  if (certificate.status == Status::unknown && !reason.empty()) {
    certificate.message += " The search ended early: " + reason + ".";
  }
  certificate.ended_early = std::move(reason);
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
  const Stopwatch watch;
  const SolverSession session(
      {.should_stop = asked.should_stop, .memory_limit_bytes = asked.memory_limit_bytes});
  if (!is_settled(problem)) return plan_moving_state(problem, asked);
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
  const PlaceOptions place_options{.effort = options.place_effort};
  Realized keep_all = realize(problem, keep_all_plan(problem), place_options);
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
  options.bound = std::make_shared<const TurnBound>(bound);
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
    if (smallest && smallest->device_bytes <= budget) {
      best = realize(problem, smallest->plan, place_options);
    }
  }
  certificate.space = has_plan(found.first) ? found.first.space : "heuristic";
  certificate.solver = found.first.solver.empty() ? "none" : found.first.solver;
  if (!best) {
    refuse(problem, smallest, is_proven_impossible(problem, policy, bound, options), certificate);
    note_early_end(session, options, watch, certificate);
  } else {
    const bool is_proven =
        std::abs(best->seconds - certificate.bound_s) <= 1e-9 * certificate.bound_s;
    certificate.status = is_proven ? Status::optimal : Status::feasible;
    certificate.placement_loss_bytes = found.loss_bytes;
    // Within the asked gap, smaller is better than faster; what is proven stays as it is.
    const double enough_s = is_proven ? 0 : certificate.bound_s / (1 - options.gap);
    accept(problem, trim(problem, std::move(*best), enough_s, place_options), planned);
    if (certificate.gap > options.gap) note_early_end(session, options, watch, certificate);
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
  const PlaceOptions place_options{.effort = options.place_effort};
  accept(problem, realize(problem, unsettle(problem, plan), place_options), planned);
  return planned;
}

}  // namespace olm2
