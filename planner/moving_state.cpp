#include "planner/moving_state.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "planner/bound.h"
#include "planner/realize.h"
#include "planner/smallest.h"
#include "planner/state_copies.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);
constexpr int kMaxTries = 6;

size_t as_size(int32_t i) {
  return static_cast<size_t>(i);
}

bool is_source(const Problem& problem, ValueId value) {
  return problem.graph->value(value).home == value;
}

// At home on the device, but with bytes above those that are never free.
bool starts_above(const Problem& problem, ValueId source) {
  return problem.lives_at_home(source) && problem.rest_of(source).at_start &&
         problem.state_offset[as_size(source.index)] >= problem.state_bytes;
}

template <typename Visit>
void for_sources(const Problem& problem, const Visit& visit) {
  for (size_t v = 0; v < problem.graph->values().size(); ++v) {
    const ValueId value{static_cast<int32_t>(v)};
    if (is_source(problem, value)) visit(value);
  }
}

// Homes: those that stay below, then moving state, then everything above, shifted.
void lay_out_homes(const Problem& problem, SettledProblem& settled) {
  Problem& inner = settled.problem;
  inner.rest.resize(problem.graph->values().size());
  const int64_t kept = padded(problem.state_bytes, problem.alignment);
  for_sources(problem, [&](ValueId source) {
    if (is_moving(problem, source)) settled.pretended_bytes += problem.padded_bytes(source);
  });
  int64_t next = kept;
  int64_t top = kept + settled.pretended_bytes;
  for_sources(problem, [&](ValueId source) {
    int64_t& offset = inner.state_offset[as_size(source.index)];
    StateRest& rest = inner.rest[as_size(source.index)];
    if (is_moving(problem, source)) {
      offset = next;
      next += problem.padded_bytes(source);
      rest = {};
    } else if (offset >= problem.state_bytes) {
      offset += settled.pretended_bytes;
      if (!starts_above(problem, source)) return;
      top = std::max(top, offset + problem.padded_bytes(source));
      rest = {};
    }
  });
  inner.state_bytes = top;
}

// Every node counts the moving state around it as scratch.
void add_windows(const Problem& problem, bool early, Problem& inner) {
  const std::vector<int64_t> least = state_windows(problem, false);
  const std::vector<int64_t> ample = early ? state_windows(problem, true) : least;
  for (size_t n = 0; n < least.size(); ++n) {
    const bool is_update = problem.graph->nodes()[n].phase == Phase::update;
    const int64_t window = is_update ? least[n] : ample[n];
    if (window > 0) {
      inner.workspace[n] = padded(problem.workspace[n], problem.alignment) + window;
    }
  }
}

// Copies of state come first: what they take of a link's time is not there for the policy's.
void share_links(const Problem& problem, Problem& inner) {
  double computing_s = 0;
  for (size_t n = 0; n < problem.seconds.size(); ++n) {
    if (problem.graph->nodes()[n].phase != Phase::update) computing_s += problem.seconds[n];
  }
  if (!(computing_s > 0)) return;
  const StateTraffic traffic = traffic_before_update(problem);
  constexpr double kMost = 0.9;
  inner.host_to_device.bytes_per_s *= 1 - std::min(kMost, traffic.in_s / computing_s);
  inner.device_to_host.bytes_per_s *= 1 - std::min(kMost, traffic.out_s / computing_s);
}

SettledProblem settle_without_windows(const Problem& problem) {
  SettledProblem settled{.problem = problem};
  lay_out_homes(problem, settled);
  settled.problem.budget[kDevice] += settled.pretended_bytes;
  for (const Tier tier : kTiers) {
    if (tier == Tier::device) continue;
    settled.problem.state_elsewhere[index_of(tier)] = 0;
    settled.problem.budget[index_of(tier)] -= problem.state_bytes_in(tier);
  }
  return settled;
}

// Per compute step of a settled plan the most on the device since the one before, without moving
// state.
std::vector<int64_t> bytes_per_compute(const Problem& problem, const Plan& plan) {
  const SettledProblem plain = settle_without_windows(problem);
  const Occupancy occupancy = replay(plain.problem, plan);
  std::vector<int64_t> bytes;
  int64_t most = 0;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    most = std::max(most, occupancy.per_step[k][kDevice] - plain.pretended_bytes);
    if (plan.steps[k].kind != Step::Kind::compute) continue;
    bytes.push_back(most);
    most = 0;
  }
  return bytes;
}

// Plans of the settled problem, until one fits the real budgets with its copies of state.
struct Attempt {
  Certificate settled;   // Of the plan for the budget asked for.
  Certificate accepted;  // Of the one that fits, if any does.
  std::optional<Realized> realized;
};

Attempt attempt(const Problem& problem, const PlanOptions& options, bool early,
                const std::chrono::steady_clock::time_point start) {
  Attempt result;
  SettledProblem settled = settle(problem, early);
  PlanOptions mine = options;
  const BytesPerTier asked = settled.problem.budget;
  for (int i = 0; i < kMaxTries; ++i) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    mine.time_limit_s = options.time_limit_s - passed.count();
    if (i > 0 && mine.time_limit_s <= 0) break;
    mine.time_limit_s = std::max(mine.time_limit_s, 0.0);
    Planned planned = plan_program(settled.problem, mine);
    if (i == 0) result.settled = planned.certificate;
    if (!planned.schedule) break;
    const PlaceOptions place_options{.effort = options.place_effort};
    Realized realized = squeeze(
        problem, realize(problem, unsettle(problem, planned.plan), place_options), place_options);
    if (is_within(realized.schedule.arena, problem.budget)) {
      planned.certificate.placement_loss_bytes += asked[kDevice] - settled.problem.budget[kDevice];
      result.accepted = std::move(planned.certificate);
      result.realized = std::move(realized);
      break;
    }
    for (size_t tier = 0; tier < kTierCount; ++tier) {
      const int64_t excess = realized.schedule.arena[tier] - problem.budget[tier];
      settled.problem.budget[tier] -= std::max<int64_t>(excess, 0);
    }
  }
  return result;
}

// What holds of every plan of the real problem: the bound of the settled one, or that of the turn,
// where the copies of state count.  Infeasible if one of them proves that nothing fits.
Certificate bound_of(const Problem& problem, const PlanOptions& options,
                     const Certificate& settled) {
  constexpr double kBoundShare = 0.25;
  const Policy& policy = find_policy(options.policy);
  Certificate bound = settled;
  const TurnBound turn = turn_bound(problem, policy.bound_recomputes, policy.bound_copies,
                                    kBoundShare * options.time_limit_s);
  bound.bound_s = std::max(bound.bound_s, turn.seconds);
  bound.bound_space += ", with state resting where it does";
  if (!turn.fits && policy.bound_recomputes && policy.bound_copies) {
    bound.status = Status::infeasible;
  }
  return bound;
}

// Rewrites the certificate of a settled plan for the real one.
Planned finish(const Problem& problem, Attempt attempt, const Certificate& bound) {
  Planned planned;
  Certificate& certificate = planned.certificate;
  certificate = std::move(attempt.accepted);
  Realized& realized = *attempt.realized;
  certificate.objective_s = realized.seconds;
  // A bound that a plan beats is none.
  constexpr double kRounding = 1e-9;
  const bool is_beaten = realized.seconds < bound.bound_s * (1 - kRounding);
  certificate.bound_s = std::min(is_beaten ? bound.baseline_s : bound.bound_s, realized.seconds);
  certificate.bound_space = bound.bound_space;
  certificate.gap =
      realized.seconds > 0 ? (realized.seconds - certificate.bound_s) / realized.seconds : 0;
  certificate.status = certificate.gap <= kRounding ? Status::optimal : Status::feasible;
  certificate.peak = realized.schedule.arena;
  certificate.copied_bytes = 0;
  for (const Step& step : realized.plan.steps) {
    if (step.kind == Step::Kind::copy) certificate.copied_bytes += step.range.bytes();
  }
  planned.plan = std::move(realized.plan);
  planned.schedule = check(problem, std::move(realized.schedule));
  return planned;
}

// The smallest plan of the settled problem, with its copies within as little memory.
std::optional<SmallestPlan> smallest_moving(const Problem& problem, const PlanOptions& options) {
  const SettledProblem settled = settle(problem, false);
  const std::optional<SmallestPlan> smallest = smallest_plan(settled.problem, options);
  if (!smallest) return std::nullopt;
  Problem tight = problem;
  tight.budget[kDevice] = smallest->device_bytes - settled.pretended_bytes;
  Plan plan = unsettle(tight, smallest->plan);
  const BytesPerTier bytes = placed_bytes(problem, plan, {.effort = options.place_effort});
  return SmallestPlan{std::move(plan), bytes[kDevice]};
}

}  // namespace

bool is_settled(const Problem& problem) {
  bool settled = true;
  for_sources(problem, [&](ValueId source) {
    settled = settled && !is_moving(problem, source) && !starts_above(problem, source);
  });
  return settled;
}

SettledProblem settle(const Problem& problem, bool early) {
  if (is_settled(problem)) return {.problem = problem};
  SettledProblem settled = settle_without_windows(problem);
  add_windows(problem, early, settled.problem);
  if (early) share_links(problem, settled.problem);
  return settled;
}

Plan unsettle(const Problem& problem, const Plan& settled_plan) {
  if (is_settled(problem)) return settled_plan;
  return with_state_copies(problem, settled_plan, bytes_per_compute(problem, settled_plan));
}

Planned plan_moving_state(const Problem& problem, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto passed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  // Least windows first: their bound holds.
  Attempt best = attempt(problem, options, false, start);
  const Certificate bound = bound_of(problem, options, best.settled);
  const bool is_close =
      best.realized && best.realized->seconds * (1 - options.gap) <= bound.bound_s;
  if (!is_close && passed_s() < options.time_limit_s) {
    Attempt other = attempt(problem, options, true, start);
    const bool is_better =
        other.realized && (!best.realized || other.realized->seconds < best.realized->seconds);
    if (is_better) best = std::move(other);
  }
  std::optional<SmallestPlan> smallest;
  if (!best.realized) {
    smallest = smallest_moving(problem, options);
    if (smallest && smallest->device_bytes <= problem.budget[kDevice]) {
      best.realized = realize(problem, smallest->plan, {.effort = options.place_effort});
      best.accepted = best.settled;
    }
  }
  if (best.realized) {
    Planned planned = finish(problem, std::move(best), bound);
    planned.certificate.solve_seconds = passed_s();
    return planned;
  }
  Planned planned;
  planned.certificate = bound;
  refuse(problem, smallest, bound.status == Status::infeasible, planned.certificate);
  planned.certificate.solve_seconds = passed_s();
  return planned;
}

Minimum minimum_with_moving_state(const Problem& problem, const PlanOptions& options) {
  const std::optional<SmallestPlan> smallest = smallest_moving(problem, options);
  ensure(smallest.has_value(), "a policy without any plan");
  return describe_minimum(problem, *smallest);
}

}  // namespace olm2
