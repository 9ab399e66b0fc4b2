#include "planner/planner.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/error.h"
#include "planner/best_plan.h"
#include "planner/bound.h"
#include "planner/keep_all.h"
#include "planner/moving_state.h"
#include "planner/smallest.h"
#include "planner/solver_process.h"

namespace olm2 {
namespace {

constexpr std::array<std::string_view, 6> kSpaces = {"auto", "single0", "single1",
                                                     "jit0", "jit1",    "full"};

void check_space(const PlanOptions& options) {
  if (std::ranges::find(kSpaces, options.space) != kSpaces.end()) return;
  std::string names;
  for (const std::string_view name : kSpaces) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw Error("planner.space: got '" + options.space + "', expected one of " + names);
}

}  // namespace

std::span<const std::string_view> all_spaces() {
  return kSpaces;
}

namespace {

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

void note_early_end(const SolverSession& session, const PlanOptions& options,
                    const Deadline& deadline, Certificate& certificate) {
  std::string reason = session.reason();
  if (reason.empty() && deadline.passed_s() >= options.time_limit_s) reason = "time is up";
  if (reason.empty() && deadline.left_s() == 0) reason = "it was stopped";
  if (certificate.status == Status::unknown && !reason.empty()) {
    certificate.message += " The search ended early: " + reason + ".";
  }
  certificate.ended_early = std::move(reason);
}

// Where all state is at home.
Planned plan_settled(const Problem& problem, const Policy& policy, PlanOptions options,
                     const Deadline& deadline) {
  Planned planned;
  Certificate& certificate = planned.certificate;
  certificate.policy = policy.name;

  // Where everything fits, nothing is faster: forgetting or moving anything only adds work.
  const PlaceOptions place_options{.effort = options.place_effort};
  Realized keep_all = realize(problem, keep_all_plan(problem), place_options);
  certificate.baseline_s = keep_all.seconds;
  certificate.bound_s = keep_all.seconds;
  if (is_within(keep_all.schedule.arena, problem.budget)) {
    certificate.bound_space = "every plan";
    certificate.space = "complete";
    certificate.solver = "none";
    accept(problem, std::move(keep_all), planned);
    return planned;
  }

  const TurnBound bound = bound_for(problem, policy.bound_recomputes, policy.bound_copies, options);
  certificate.bound_s = std::max(certificate.bound_s, bound.seconds);
  certificate.bound_space = bound.text;
  options.bound = std::make_shared<const TurnBound>(bound);
  Found found;
  const bool is_useless = certificate.bound_s >= options.useful_s;
  if (bound.fits && !is_useless) {
    found = best_plan({.real = problem, .settled = problem}, policy, options, deadline);
  }
  std::optional<Realized>& best = found.realized;
  std::optional<SmallestPlan> smallest;
  if (!best && !options.is_narrow) {
    smallest = smallest_plan(problem, for_the_smallest(options, deadline));
    const int64_t budget = problem.budget[index_of(Tier::device)];
    if (smallest && smallest->device_bytes <= budget) {
      best = realize(problem, smallest->plan, place_options);
    }
  }
  note_search(found, certificate);
  if (!best) {
    refuse(problem, smallest, is_proven_impossible(problem, policy, bound, options), certificate);
    return planned;
  }
  // Within the asked gap, smaller is better than faster; what is proven stays as it is.
  const double enough_s =
      is_met(certificate.bound_s, best->seconds) ? 0 : certificate.bound_s / (1 - options.gap);
  accept(problem, trim(problem, std::move(*best), enough_s, place_options), planned);
  return planned;
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
  const Deadline deadline(asked);
  const SolverSession session(
      {.should_stop = asked.should_stop, .memory_limit_bytes = asked.memory_limit_bytes});
  PlanOptions options = asked;
  if (asked.progress) {  // Seconds of all solves together.
    options.progress = [&](double, double gap) { asked.progress(deadline.passed_s(), gap); };
  }
  const Policy& policy = find_policy(options.policy);
  check_space(options);
  Planned planned = is_settled(problem) ? plan_settled(problem, policy, options, deadline)
                                        : plan_moving_state(problem, policy, options, deadline);
  if (!planned.schedule || planned.certificate.gap > options.gap) {
    note_early_end(session, options, deadline, planned.certificate);
  }
  planned.certificate.solve_seconds = deadline.passed_s();
  return planned;
}

Planned certify(const Problem& problem, const PlanOptions& options, const Plan& plan,
                std::string_view solver) {
  Planned planned;
  Certificate& certificate = planned.certificate;
  certificate.policy = options.policy;
  const Problem settled = settle(problem, /*early=*/false).problem;
  certificate.baseline_s = realize(settled, keep_all_plan(settled)).seconds;
  const TurnBound bound = bound_for(problem, true, true, options);
  certificate.bound_s = std::max(certificate.baseline_s, bound.seconds);
  certificate.bound_space = bound.text;
  certificate.space = "heuristic";
  certificate.solver = solver;
  const PlaceOptions place_options{.effort = options.place_effort};
  accept(problem, realize(problem, unsettle(problem, plan), place_options), planned);
  certificate.status = Status::feasible;  // Whatever else the solver may have been asked.
  return planned;
}

}  // namespace olm2
