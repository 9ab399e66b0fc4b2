#include "planner/bound.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "core/error.h"
#include "planner/bound_model.h"
#include "planner/bound_value.h"
#include "planner/glpk_solver.h"

namespace olm2 {
namespace {

constexpr size_t kFewNodes = 64;      // So few, and every node is tried as the cut.
constexpr size_t kMostTurns = 3;      // Cuts tried otherwise.
constexpr double kTurnsApart = 0.02;  // Of all nodes, between two of them.

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

// Nodes at whose runs keeping everything holds more than the budget, the worst first.
std::vector<NodeId> choose_turns(const Problem& problem) {
  const std::vector<int64_t> bytes = bytes_at_turns(problem);
  std::vector<NodeId> nodes;
  for (size_t n = 0; n < bytes.size(); ++n) {
    if (bytes[n] > problem.budget[index_of(Tier::device)]) {
      nodes.push_back({static_cast<int32_t>(n)});
    }
  }
  std::ranges::stable_sort(nodes, [&](NodeId a, NodeId b) {
    return bytes[static_cast<size_t>(a.index)] > bytes[static_cast<size_t>(b.index)];
  });
  if (bytes.size() <= kFewNodes) return nodes;
  const auto apart = static_cast<int32_t>(kTurnsApart * static_cast<double>(bytes.size()));
  std::vector<NodeId> turns;
  for (const NodeId node : nodes) {
    const bool is_near = std::ranges::any_of(
        turns, [&](NodeId other) { return std::abs(other.index - node.index) <= apart; });
    if (!is_near) turns.push_back(node);
    if (turns.size() == kMostTurns) break;
  }
  return turns;
}

// The least device budget, in bytes, that the rows of the model allow; proven, not just found.
bool is_proven_impossible(TurnModel model, double time_limit_s) {
  LinearModel& linear = model.linear;
  for (Column& column : linear.columns) column.cost = 0;
  linear.constant = 0;
  const int excess = linear.add({.cost = 1, .lower = 0, .upper = kUnbounded});
  linear.rows[static_cast<size_t>(model.memory_row)].terms.push_back(
      {.column = excess, .factor = -1});
  const Solution solution = solve_with_glpk(
      linear, {.gap = 0, .time_limit_s = time_limit_s, .broken_rows = {}, .progress = {}});
  constexpr double kRounding = 1e-9;  // Of what bytes became as units.
  return proven_value(linear, solution.prices) > kRounding;
}

double value_of(const Solution& solution, int column) {
  if (column < 0 || solution.x.empty()) return 0;
  return std::clamp(solution.x[static_cast<size_t>(column)], 0.0, 1.0);
}

void read_solution(const Problem& problem, const TurnModel& model, const Solution& solution,
                   TurnBound& bound) {
  const Graph& graph = *problem.graph;
  bound.again.assign(graph.nodes().size(), 0);
  bound.sent.assign(graph.values().size(), 0);
  bound.held.assign(graph.values().size(), 0);
  for (size_t n = 0; n < model.again.size(); ++n) {
    bound.again[n] = value_of(solution, model.again[n]);
  }
  for (size_t v = 0; v < model.sent.size(); ++v) {
    bound.sent[v] = value_of(solution, model.sent[v]);
    bound.held[v] = value_of(solution, model.held[v]);
    if (!model.needed[v]) continue;
    const int32_t maker = graph.values()[v].producer.index;
    const double again =
        maker < 0 || model.read_by_turn[v] ? 0 : bound.again[static_cast<size_t>(maker)];
    bound.held[v] = std::max(0.0, 1 - bound.sent[v] - again);
  }
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

// Bounds by one cut; keeps what is better.
void try_turn(const Problem& problem, const TurnRequest& request, const Deadline& deadline,
              TurnBound& best) {
  const TurnModel model = build_turn(problem, request);
  if (model.is_impossible) {
    best.fits = false;
    return;
  }
  const Solution solution = solve_with_glpk(
      model.linear,
      {.gap = 0, .time_limit_s = deadline.left_s(), .broken_rows = {}, .progress = {}});
  if (solution.verdict == Solution::Verdict::infeasible) {
    best.fits = !is_proven_impossible(model, deadline.left_s());
    return;
  }
  const double seconds = proven_value(model.linear, solution.prices) * model.unit_s;
  const bool is_first = !best.turn.valid() && !solution.x.empty();
  if (seconds <= best.seconds && !is_first) return;
  best.seconds = std::max(best.seconds, seconds);
  best.turn = request.turn;
  best.seconds_per_byte = std::max(0.0, -solution.prices[static_cast<size_t>(model.memory_row)]) *
                          model.unit_s / model.unit_bytes;
  read_solution(problem, model, solution, best);
}

}  // namespace

TurnBound turn_bound(const Problem& problem, bool may_recompute, bool may_swap,
                     double time_limit_s) {
  const Deadline deadline(time_limit_s);
  TurnBound bound;
  bound.seconds = std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0);
  bound.again.assign(problem.graph->nodes().size(), 0);
  bound.sent.assign(problem.graph->values().size(), 0);
  bound.held.assign(problem.graph->values().size(), 0);
  bound.text = describe(may_recompute, may_swap);
  bound.fits = problem.budget[index_of(Tier::device)] >= proven_minimum(problem).bytes;
  for (const NodeId turn : choose_turns(problem)) {
    if (!bound.fits || deadline.left_s() == 0) break;
    try_turn(problem, {.turn = turn, .may_recompute = may_recompute, .may_swap = may_swap},
             deadline, bound);
  }
  return bound;
}

}  // namespace olm2
