#include "train/state_choice.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "planner/bound.h"
#include "train/bytes.h"

namespace olm2 {
namespace {

constexpr int kRefinements = 4;

// Micro batches of one optimizer step: how often each program runs.
std::vector<std::pair<size_t, int64_t>> step_programs(const RunPrograms& run) {
  std::vector<std::pair<size_t, int64_t>> runs;
  for (size_t i = 0; i < run.programs.size(); ++i) {
    const std::string& name = run.programs[i].name;
    const bool once = name == "step" || name == "first" || name == "last";
    const int64_t times = once ? 1 : (name == "middle" ? run.grad_accumulation - 2 : 0);
    if (times > 0) runs.emplace_back(i, times);
  }
  return runs;
}

struct Choice {
  size_t count = 0;  // Sources that leave.
  StateLayout layout;
  std::vector<Problem> problems = {};
  std::vector<Planned> planned = {};
  double step_s = 0;
};

class Chooser {
 public:
  Chooser(const RunPrograms& run, const std::vector<Problem>& problems, const Budgets& budgets,
          const PlanOptions& options)
      : run_(run),
        problems_(problems),
        budgets_(budgets),
        options_(options),
        order_(leaving_order(run)),
        left_s_(options.time_limit_s) {
    for (const Problem& problem : problems) {
      const bool has_links =
          problem.device_to_host.bytes_per_s > 0 && problem.host_to_device.bytes_per_s > 0;
      may_leave_ = may_leave_ && has_links && options.policy != "none";
    }
  }

  StateSearch search() {
    const std::vector<size_t> ends = group_ends();
    shares_time_ = !ends.empty();
    try_count(0);
    for (const size_t count : ends) try_count(count);
    for (int i = 0; i < kRefinements && best_ && !is_ideal(); ++i) {
      const std::optional<size_t> next = widest_gap_beside_best();
      if (!next) break;
      try_count(*next);
    }
    try_resident();
    StateSearch found{.solve_seconds = solve_seconds_};
    if (!best_) {
      found.certificates = std::move(failed_);
      return found;
    }
    for (const Planned& planned : best_->planned) {
      found.certificates.push_back(planned.certificate);
    }
    found.plan = collect_plans(run_, best_->problems, budgets_, std::move(best_->planned));
    found.plan->state = std::move(best_->layout);
    found.plan->state_choices = planned_choices_;
    found.plan->state_choices_s = solve_seconds_;
    return found;
  }

  StateLayout roomiest() const {
    const std::vector<size_t> ends = group_ends();
    return layout_of(ends.empty() ? 0 : ends.back());
  }

 private:
  StateLayout layout_of(size_t count) const {
    SourceNames names;
    for (size_t i = 0; i < count; ++i) names.insert(order_[i].name);
    return planned_layout(run_, names);
  }

  int64_t bytes_of(size_t count) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += order_[i].bytes;
    return bytes;
  }

  // Where a group of equal role ends, or the host budget.
  std::vector<size_t> group_ends() const {
    std::vector<size_t> ends;
    if (!may_leave_) return ends;
    const int64_t limit = budgets_.bytes[index_of(Tier::host)];
    int64_t bytes = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      bytes += order_[i].bytes;
      if (bytes > limit) {
        if (i > 0 && (ends.empty() || ends.back() != i)) ends.push_back(i);
        return ends;
      }
      if (i + 1 == order_.size() || order_[i + 1].role != order_[i].role) ends.push_back(i + 1);
    }
    return ends;
  }

  // Nothing is faster than all computing of all programs without any waiting; within the asked gap
  // of that no other choice is looked for.
  bool is_ideal() const {
    double least_s = 0;
    for (const auto& [i, times] : step_programs(run_)) {
      double seconds = 0;
      for (const double node_s : problems_[i].seconds) seconds += node_s;
      least_s += static_cast<double>(times) * seconds;
    }
    return best_->step_s * (1 - options_.gap) <= least_s * (1 + 1e-9);
  }

  // Seconds that no plan beats with these sources on the host: computing, or one lane's copies.
  double least_seconds(const std::vector<Problem>& problems) const {
    double total = 0;
    for (const auto& [i, times] : step_programs(run_)) {
      const Problem& problem = problems[i];
      double computing = 0;
      for (const double seconds : problem.seconds) computing += seconds;
      double in = 0;
      double out = 0;
      for (size_t v = 0; v < problem.graph->values().size(); ++v) {
        const ValueId source{static_cast<int32_t>(v)};
        const Value& value = problem.graph->values()[v];
        if (value.home != source || problem.rest_of(source).tier == Tier::device) continue;
        const StateRest rest = problem.rest_of(source);
        const auto bytes = static_cast<double>(value.type.bytes());
        const bool is_read = std::ranges::any_of(problem.graph->nodes(), [&](const Node& node) {
          return std::ranges::find(node.inputs, source) != node.inputs.end();
        });
        if (rest.at_start && is_read) in += bytes / problem.host_to_device.bytes_per_s;
        if (rest.at_end && problem.graph->newest(source) != source) {
          out += bytes / problem.device_to_host.bytes_per_s;
        }
      }
      total += static_cast<double>(times) * std::max({computing, in, out});
    }
    return total;
  }

  void try_count(size_t count) {
    if (tried_.contains(count) || (best_ && is_ideal())) return;
    Choice choice{.count = count, .layout = layout_of(count)};
    choice.problems = with_layout(run_, problems_, choice.layout);
    for (Problem& problem : choice.problems) problem.budget = budgets_.bytes;
    tried_[count] = -1;
    if (best_ && least_seconds(choice.problems) >= best_->step_s) return;
    const bool is_stopped = options_.should_stop && options_.should_stop();
    if (best_ && (left_s_ <= 0 || is_stopped)) return;
    PlanOptions mine = options_;
    // Half of what is left, for this choice may not be the last one.
    mine.time_limit_s = std::max(0.0, shares_time_ ? left_s_ / 2 : left_s_);
    TriedPlans plans = try_to_plan(choice.problems, mine);
    ++planned_choices_;
    for (const Planned& planned : plans.planned) {
      left_s_ -= planned.certificate.solve_seconds;
      solve_seconds_ += planned.certificate.solve_seconds;
    }
    if (plans.failed >= 0) {
      failed_.clear();
      for (const Planned& planned : plans.planned) failed_.push_back(planned.certificate);
      return;
    }
    tried_[count] = consider(std::move(choice), std::move(plans.planned));
  }

  // State at home on the device for the whole step is a choice as well: others leave more room, but
  // a policy may use that badly, and addresses may fit worse.
  void try_resident() {
    Choice choice{.layout = resident_layout(run_), .problems = problems_};
    for (Problem& problem : choice.problems) problem.budget = budgets_.bytes;
    const double beat_s = best_ ? best_->step_s : std::numeric_limits<double>::infinity();
    if (resident_bound_s(choice.problems) >= beat_s) return;
    PlanOptions mine = options_;
    mine.time_limit_s = std::max(0.0, left_s_);
    TriedPlans plans = try_to_plan(choice.problems, mine);
    ++planned_choices_;
    for (const Planned& planned : plans.planned) {
      solve_seconds_ += planned.certificate.solve_seconds;
    }
    if (plans.failed < 0) consider(std::move(choice), std::move(plans.planned));
  }

  // Seconds that no plan with resident state beats; infinite if there is none.
  double resident_bound_s(const std::vector<Problem>& problems) const {
    const Policy& policy = find_policy(options_.policy);
    double total = 0;
    for (const auto& [i, times] : step_programs(run_)) {
      const TurnBound bound = turn_bound(problems[i], policy.bound_recomputes, policy.bound_copies,
                                         options_.time_limit_s / 4);
      if (!bound.fits) return std::numeric_limits<double>::infinity();
      total += static_cast<double>(times) * bound.seconds;
    }
    return total;
  }

  // Keeps it if it is the fastest.  Returns the seconds of a step.
  double consider(Choice choice, std::vector<Planned> planned) {
    constexpr double kRounding = 1e-9;
    for (const auto& [i, times] : step_programs(run_)) {
      choice.step_s += static_cast<double>(times) * planned[i].certificate.objective_s;
    }
    choice.planned = std::move(planned);
    const double step_s = choice.step_s;
    if (!best_ || step_s < best_->step_s * (1 - kRounding)) best_ = std::move(choice);
    return step_s;
  }

  // The middle, by bytes, of the wider gap between the best count and those tried beside it.
  std::optional<size_t> widest_gap_beside_best() const {
    const auto here = tried_.find(best_->count);
    std::optional<size_t> widest;
    int64_t most = 0;
    const auto consider = [&](size_t from, size_t to) {
      const int64_t gap = bytes_of(to) - bytes_of(from);
      if (to - from < 2 || gap <= most) return;
      size_t middle = from + 1;
      while (middle + 1 < to && bytes_of(middle) - bytes_of(from) < gap / 2) ++middle;
      most = gap;
      widest = middle;
    };
    if (here != tried_.begin()) consider(std::prev(here)->first, here->first);
    if (std::next(here) != tried_.end()) consider(here->first, std::next(here)->first);
    return widest;
  }

  const RunPrograms& run_;
  const std::vector<Problem>& problems_;
  const Budgets& budgets_;
  const PlanOptions& options_;
  std::vector<StateSource> order_;
  bool may_leave_ = true;
  bool shares_time_ = false;  // More than one choice is tried.
  double left_s_;
  double solve_seconds_ = 0;
  int planned_choices_ = 0;
  std::vector<Certificate> failed_;  // Of the last choice without a plan.
  std::map<size_t, double> tried_;   // Seconds of a step; -1: none was found, or it was skipped.
  std::optional<Choice> best_;
};

}  // namespace

std::vector<Problem> with_layout(const RunPrograms& run, std::vector<Problem> problems,
                                 const StateLayout& layout) {
  for (size_t i = 0; i < problems.size(); ++i) apply_layout(layout, run.programs[i], problems[i]);
  return problems;
}

StateSearch search_state(const RunPrograms& run, const std::vector<Problem>& problems,
                         const Budgets& budgets, const PlanOptions& options, bool planned_state) {
  if (planned_state) return Chooser(run, problems, budgets, options).search();
  std::vector<Problem> mine = problems;
  for (Problem& problem : mine) problem.budget = budgets.bytes;
  TriedPlans tried = try_to_plan(mine, options);
  StateSearch found;
  for (const Planned& planned : tried.planned) {
    found.certificates.push_back(planned.certificate);
    found.solve_seconds += planned.certificate.solve_seconds;
  }
  if (tried.failed >= 0) return found;
  found.plan = collect_plans(run, mine, budgets, std::move(tried.planned));
  found.plan->state = resident_layout(run);
  return found;
}

RunPlan choose_state(const RunPrograms& run, const std::vector<Problem>& problems,
                     const Budgets& budgets, const PlanOptions& options, bool planned_state) {
  StateSearch found = search_state(run, problems, budgets, options, planned_state);
  if (found.plan) return std::move(*found.plan);
  // Refuses in the name of the choice that leaves most to the rest.
  StateLayout layout = roomiest_layout(run, problems, budgets, options, planned_state);
  RunPlan plan = plan_run(run, with_layout(run, problems, layout), budgets, options);
  plan.state = std::move(layout);
  return plan;
}

StateLayout roomiest_layout(const RunPrograms& run, const std::vector<Problem>& problems,
                            const Budgets& budgets, const PlanOptions& options,
                            bool planned_state) {
  if (!planned_state) return resident_layout(run);
  return Chooser(run, problems, budgets, options).roomiest();
}

std::string describe_state(const RunPrograms& run, const StateLayout& layout) {
  if (!layout.planned) return "resident: all of it stays on the device";
  size_t away = 0;
  for (const auto& [name, place] : layout.places) away += place.tier == Tier::host ? 1 : 0;
  std::string text = "planned: ";
  if (away == 0) return text + "all that outlives a step rests on the device";
  return text + std::to_string(away) + " of " + std::to_string(run.sources.size()) +
         " sources rest on the host, " + describe_bytes(layout.host_bytes());
}

}  // namespace olm2
