// A mixed-integer linear program as data, and what a solver may answer.
//
//   minimise  constant + sum cost_j x_j
//   subject to  lower_i <= sum factor_ij x_j <= upper_i,  lower_j <= x_j <= upper_j,
//               x_j integer where asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace olm2 {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// What a column or row stands for, for people who read a written model (planner/model_file.h):
// "what(of,at)", where `of` is a value or node of the graph and `at` a slot; -1: none.
struct Label {
  const char* what = "";
  int32_t of = -1;
  int32_t at = -1;
};

struct Term {
  int column = 0;
  double factor = 0;
};

struct Column {
  double cost = 0;
  double lower = 0;
  double upper = 1;
  bool integer = false;
  Label label = {};
};

struct Row {
  std::vector<Term> terms;  // At most one per column.
  double lower = -kUnbounded;
  double upper = kUnbounded;
  Label label = {};
};

struct LinearModel {
  std::vector<Column> columns;
  std::vector<Row> rows;
  double constant = 0;

  int add(const Column& column) {
    columns.push_back(column);
    return static_cast<int>(columns.size()) - 1;
  }
};

struct SolverRequest {
  double gap = 0;           // Relative; the search stops there.
  double time_limit_s = 0;  // Wall clock.
  // Constraints too many to list: returns those that `x` breaks, none if it keeps all of them.
  // A solution is accepted only after this returned nothing for it.  May be empty.
  std::function<std::vector<Row>(std::span<const double> x)> broken_rows;
  // Called now and then with the relative gap so far (negative: no solution yet).
  std::function<void(double gap)> progress;
};

// optimal     within the asked gap.
// feasible    time ran out; `bound` says how good it may become.
// infeasible  proven to have no solution.
// unknown     time ran out before a solution was found.
struct Solution {
  enum class Verdict : uint8_t { optimal, feasible, infeasible, unknown };
  Verdict verdict = Verdict::unknown;
  double objective = kUnbounded;
  double bound = -kUnbounded;  // No solution has a smaller objective.
  std::vector<double> x;       // Per column; empty unless optimal or feasible.
  // Per row of the model its multiplier in the last linear relaxation before any branching: what
  // one more unit on its binding side adds to the objective.  Also there when time ran out, zeros
  // at worst.  No more than the solver's opinion: planner/bound_value.h says what they prove.
  std::vector<double> prices;
};

}  // namespace olm2
