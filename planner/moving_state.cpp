#include "planner/moving_state.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "planner/best_plan.h"
#include "planner/keep_all.h"
#include "planner/smallest.h"
#include "planner/state_copies.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);

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

double computing_s(const Problem& problem) {
  return std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0);
}

TurnBound bound_of(const Problem& problem, const PlanOptions& options) {
  const Policy& policy = find_policy(options.policy);
  return bound_for(problem, policy.bound_recomputes, policy.bound_copies, options);
}

// Raises a bound to that of the turn of the real problem, where the copies of state count.  False:
// no plan fits.
bool raise_to_turn(const Problem& problem, const PlanOptions& options, Certificate& certificate) {
  const TurnBound turn = bound_of(problem, options);
  certificate.bound_s = std::max(certificate.bound_s, turn.seconds);
  return turn.fits;
}

bool is_close_enough(const Found& found, double bound_s, const PlanOptions& options) {
  return found.realized && found.realized->seconds * (1 - options.gap) <= bound_s;
}

// Whether nodes look alike to a policy in both.
bool is_same(const SettledProblem& a, const SettledProblem& b) {
  const auto is_same_link = [](const LinkProfile& x, const LinkProfile& y) {
    return x.bytes_per_s == y.bytes_per_s;
  };
  return a.problem.workspace == b.problem.workspace &&
         is_same_link(a.problem.device_to_host, b.problem.device_to_host) &&
         is_same_link(a.problem.host_to_device, b.problem.host_to_device);
}

// Keeping everything, and the policy's plan, of the settled problem.
Found plan_as_if_settled(const Problem& problem, const SettledProblem& settled,
                         const TurnBound& bound, PlanOptions options, const Deadline& deadline) {
  const Question question{.real = problem, .settled = settled.problem};
  options.bound = std::make_shared<const TurnBound>(bound);
  Found found;
  const Plan keep_all = keep_all_plan(settled.problem);
  if (is_within(replay(settled.problem, keep_all).peak, settled.problem.budget)) {
    CopiesRoom room;
    Realized realized = realize_settled(question, keep_all,
                                        {.effort = options.place_effort, .enough = problem.budget},
                                        options.useful_s, room);
    if (realized.seconds >= options.useful_s) return found;
    if (is_within(realized.schedule.arena, problem.budget)) {
      found.own_s = computing_s(problem);
      found.realized = std::move(realized);
      found.first = {.status = Status::optimal, .bound_s = bound.seconds, .space = "complete"};
      return found;  // What a policy can do better is to make room for copies: see `early`.
    }
  }
  return best_plan(question, find_policy(options.policy), options, deadline);
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

Planned plan_moving_state(const Problem& problem, const Policy& policy, const PlanOptions& options,
                          const Deadline& deadline) {
  Planned planned;
  Certificate& certificate = planned.certificate;
  certificate.policy = policy.name;
  certificate.baseline_s = computing_s(problem);
  const SettledProblem least = settle(problem, false);  // Its bound holds.
  TurnBound bound = bound_of(least.problem, options);
  certificate.bound_s = std::max(certificate.baseline_s, bound.seconds);
  certificate.bound_space = bound.text + ", with state resting where it does";
  Found found;
  if (bound.fits && certificate.bound_s < options.useful_s) {
    found = plan_as_if_settled(problem, least, bound, options, deadline);
  }
  if (!options.is_narrow) {
    if (bound.fits && (!found.realized || !is_met(certificate.bound_s, found.realized->seconds))) {
      bound.fits = raise_to_turn(problem, options, certificate);
    }
    const SettledProblem ample = settle(problem, true);
    const bool wants_more = bound.fits && !is_close_enough(found, certificate.bound_s, options) &&
                            !is_same(least, ample) && deadline.left_s() > 0;
    if (wants_more) {
      const TurnBound guide = bound_of(ample.problem, options);
      if (guide.fits) consider(plan_as_if_settled(problem, ample, guide, options, deadline), found);
    }
  }
  std::optional<SmallestPlan> smallest;
  if (!found.realized && !options.is_narrow) {
    smallest = smallest_moving(problem, for_the_smallest(options, deadline));
    if (smallest && smallest->device_bytes <= problem.budget[kDevice]) {
      found.realized = realize(problem, smallest->plan, {.effort = options.place_effort});
    }
  }
  note_search(found, certificate);
  if (!found.realized) {
    refuse(problem, smallest, is_proven_impossible(least.problem, policy, bound, options),
           certificate);
    return planned;
  }
  accept(problem, std::move(*found.realized), planned);
  return planned;
}

void raise_bound(const Problem& problem, const PlanOptions& options, Certificate& certificate) {
  if (is_settled(problem) || certificate.status == Status::optimal) return;
  raise_to_turn(problem, options, certificate);
  rate(certificate);
}

Minimum minimum_with_moving_state(const Problem& problem, const PlanOptions& options) {
  const std::optional<SmallestPlan> smallest = smallest_moving(problem, options);
  ensure(smallest.has_value(), "a policy without any plan");
  return describe_minimum(problem, *smallest);
}

}  // namespace olm2
