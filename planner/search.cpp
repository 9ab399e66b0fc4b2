#include "planner/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "planner/arrange.h"
#include "planner/deadline.h"
#include "planner/glpk_solver.h"
#include "planner/guide.h"
#include "planner/milp_model.h"
#include "planner/milp_slots.h"
#include "planner/realize.h"
#include "planner/run_seconds.h"
#include "planner/solver_process.h"

namespace olm2 {
namespace {

constexpr int kMostAttempts = 4;     // Of a stage, with ever smaller budgets.
constexpr int kMostForbidden = 200;  // Choices that only tolerances or addresses forbid.
constexpr int kMostInVain = 2;
constexpr int kPatience = 64;  // Times the usual search for addresses.
constexpr size_t kDevice = index_of(Tier::device);
constexpr int64_t kStepsOfTree = 6000;  // Of the solver, for one program.
constexpr double kFirstShare = 0.6;  // Of the time limit, for one, while there is no plan at all.
constexpr std::array<double, 4> kMargins = {kUsualMargin, 1.0, 2.0, 4.0};

constexpr std::array<Stage, 9> kStages = {{{"single0", 1},
                                           {"single1", 1},
                                           {"single1", 2},
                                           {"jit0", 1},
                                           {"jit0", 2},
                                           {"jit1", 4},
                                           {"single0", kEverything},
                                           {"single1", kEverything},
                                           {"jit0", kEverything}}};

struct Best {
  Plan plan;
  Decisions decisions;
  double seconds = std::numeric_limits<double>::infinity();
  Schedule schedule;
  std::string space;
};

// The fastest plan of a stage that did not fit.
struct Dream {
  Plan plan;
  Decisions decisions;
  double seconds = std::numeric_limits<double>::infinity();
  bool was_sought = false;
};

class Search {
 public:
  Search(const Problem& problem, const PlanOptions& options, const TurnBound& bound,
         bool may_recompute, bool may_swap)
      : problem_(problem),
        options_(options),
        bound_(bound),
        guide_(problem, bound),
        deadline_(options),
        may_recompute_(may_recompute),
        may_swap_(may_swap) {}

  PolicyResult run() {
    const SolverSession session;
    int in_vain = 0;  // Stages in a row that brought nothing.
    for (const Stage& stage : stages()) {
      if (is_done() || (options_.space == "auto" && in_vain == kMostInVain)) break;
      const double before = best_.seconds;
      try_stage(stage);
      if (is_misled_ && !is_done()) try_stage({stage.space, kEverything});
      in_vain = has_plan() && best_.seconds == before ? in_vain + 1 : 0;
    }
    PolicyResult result{.status = Status::unknown,
                        .plan = {},
                        .bound_s = bound_.seconds,
                        .space = std::string(narrowest_space(problem_, options_.space)),
                        .solver = glpk_name()};
    if (!has_plan()) return result;
    result.status = Status::feasible;
    result.plan = std::move(best_.plan);
    result.space = best_.space;
    result.schedule = std::move(best_.schedule);
    return result;
  }

 private:
  bool has_plan() const { return std::isfinite(best_.seconds); }
  bool is_done() const {
    constexpr double kRounding = 1e-9;
    const double enough_s = bound_.seconds * (1 + kRounding);
    const bool is_close = has_plan() && best_.seconds * (1 - options_.gap) <= enough_s;
    return is_close || deadline_.left_s() == 0;
  }

  // Without recomputing all candidate sets are the same.
  std::vector<Stage> stages() const {
    const std::string_view narrowest = narrowest_space(problem_, options_.space);
    if (!may_recompute_) return {{"single0", kEverything}};
    if (narrowest == "full") return {{"full", kEverything}};
    std::vector<Stage> result;
    for (const Stage& stage : kStages) {
      if (options_.space == "auto" || options_.space == stage.space) result.push_back(stage);
    }
    if (options_.space != "auto") {
      result.push_back({narrowest, 2});
      result.push_back({narrowest, kEverything});
    }
    return result;
  }

  void try_stage(const Stage& stage) {
    const GuidedSlots guided = guide_.choose(stage, may_recompute_);
    is_misled_ = false;
    if (!seen_.insert(guided.key()).second) return;
    dream_ = {};
    look_into(stage, guided);
    dream(stage);
  }

  // Seeks addresses for the fastest plan of the stage that had none, for long, once.
  void dream(const Stage& stage) {
    if (dream_.was_sought || dream_.seconds >= best_.seconds || is_done()) return;
    dream_.was_sought = true;
    keep_if_fastest(realize(problem_, dream_.plan, patiently_), dream_.decisions, stage);
  }

  void look_into(const Stage& stage, const GuidedSlots& guided) {
    BytesPerTier target = problem_.budget;
    BytesPerTier last_excess{};
    std::vector<Row> forbidden;
    const int most = may_swap_ ? kMostAttempts : kMostForbidden;
    for (int attempt = 0; attempt < most && deadline_.left_s() > 0; ++attempt) {
      MilpModel model = build_model(problem_, guided.slots,
                                    {.may_swap = may_swap_,
                                     .partial_swap = options_.partial_swap,
                                     .minimise_budget = false,
                                     .budget = target});
      guide_.require(guided, model);
      model.linear.rows.insert(model.linear.rows.end(), forbidden.begin(), forbidden.end());
      const Solution solution = solve_model(model);
      if (attempt == 0) is_misled_ = misleads(stage, solution);
      if (solution.x.empty()) return;
      const Decisions decisions = decisions_of(problem_, model, solution.x);
      const BytesPerTier excess = consider(decisions, stage);
      if (attempt == 0) dream(stage);
      if (excess == BytesPerTier{} || is_done()) return;
      if (model.swaps.empty()) {
        forbidden.push_back(forbid(model, solution.x));
      } else {
        BytesPerTier less = excess;
        const bool stays = excess[kDevice] > 0 && excess[kDevice] == last_excess[kDevice];
        if (stays) less[kDevice] = rest_of_cut(decisions, excess);
        for (size_t t = 0; t < kTierCount; ++t)
          target[t] = std::max<int64_t>(0, target[t] - less[t]);
        last_excess = excess;
      }
    }
  }

  // Whether it is proven that the guided program of the narrowest space holds no plan that is close
  // enough.
  bool misleads(const Stage& stage, const Solution& solution) const {
    constexpr double kMilliseconds = 1e3;
    const bool is_narrow = stage.space == narrowest_space(problem_, options_.space);
    if (stage.radius == kEverything || !is_narrow) return false;
    return solution.verdict == Solution::Verdict::infeasible ||
           solution.bound * (1 - options_.gap) > bound_.seconds * kMilliseconds;
  }

  // Where less memory only means that more of one value is sent, and the gap beside its rest grows
  // likewise: the rest, without which it is sent whole.  Otherwise the excess.
  int64_t rest_of_cut(const Decisions& decisions, const BytesPerTier& excess) const {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t v = 0; v < decisions.swapped.size(); ++v) {
      const int64_t rest = problem_.padded_bytes({static_cast<int32_t>(v)}) - decisions.swapped[v];
      if (decisions.swapped[v] > 0 && rest > 0) least = std::min(least, rest);
    }
    return least == std::numeric_limits<int64_t>::max() ? excess[kDevice] : least;
  }

  Solution solve_model(MilpModel& model) {
    const std::vector<Row> rows = likely_memory_rows(model);
    model.linear.rows.insert(model.linear.rows.end(), rows.begin(), rows.end());
    SolverRequest request{
        .gap = options_.gap / 2,
        .time_limit_s = limit_s(),
        .step_limit = step_limit(model),
        .broken_rows = [&](std::span<const double> x) { return broken_memory_rows(model, x); },
        .should_stop = options_.should_stop,
        .start = has_plan() ? start_of(model, best_.decisions) : std::vector<double>{},
        .memory_limit_bytes = options_.memory_limit_bytes,
    };
    if (options_.progress) {
      request.progress = [&](double) { report(); };
    }
    Solution solution = solve(model.linear, request);
    return solution;
  }

  // Of one program, as long as there is no plan; then what is left.
  double limit_s() const {
    const double left_s = deadline_.left_s();
    return has_plan() ? left_s : std::min(left_s, kFirstShare * options_.time_limit_s);
  }
  // The relaxation takes about as many steps as there are rows, and the tree is worth some more,
  // of 0.2 to 0.5 ms each.
  static int64_t step_limit(const MilpModel& model) {
    const size_t size = model.linear.columns.size() + model.linear.rows.size();
    return static_cast<int64_t>(size) + kStepsOfTree;
  }

  void report() const {
    if (!options_.progress) return;
    options_.progress(deadline_.passed_s(), has_plan() ? 1 - bound_.seconds / best_.seconds : -1.0);
  }

  // Bytes by which decisions exceed the budgets, with addresses if they have any; keeps the plan
  // if it fits, squeezed or not, and is the fastest.  Where copies keep others waiting, copies in
  // that start earlier or later are tried.
  BytesPerTier consider(const Decisions& decisions, const Stage& stage) {
    const double computing_s = seconds_of(decisions);
    BytesPerTier excess{};
    for (const double margin : kMargins) {
      const Arrangement arrangement = arrange(problem_, decisions, margin);
      if (!arrangement.fits(problem_.budget)) return excess_of(arrangement.least);
      const Realized realized = place_within(arrangement.plan, decisions, excess);
      keep_if_fastest(realized, decisions, stage);
      const bool waits = realized.seconds > computing_s * (1 + options_.gap / 4);
      if (!waits || excess != BytesPerTier{} || is_done()) break;
    }
    return excess;
  }

  // Places a plan, ever harder until it fits the budgets: from scratch, with a search, squeezed.
  // `excess` is what it lacks as it stands.
  Realized place_within(const Plan& plan, const Decisions& decisions, BytesPerTier& excess) {
    Realized realized = realize(problem_, plan, quickly_);
    excess = excess_of(realized.schedule.arena);
    if (excess == BytesPerTier{} || realized.seconds >= best_.seconds) return realized;
    realized = realize(problem_, plan, well_);
    excess = excess_of(realized.schedule.arena);
    if (excess == BytesPerTier{} || realized.seconds >= best_.seconds) return realized;
    if (realized.seconds < dream_.seconds) dream_ = {plan, decisions, realized.seconds, false};
    return squeeze(problem_, realized, quickly_);
  }

  void keep_if_fastest(const Realized& realized, const Decisions& decisions, const Stage& stage) {
    const bool fits = is_within(realized.schedule.arena, problem_.budget);
    if (!fits || realized.seconds >= best_.seconds) return;
    best_ = {.plan = realized.plan,
             .decisions = decisions,
             .seconds = realized.seconds,
             .schedule = realized.schedule,
             .space = std::string(stage.space)};
    report();
  }

  double seconds_of(const Decisions& decisions) const {
    double seconds = 0;
    RunSeconds runs(problem_);
    for (const NodeId node : decisions.order) seconds += runs.next(node);
    return seconds;
  }

  BytesPerTier excess_of(const BytesPerTier& bytes) const {
    BytesPerTier excess{};
    for (size_t t = 0; t < kTierCount; ++t) {
      excess[t] = std::max<int64_t>(0, bytes[t] - problem_.budget[t]);
    }
    return excess;
  }

  const Problem& problem_;
  const PlanOptions& options_;
  const TurnBound& bound_;
  Guide guide_;
  Deadline deadline_;
  bool may_recompute_;
  bool may_swap_;
  // Addresses: only as good as the budget asks for, and at first without a search.
  PlaceOptions well_{.effort = options_.place_effort, .enough = problem_.budget};
  PlaceOptions quickly_{.effort = 0, .enough = problem_.budget};
  PlaceOptions patiently_{.effort = kPatience * options_.place_effort, .enough = problem_.budget};
  Best best_;
  Dream dream_;
  bool is_misled_ = false;      // By the bound's solution, in the last stage.
  std::set<std::string> seen_;  // Slots tried so far.
};

}  // namespace

PolicyResult search_plans(const Problem& problem, const PlanOptions& options,
                          const TurnBound& bound, bool may_recompute, bool may_swap) {
  return Search(problem, options, bound, may_recompute, may_swap).run();
}

}  // namespace olm2
