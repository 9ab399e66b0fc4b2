#include "train/state_choice.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "planner/bound.h"
#include "planner/moving_state.h"
#include "train/bytes.h"

namespace olm2 {
namespace {

constexpr int kRefinements = 4;
constexpr double kRounding = 1e-9;
constexpr double kLeastShare = 0.25;  // Of the time limit, for evaluation and sampling.
constexpr double kNever = std::numeric_limits<double>::infinity();

// A program of the optimizer step, and how often one step runs it.
struct Turn {
  size_t program = 0;
  double times = 0;
};

std::vector<Turn> step_programs(const RunPrograms& run) {
  std::vector<Turn> turns;
  for (size_t i = 0; i < run.programs.size(); ++i) {
    const std::string& name = run.programs[i].name;
    const bool once = name == "step" || name == "first" || name == "last";
    const int64_t times = once ? 1 : (name == "middle" ? run.grad_accumulation - 2 : 0);
    if (times > 0) turns.push_back({i, static_cast<double>(times)});
  }
  return turns;
}

double computing_s(const Problem& problem) {
  return std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0);
}

// Seconds that no plan beats: its computing, or the copies of state on one lane.
double least_seconds(const Problem& problem) {
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
  return std::max({computing_s(problem), in, out});
}

// Where state rests, with plans of the programs of a step; of the others none yet.
struct Choice {
  StateLayout layout;
  std::vector<Problem> problems = {};
  std::vector<std::optional<Planned>> planned = {};  // Per program.
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
        turns_(step_programs(run)),
        order_(leaving_order(run)),
        left_s_(options.time_limit_s) {
    for (const Problem& problem : problems) {
      const bool has_links =
          problem.device_to_host.bytes_per_s > 0 && problem.host_to_device.bytes_per_s > 0;
      may_leave_ = may_leave_ && has_links && options.policy != "none";
    }
    // A run without steps is planned for its only program.
    if (turns_.empty()) turns_.push_back({0, 1});
  }

  StateSearch search() {
    try_counts(/*is_narrow=*/true);
    if (found_.empty()) try_counts(/*is_narrow=*/false);
    std::ranges::stable_sort(found_, {}, &Choice::step_s);
    if (!found_.empty()) polish(found_.front());
    try_resident();
    std::ranges::stable_sort(found_, {}, &Choice::step_s);
    for (Choice& choice : found_) {
      if (plan_others(choice)) return result_of(std::move(choice));
    }
    return {.certificates = std::move(failed_), .solve_seconds = solve_seconds_};
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

  std::vector<Problem> problems_with(const StateLayout& layout) const {
    std::vector<Problem> problems = with_layout(run_, problems_, layout);
    for (Problem& problem : problems) problem.budget = budgets_.bytes;
    return problems;
  }

  int64_t bytes_of(size_t count) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += order_[i].bytes;
    return bytes;
  }

  // Large ones of one role are a group; all small ones are another.
  bool is_end_of_group(size_t i) const {
    if (i + 1 == order_.size()) return true;
    const bool next_is_small = is_small(order_[i + 1]);
    return next_is_small != is_small(order_[i]) ||
           (!next_is_small && order_[i + 1].role != order_[i].role);
  }

  // Where a group ends, or the host budget.
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
      if (is_end_of_group(i)) ends.push_back(i + 1);
    }
    return ends;
  }

  void try_counts(bool is_narrow) {
    const std::vector<size_t> ends = group_ends();
    shares_time_ = !ends.empty();
    tried_.clear();
    try_count(0, is_narrow);
    for (const size_t count : ends) try_count(count, is_narrow);
    for (int i = 0; i < kRefinements && !found_.empty(); ++i) {
      const std::optional<size_t> next = widest_gap_beside_best();
      if (!next) break;
      try_count(*next, is_narrow);
    }
  }

  void try_count(size_t count, bool is_narrow) {
    if (tried_.contains(count) || is_near_least()) return;
    tried_[count] = kNever;
    Choice choice{.layout = layout_of(count)};
    choice.problems = problems_with(choice.layout);
    if (!may_still_plan() || !plan_step(choice, is_narrow, best_s())) return;
    tried_[count] = choice.step_s;
    found_.push_back(std::move(choice));
  }

  double best_s() const {
    double best_s = kNever;
    for (const Choice& choice : found_) best_s = std::min(best_s, choice.step_s);
    return best_s;
  }

  bool may_still_plan() const {
    const bool is_stopped = options_.should_stop && options_.should_stop();
    return found_.empty() || (left_s_ > 0 && !is_stopped);
  }

  // Plans the programs of a step, as long as it may still be faster than `beat_s`.
  bool plan_step(Choice& choice, bool is_narrow, double beat_s) {
    std::vector<double> least_s;
    double step_s = 0;
    for (const Turn& turn : turns_) {
      least_s.push_back(least_seconds(choice.problems[turn.program]));
      step_s += turn.times * least_s.back();
    }
    double time_s = std::max(0.0, shares_time_ ? left_s_ / 2 : left_s_);  // Others may follow.
    bool is_counted = false;
    choice.planned.resize(choice.problems.size());
    for (size_t t = 0; t < turns_.size(); ++t) {
      if (step_s >= beat_s) return false;
      const Turn& turn = turns_[t];
      PlanOptions mine = options_;
      mine.is_narrow = is_narrow;
      mine.useful_s = least_s[t] + (beat_s - step_s) / turn.times;
      mine.time_limit_s = time_s / static_cast<double>(turns_.size() - t);
      Planned planned = plan(choice.problems[turn.program], mine);
      time_s -= planned.certificate.solve_seconds;
      planned_choices_ += is_counted ? 0 : 1;
      is_counted = true;
      if (!planned.schedule) {
        if (!is_narrow) failed_ = {planned.certificate};
        return false;
      }
      step_s += turn.times * (planned.certificate.objective_s - least_s[t]);
      choice.planned[turn.program] = std::move(planned);
    }
    choice.step_s = seconds_of(choice);
    return true;
  }

  Planned plan(const Problem& problem, const PlanOptions& options) {
    Planned planned = plan_program(problem, options);
    left_s_ -= planned.certificate.solve_seconds;
    solve_seconds_ += planned.certificate.solve_seconds;
    return planned;
  }

  double seconds_of(const Choice& choice) const {
    double seconds = 0;
    for (const Turn& turn : turns_) {
      seconds += turn.times * choice.planned[turn.program]->certificate.objective_s;
    }
    return seconds;
  }

  // Proves more of plans that were made narrowly, and looks further where that is not enough.
  void polish(Choice& choice) {
    for (const Turn& turn : turns_) {
      const Problem& problem = choice.problems[turn.program];
      Planned& planned = *choice.planned[turn.program];
      raise_bound(problem, options_, planned.certificate);
      if (planned.certificate.gap <= options_.gap || !may_still_plan()) continue;
      PlanOptions mine = options_;
      mine.time_limit_s = std::max(0.0, left_s_);
      Planned other = plan(problem, mine);
      const bool is_better =
          other.schedule && other.certificate.objective_s < planned.certificate.objective_s;
      if (is_better) planned = std::move(other);
    }
    choice.step_s = seconds_of(choice);
  }

  // State at home on the device for the whole step is a choice as well: others leave more room, but
  // a policy may use that badly, and addresses may fit worse.
  void try_resident() {
    Choice choice{.layout = resident_layout(run_)};
    choice.problems = problems_with(choice.layout);
    const Policy& policy = find_policy(options_.policy);
    double least_s = 0;
    for (const Turn& turn : turns_) {
      const TurnBound bound = turn_bound(choice.problems[turn.program], policy.bound_recomputes,
                                         policy.bound_copies, options_.time_limit_s / 4);
      if (!bound.fits) return;
      least_s += turn.times * bound.seconds;
    }
    if (least_s >= best_s() * (1 - kRounding)) return;
    shares_time_ = false;
    if (!plan_step(choice, /*is_narrow=*/false, kNever)) return;
    if (choice.step_s < best_s() * (1 - kRounding)) found_.push_back(std::move(choice));
  }

  // Evaluation and sampling, where they run.
  bool plan_others(Choice& choice) {
    for (size_t i = 0; i < choice.problems.size(); ++i) {
      if (choice.planned[i]) continue;
      PlanOptions mine = options_;
      mine.time_limit_s = std::max(left_s_, kLeastShare * options_.time_limit_s);
      choice.planned[i] = plan(choice.problems[i], mine);
      if (choice.planned[i]->schedule) continue;
      failed_ = {choice.planned[i]->certificate};
      return false;
    }
    return true;
  }

  StateSearch result_of(Choice choice) {
    StateSearch found{.solve_seconds = solve_seconds_};
    std::vector<Planned> planned;
    for (std::optional<Planned>& program : choice.planned) {
      found.certificates.push_back(program->certificate);
      planned.push_back(std::move(*program));
    }
    found.plan = collect_plans(run_, choice.problems, budgets_, std::move(planned));
    found.plan->state = std::move(choice.layout);
    found.plan->state_choices = planned_choices_;
    found.plan->state_choices_s = solve_seconds_;
    return found;
  }

  // Whether the best is within the asked gap of what no choice beats: the more state rests on the
  // host, the less of it nodes have beside them, so that a step which finds the state of the
  // roomiest choice where it wants it, and has all of the host for itself, is no slower than any.
  bool is_near_least() {
    if (found_.empty()) return false;
    if (!least_s_) {
      least_s_ = 0;
      const Policy& policy = find_policy(options_.policy);
      const std::vector<Problem> problems = problems_with(roomiest());
      for (const Turn& turn : turns_) {
        Problem problem = settle(problems[turn.program], /*early=*/false).problem;
        problem.budget[index_of(Tier::host)] = budgets_.bytes[index_of(Tier::host)];
        const TurnBound bound = turn_bound(problem, policy.bound_recomputes, policy.bound_copies,
                                           options_.time_limit_s / 4);
        *least_s_ += turn.times * bound.seconds;
      }
    }
    return best_s() * (1 - options_.gap) <= *least_s_ * (1 + kRounding);
  }

  // The middle, by bytes, of the wider gap between the best count and those tried beside it.
  std::optional<size_t> widest_gap_beside_best() const {
    const auto here =
        std::ranges::min_element(tried_, {}, [](const auto& tried) { return tried.second; });
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
  std::vector<Turn> turns_;
  std::vector<StateSource> order_;
  bool may_leave_ = true;
  bool shares_time_ = false;  // More than one choice is tried.
  double left_s_;
  double solve_seconds_ = 0;
  int planned_choices_ = 0;
  std::optional<double> least_s_;    // Of a step, whatever is chosen.
  std::vector<Certificate> failed_;  // Of the last choice without a plan.
  std::map<size_t, double> tried_;   // Seconds of a step; infinite: no plan, or none of use.
  std::vector<Choice> found_;
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
