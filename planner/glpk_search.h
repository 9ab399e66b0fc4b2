// One solve with GLPK: what its parts (glpk_solver.cpp: relaxations;
// glpk_first.cpp: first solutions; glpk_tree.cpp: branch and cut) share.  All memory lives here,
// outside of what a jump skips.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

#include <glpk.h>

#include "planner/solver.h"

namespace olm2 {

// Why a search ended early.
inline constexpr const char* kTimeIsUp = "time is up";
inline constexpr const char* kStoppedOnRequest = "it was stopped";
inline constexpr const char* kEnoughSteps = "a program was given up after the steps it may take";

inline constexpr double kIntegral = 1e-7;  // This close to an integer is one.

// GLPK counts rows and columns from 1.
struct GlpkSearch {
  using Clock = std::chrono::steady_clock;

  GlpkSearch(const LinearModel& asked_model, const SolverRequest& asked);

  const LinearModel& model;
  const SolverRequest& request;
  Clock::time_point deadline;
  glp_prob* problem = nullptr;
  // x and objective: the best solution so far; bound: the best proven so far.
  Solution solution;
  const char* reason = "";   // Why the search ends early.
  int64_t nodes = 0;         // Of the tree, so far.
  bool is_cut_off = false;   // A row says that only what is below the cutoff counts.
  std::vector<double> x;     // Point given to the request's functions.
  std::vector<Row> broken;   // To be added next.
  std::vector<int> columns;  // Of the row being added; entry 0 is not used.
  std::vector<double> factors;
  Row cutoff_row;
  std::vector<double> relaxed;   // The root relaxation's solution.
  std::vector<double> integers;  // Being tried: per column, only those of integers count.
  std::vector<double> x_from_1;  // Room for a solution with an entry 0 that is not used.
  bool tree_knows_x = false;     // Whether GLPK was told of the first solution.
  std::vector<int> basis;        // Status of each column at the root, and of each row.
  std::vector<int> row_basis;
  std::exception_ptr thrown;  // By a function of the request.
};

// Whether the search must end: time, steps, the caller, or an exception.  Fills in the reason.
bool is_over(GlpkSearch& search) noexcept;
int milliseconds_left(const GlpkSearch& search);
// Simplex iterations that may still be made, at most the largest int.
int steps_left(const GlpkSearch& search);

int bound_type(double lower, double upper);  // GLP_DB, ...
void append_row(GlpkSearch& search, const Row& row);
// Reads the relaxation's solution into search.x.
void read_relaxation(GlpkSearch& search);
// Fills search.broken for search.x.
void find_broken(GlpkSearch& search) noexcept;
// Takes a bound if it is higher than those before, and tells the caller.
void raise_bound(GlpkSearch& search, double bound) noexcept;
// Takes search.x if it is better than all before, and tells the caller.  x keeps all constraints.
void accept(GlpkSearch& search, double objective) noexcept;

enum class Relaxation : uint8_t { solved, infeasible, stopped };
// The relaxation with all its constraints; its solution is left in search.x.
Relaxation solve_with_broken_rows(GlpkSearch& search);

// Takes the caller's start as it stands, if it keeps all constraints.
void try_start(GlpkSearch& search);
// After the root: looks for first solutions until one is close enough.  Restores the root's basis
// if none is.
void find_first(GlpkSearch& search);
bool is_close_enough(const GlpkSearch& search);

// Branch and cut from the root's basis, to the verdict.
void branch(GlpkSearch& search);

}  // namespace olm2
