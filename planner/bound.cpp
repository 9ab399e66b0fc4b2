#include "planner/bound.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "planner/bound_groups.h"
#include "planner/bound_model.h"
#include "planner/bound_value.h"
#include "planner/planner.h"
#include "planner/solver_process.h"

namespace olm2 {
namespace {

constexpr size_t kFewNodes = 16;           // So few, and every node is tried as the cut.
constexpr size_t kMostTurns = 2;           // Cuts tried otherwise.
constexpr double kWholeGap = 1e-4;         // Where the search for whole runs stops.
constexpr size_t kMostColumns = 1500;      // Beyond, whole runs add next to nothing.
constexpr double kWholeTimeLimit_s = 1;    // It mostly takes a hundredth of that, or no end.
constexpr double kSolverTolerance = 1e-6;  // Of keeping everything, off what that search says.
constexpr double kAlmostMost = 0.98;       // Of the most bytes that are open.
constexpr double kTurnsApart = 0.02;       // Of all nodes, between two of them.

class Deadline {
 public:
  explicit Deadline(double seconds) : limit_s_(seconds), start_(Clock::now()) {}
  double left_s() const {
    const double passed = std::chrono::duration<double>(Clock::now() - start_).count();
    return std::max(0.0, limit_s_ - passed);
  }

 private:
  using Clock = std::chrono::steady_clock;
  double limit_s_;
  Clock::time_point start_;
};

// Nodes at whose runs keeping everything holds more than the budget, the most promising first: they
// hold almost as much as any other, and most of it for themselves, so that it must be there.
std::vector<NodeId> choose_turns(const Problem& problem) {
  const std::vector<int64_t> bytes = bytes_at_turns(problem);
  const size_t count = bytes.size();
  const auto apart = count <= kFewNodes ? 0 : kTurnsApart * static_cast<double>(count);
  std::vector<bool> is_open(count);
  for (size_t n = 0; n < count; ++n) {
    is_open[n] = bytes[n] > problem.budget[index_of(Tier::device)];
  }
  std::vector<NodeId> turns;
  while (turns.size() < (count <= kFewNodes ? count : kMostTurns)) {
    int64_t most = 0;
    for (size_t n = 0; n < count; ++n) most = std::max(most, is_open[n] ? bytes[n] : 0);
    if (most == 0) break;
    size_t best = count;
    for (size_t n = 0; n < count; ++n) {
      const bool is_near =
          is_open[n] && static_cast<double>(bytes[n]) >= kAlmostMost * static_cast<double>(most);
      if (!is_near) continue;
      if (best == count || operand_bytes(problem, n) > operand_bytes(problem, best)) best = n;
    }
    turns.push_back({static_cast<int32_t>(best)});
    for (size_t n = 0; n < count; ++n) {
      const double distance = std::abs(static_cast<double>(n) - static_cast<double>(best));
      if (distance <= apart) is_open[n] = false;
    }
  }
  return turns;
}

// Whether the rows of the model ask for more than the device budget; proven, not just found.
bool is_proven_impossible(TurnModel model, double time_limit_s) {
  LinearModel& linear = model.linear;
  for (Column& column : linear.columns) column.cost = 0;
  linear.constant = 0;
  const int excess = linear.add({.cost = 1, .lower = 0, .upper = kUnbounded});
  for (const int row : model.memory_rows) {
    linear.rows[static_cast<size_t>(row)].terms.push_back({.column = excess, .factor = -1});
  }
  const Solution solution = solve(linear, {.gap = 0, .time_limit_s = time_limit_s});
  constexpr double kRounding = 1e-9;  // Of what bytes became as units.
  return proven_value(linear, solution.prices) > kRounding;
}

double value_of(const Solution& solution, int column) {
  if (column < 0 || solution.x.empty()) return 0;
  return std::clamp(solution.x[static_cast<size_t>(column)], 0.0, 1.0);
}

std::string describe(bool may_recompute, bool may_swap) {
  std::string text = "every plan that runs nodes first in the graph's order";
  if (may_recompute && may_swap) {
    text += ", any node again at any time, any part moved to any tier at any time";
  } else if (may_recompute) {
    text += ", any node again at any time, and moves nothing";
  } else if (may_swap) {
    text += ", no node again, any part moved to any tier at any time";
  } else {
    text += ", no node again, and moves nothing";
  }
  return text;
}

// A cut that gave a bound.
struct Cut {
  TurnModel model;
  Solution solution;
  double seconds = 0;
};

// Bounds by one cut; keeps what is better.
void try_turn(const Problem& problem, const TurnRequest& request, const Deadline& deadline,
              TurnBound& bound, std::optional<Cut>& best) {
  Cut cut{.model = build_turn(problem, request), .solution = {}};
  if (cut.model.is_impossible) {
    bound.fits = false;
    return;
  }
  cut.solution = solve(cut.model.linear, {.gap = 0, .time_limit_s = deadline.left_s()});
  if (cut.solution.verdict == Solution::Verdict::infeasible) {
    bound.fits = !is_proven_impossible(cut.model, deadline.left_s());
    return;
  }
  cut.seconds = proven_value(cut.model.linear, cut.solution.prices) * cut.model.unit_s;
  if (best && best->seconds >= cut.seconds) return;
  bound.turn = request.turn;
  best = std::move(cut);
}

// The most that whole runs could add to the bound.
double broken_seconds(const Problem& problem, const Cut& cut) {
  double seconds = 0;
  for (size_t n = 0; n < cut.model.again.size(); ++n) {
    const double part = value_of(cut.solution, cut.model.again[n]);
    if (part > kWholeGap) seconds += (1 - part) * problem.run_seconds(n, true);
  }
  return seconds;
}

// What the search for the best whole runs proves, less what its tolerances may hide.
double bound_of_whole_runs(const Problem& problem, const Cut& cut, const Deadline& deadline) {
  if (cut.model.linear.columns.size() > kMostColumns) return 0;
  if (broken_seconds(problem, cut) < kWholeGap * cut.seconds) return 0;
  const WholeRuns whole = with_whole_runs(problem, cut.model);
  if (whole.integers == 0) return 0;
  const Solution solution =
      solve(whole.linear,
            {.gap = kWholeGap, .time_limit_s = std::min(kWholeTimeLimit_s, deadline.left_s())});
  // What an interrupted search says depends on when it was interrupted.
  if (solution.verdict != Solution::Verdict::optimal) return 0;
  return (solution.bound - kSolverTolerance * whole.linear.constant) * cut.model.unit_s;
}

void read_solution(const Problem& problem, const Cut& cut, TurnBound& bound) {
  const auto& [model, solution, seconds] = cut;
  for (size_t n = 0; n < model.again.size(); ++n) {
    bound.again[n] = value_of(solution, model.again[n]);
  }
  for (size_t v = 0; v < model.sent.size(); ++v) {
    bound.sent[v] = value_of(solution, model.sent[v]);
    bound.held[v] = value_of(solution, model.held[v]);
    if (!model.is_needed(v)) continue;
    const int32_t maker = problem.graph->values()[v].producer.index;
    const bool is_made = maker >= 0 && !model.needs.read_by_turn[v];
    const double again = is_made ? bound.again[static_cast<size_t>(maker)] : 0;
    bound.held[v] = std::max(0.0, 1 - bound.sent[v] - again);
  }
  double price = 0;
  for (const int row : model.memory_rows) {
    price += std::max(0.0, -solution.prices[static_cast<size_t>(row)]);
  }
  bound.seconds_per_byte = price * model.unit_s / model.unit_bytes;
}

}  // namespace

TurnBound turn_bound(const Problem& problem, bool may_recompute, bool may_swap,
                     double time_limit_s) {
  const Deadline deadline(time_limit_s);
  const SolverSession session;
  TurnBound bound;
  bound.seconds = std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0);
  bound.again.assign(problem.graph->nodes().size(), 0);
  bound.sent.assign(problem.graph->values().size(), 0);
  bound.held.assign(problem.graph->values().size(), 0);
  bound.text = describe(may_recompute, may_swap);
  bound.fits = problem.budget[index_of(Tier::device)] >= proven_minimum(problem).bytes;
  std::optional<Cut> best;
  for (const NodeId turn : choose_turns(problem)) {
    if (!bound.fits || deadline.left_s() == 0) break;
    try_turn(problem, {.turn = turn, .may_recompute = may_recompute, .may_swap = may_swap},
             deadline, bound, best);
  }
  if (!bound.fits || !best) return bound;
  read_solution(problem, *best, bound);
  bound.seconds =
      std::max({bound.seconds, best->seconds, bound_of_whole_runs(problem, *best, deadline)});
  return bound;
}

}  // namespace olm2
