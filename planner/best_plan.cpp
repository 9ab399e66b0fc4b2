#include "planner/best_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "planner/moving_state.h"
#include "planner/run_seconds.h"

namespace olm2 {
namespace {

constexpr int kMaxTries = 8;          // Of a policy, with ever smaller budgets.
constexpr int kMoreTries = 3;         // After the first that fits where squeezed.
constexpr int64_t kPartOfExcess = 4;  // By which the budget is lowered then.
constexpr size_t kDevice = index_of(Tier::device);
constexpr double kRounding = 1e-9;
constexpr double kNever = std::numeric_limits<double>::infinity();

bool has_plan(const PolicyResult& result) {
  return result.status == Status::optimal || result.status == Status::feasible;
}

bool is_close_enough(const Found& found, const PlanOptions& options) {
  return found.realized && found.first.bound_s >= found.own_s * (1 - options.gap);
}

// Asks a policy for plans, each time with a device and host budget lower by what the last plan was
// too large.  Plans that take `beat_s` are of no use.
class Asking {
 public:
  Asking(const Question& question, const Policy& policy, const PlanOptions& options,
         const Deadline& deadline, double beat_s)
      : question_(question),
        policy_(policy),
        options_(options),
        deadline_(deadline),
        beat_s_(beat_s),
        moves_(!is_settled(question.real)),
        asked_(question.settled) {}

  Found until_it_fits() {
    if (moves_) {
      ask_moving();
    } else {
      ask_settled();
    }
    return std::move(found_);
  }

 private:
  // A plan that is too large is squeezed as well, which costs time instead of bytes: the faster of
  // the two ways counts.
  void ask_settled() {
    int tries = kMaxTries;
    for (int attempt = 0; attempt < tries && next_plan(attempt); ++attempt) {
      if (is_same_again_) continue;
      const Realized placed = placed_plan();
      if (placed.seconds >= beat_s_) return;
      const bool fits = is_within(placed.schedule.arena, question_.real.budget);
      Realized squeezed = squeeze(question_.real, placed, place_options_);
      if (!is_within(squeezed.schedule.arena, question_.real.budget)) {
        lower_by_excess(squeezed.schedule.arena, 1);
        continue;
      }
      const double seconds = squeezed.seconds;
      keep(std::move(squeezed), seconds, !fits);
      if (fits || is_close_enough(found_, options_)) return;
      tries = std::min(tries, attempt + 1 + kMoreTries);
      // Somewhere between squeezing it all and squeezing nothing.
      const bool is_last = attempt + 2 == tries;
      lower_by_excess(placed.schedule.arena, is_last ? 1 : kPartOfExcess);
    }
  }

  // To squeeze makes nodes wait for copies of state: only where nothing else fits.
  void ask_moving() {
    CopiesRoom room;
    std::optional<Realized> smallest;
    double smallest_own_s = 0;
    for (int attempt = 0; attempt < kMaxTries && next_plan(attempt); ++attempt) {
      if (is_same_again_) continue;
      Realized placed = realize_settled(question_, plan_, place_options_, beat_s_, room);
      if (placed.seconds >= beat_s_) return;
      const double own_s = realize(question_.settled, plan_, {.effort = 0}).seconds;
      if (is_within(placed.schedule.arena, question_.real.budget)) {
        return keep(std::move(placed), own_s, false);
      }
      lower_by_excess(placed.schedule.arena, 1);
      const bool is_smaller =
          !smallest || placed.schedule.arena[kDevice] < smallest->schedule.arena[kDevice];
      if (!is_smaller) continue;
      smallest = std::move(placed);
      smallest_own_s = own_s;
    }
    if (!smallest) return;
    Realized squeezed = squeeze(question_.real, *smallest, place_options_);
    if (is_within(squeezed.schedule.arena, question_.real.budget)) {
      keep(std::move(squeezed), smallest_own_s, true);
    }
  }

  // Asks; false: that is the end of it.  Where less room changes nothing, there will be even less.
  bool next_plan(int attempt) {
    options_.time_limit_s = deadline_.left_s();
    if (attempt > 0 && options_.time_limit_s <= 0) return false;
    PolicyResult result = policy_.plan(asked_, options_);
    if (attempt == 0) found_.first = result;
    if (!has_plan(result) || computing_seconds(question_.real, result.plan) >= beat_s_)
      return false;
    schedule_ = std::move(result.schedule);
    is_same_again_ = attempt > 0 && result.plan.steps == plan_.steps;
    plan_ = std::move(result.plan);
    if (!is_same_again_) return true;
    for (size_t tier = 0; tier < kTierCount; ++tier) {
      lowered_[tier] *= 2;
      asked_.budget[tier] -= lowered_[tier];
    }
    return true;
  }

  // The last answer, at the addresses that the policy found, if it sought them.
  Realized placed_plan() const {
    if (!schedule_) return realize(question_.real, plan_, place_options_);
    return {.plan = plan_,
            .schedule = *schedule_,
            .seconds = simulate(question_.real, *schedule_).seconds};
  }

  // By `part` of it.
  void lower_by_excess(const BytesPerTier& arena, int64_t part) {
    for (size_t tier = 0; tier < kTierCount; ++tier) {
      lowered_[tier] = std::max<int64_t>(arena[tier] - question_.real.budget[tier], 0) / part;
      asked_.budget[tier] -= lowered_[tier];
    }
  }

  void keep(Realized realized, double own_s, bool is_squeezed) {
    consider({.realized = std::move(realized),
              .own_s = own_s,
              .loss_bytes = question_.settled.budget[kDevice] - asked_.budget[kDevice],
              .is_squeezed = is_squeezed},
             found_);
  }

  const Question& question_;
  const Policy& policy_;
  PlanOptions options_;
  const Deadline& deadline_;
  double beat_s_;
  bool moves_;
  PlaceOptions place_options_{.effort = options_.place_effort,
                              .enough = moves_ ? question_.real.budget : BytesPerTier{}};
  Problem asked_;                          // With what is left of the budget.
  BytesPerTier lowered_{};                 // By how much it was, last.
  Plan plan_;                              // The last answer ...
  bool is_same_again_ = false;             // ... is that before it.
  std::optional<Schedule> schedule_ = {};  // Its addresses, if the policy sought them.
  Found found_;
};

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

}  // namespace

void consider(Found other, Found& best) {
  if (!other.realized) return;
  if (best.realized && best.realized->seconds <= other.realized->seconds) return;
  best.realized = std::move(other.realized);
  best.own_s = other.own_s;
  best.loss_bytes = other.loss_bytes;
  best.is_squeezed = other.is_squeezed;
}

Realized realize_settled(const Question& question, const Plan& plan, const PlaceOptions& options,
                         double beat_s, CopiesRoom& room) {
  constexpr int kTries = 3;
  const Problem& real = question.real;
  Problem tighter = real;
  std::optional<Realized> best;
  for (int i = 0; i < kTries; ++i) {
    tighter.budget[kDevice] = real.budget[kDevice] - room.given_up;
    Realized next = realize(real, unsettle(tighter, plan), options);
    const int64_t excess = next.schedule.arena[kDevice] - real.budget[kDevice];
    if (!best || next.schedule.arena[kDevice] < best->schedule.arena[kDevice]) {
      best = std::move(next);
    }
    if (excess <= 0 || best->seconds >= beat_s) break;
    room.given_up += excess;
  }
  return std::move(*best);
}

Found best_plan(const Question& question, const Policy& policy, const PlanOptions& options,
                const Deadline& deadline) {
  Found found;
  const auto ask = [&](const Policy& other, const PlanOptions& how, const Deadline& until) {
    const double beat_s = found.realized ? found.realized->seconds : options.useful_s;
    return Asking(question, other, how, until, beat_s).until_it_fits();
  };
  found = ask(policy, options, deadline);
  const auto wants_more = [&] {
    return !options.is_narrow && !is_close_enough(found, options) && deadline.left_s() > 0;
  };
  if (policy.widen != nullptr && wants_more()) {
    Policy wider = policy;
    wider.plan = policy.widen;
    Found other = ask(wider, options, deadline);
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
    consider(ask(policy, whole_tensors, deadline), found);
  }
  for (const std::string_view name : policy.contains) {
    if (name == "chen") {  // Needs no solver.
      consider(ask(find_policy(name), options, Deadline(options)), found);
    } else if (wants_more()) {
      PlanOptions other = options;
      other.bound = nullptr;  // That of another question.
      consider(ask(find_policy(name), other, deadline), found);
    }
  }
  return found;
}

void note_search(const Found& found, Certificate& certificate) {
  certificate.space = has_plan(found.first) ? found.first.space : "heuristic";
  certificate.solver = found.first.solver.empty() ? "none" : found.first.solver;
  certificate.placement_loss_bytes = found.loss_bytes;
}

PlanOptions for_the_smallest(PlanOptions options, const Deadline& deadline) {
  constexpr double kShare = 0.25;  // Of the time limit, in any case.
  options.time_limit_s =
      std::max(options.time_limit_s - deadline.passed_s(), kShare * options.time_limit_s);
  options.progress = nullptr;  // Its gap is one of bytes.
  return options;
}

TurnBound bound_for(const Problem& problem, bool may_recompute, bool may_swap,
                    const PlanOptions& options) {
  constexpr double kShare = 0.25;  // Of the time limit.
  return turn_bound(problem, may_recompute, may_swap, kShare * options.time_limit_s);
}

bool is_proven_impossible(const Problem& problem, const Policy& policy, const TurnBound& bound,
                          const PlanOptions& options) {
  if (bound.fits || (policy.bound_recomputes && policy.bound_copies)) return !bound.fits;
  return !bound_for(problem, true, true, options).fits;
}

bool is_met(double bound_s, double seconds) {
  return std::abs(seconds - bound_s) <= kRounding * bound_s;
}

void rate(Certificate& certificate) {
  const double seconds = certificate.objective_s;
  certificate.status = is_met(certificate.bound_s, seconds) ? Status::optimal : Status::feasible;
  // A bound that a plan beats is none.
  if (seconds < certificate.bound_s * (1 - kRounding)) {
    certificate.bound_s = std::min(certificate.baseline_s, seconds);
  }
  certificate.bound_s = std::min(certificate.bound_s, seconds);
  certificate.gap = seconds > 0 ? (seconds - certificate.bound_s) / seconds : 0;
}

void accept(const Problem& problem, Realized realized, Planned& planned) {
  Certificate& certificate = planned.certificate;
  certificate.objective_s = realized.seconds;
  certificate.peak = realized.schedule.arena;
  rate(certificate);
  count_work(problem, realized.plan, certificate);
  planned.plan = std::move(realized.plan);
  planned.schedule = check(problem, std::move(realized.schedule));
}

}  // namespace olm2
