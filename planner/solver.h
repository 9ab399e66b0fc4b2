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
#include <string>
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

// Which fractional integer to split on, and where the search goes on after a dead end.
enum class Branching : uint8_t { most_fractional, driebeck_tomlin, pseudo_costs };
enum class Backtracking : uint8_t { depth_first, best_bound, best_projection };

struct SolverRequest {
  double gap = 0;           // Relative; the search stops there.
  double time_limit_s = 0;  // Wall clock.
  // Simplex iterations and nodes of the tree, together; 0: any number.  Unlike seconds, the same on
  // every machine.
  int64_t step_limit = 0;
  // Constraints too many to list: returns those that `x` breaks, none if it keeps all of them.
  // A solution is accepted only after this returned nothing for it.  May be empty.
  std::function<std::vector<Row>(std::span<const double> x)> broken_rows = {};
  // Called now and then with the relative gap so far (negative: no solution yet).
  std::function<void(double gap)> progress = {};
  // Called with every solution better than those before, and the bound at that time (-kUnbounded
  // while nothing is proven).
  std::function<void(double objective, std::span<const double> x, double bound)> on_incumbent = {};
  // Called when the bound has risen.
  std::function<void(double bound)> on_bound = {};
  // The search ends soon (50 ms) after this says true.  Called often, on the thread of the caller.
  std::function<bool()> should_stop = {};
  // A value per column, or empty.  Where it keeps all constraints it is the first solution; where
  // it does not, its integers are tried, and the other columns solved for (they may be NaN).
  std::vector<double> start = {};
  double cutoff = kUnbounded;      // Only solutions with a smaller objective count.
  int64_t memory_limit_bytes = 0;  // Of the solver alone; 0: half of the machine's memory.
  // The defaults are what was fastest on training steps.
  Branching branching = Branching::driebeck_tomlin;
  Backtracking backtracking = Backtracking::best_projection;
  bool cuts = false;        // Gomory, rounding, cover and clique cuts.
  bool round_first = true;  // Looks for solutions near the relaxation's before branching.
};

// optimal     within the asked gap.
// feasible    the search ended early; `bound` says how good a solution may become.
// infeasible  proven to have no solution.
// not_better  proven to have no solution below the cutoff; whether there is one above is open.
// unknown     the search ended before a solution was found.
struct Solution {
  enum class Verdict : uint8_t { optimal, feasible, infeasible, not_better, unknown };
  Verdict verdict = Verdict::unknown;
  double objective = kUnbounded;
  double bound = -kUnbounded;  // No solution has a smaller objective (not_better: the cutoff).
  std::vector<double> x = {};  // Per column; empty unless optimal or feasible.
  // Per row of the model its multiplier in the last linear relaxation before any branching: what
  // one more unit on its binding side adds to the objective.  Also there when time ran out, zeros
  // at worst.  No more than the solver's opinion: planner/bound_value.h says what they prove.
  std::vector<double> prices = {};
  std::string reason = {};  // Why the search ended early: "time is up"; empty if it did not.
};

// Throws Error if the solver refuses the model (which then is our mistake).  Exceptions of the
// request's functions pass through.
Solution solve(const LinearModel& model, const SolverRequest& request);

// Half of the machine's memory.
int64_t default_memory_limit();

}  // namespace olm2
