// First solutions: the caller's, and those near the relaxation's.
#include <array>
#include <cmath>

#include "planner/glpk_search.h"

namespace olm2 {
namespace {

constexpr std::array<double, 3> kRoundingThresholds = {0.5, 0.1, 1e-6};
constexpr double kKept = 1e-7;  // Relative: what a start may break a row by.

void set_bounds(GlpkSearch& search, size_t j, double lower, double upper) {
  glp_set_col_bnds(search.problem, static_cast<int>(j) + 1, bound_type(lower, upper), lower, upper);
}

// Holds the integers at search.integers, and solves for everything else.
void try_integers(GlpkSearch& search) {
  for (size_t j = 0; j < search.x.size(); ++j) {
    if (search.model.columns[j].integer) {
      set_bounds(search, j, search.integers[j], search.integers[j]);
    }
  }
  if (solve_with_broken_rows(search) == Relaxation::solved) {
    accept(search, glp_get_obj_val(search.problem));
  }
  for (size_t j = 0; j < search.x.size(); ++j) {
    const Column& column = search.model.columns[j];
    if (column.integer) set_bounds(search, j, column.lower, column.upper);
  }
}

// Rounds the integers of the relaxation, up from `threshold` on.
void round_relaxation(GlpkSearch& search, double threshold) {
  for (size_t j = 0; j < search.x.size(); ++j) {
    search.integers[j] = std::floor(search.relaxed[j] + 1.0 - threshold);
  }
  try_integers(search);
}

void remember_basis(GlpkSearch& search) {
  const int columns = glp_get_num_cols(search.problem);
  const int rows = glp_get_num_rows(search.problem);
  for (int j = 1; j <= columns; ++j) {
    search.basis[static_cast<size_t>(j)] = glp_get_col_stat(search.problem, j);
  }
  search.row_basis.resize(static_cast<size_t>(rows) + 1);
  for (int i = 1; i <= rows; ++i) {
    search.row_basis[static_cast<size_t>(i)] = glp_get_row_stat(search.problem, i);
  }
}

void restore_basis(GlpkSearch& search) {
  const int known_rows = static_cast<int>(search.row_basis.size()) - 1;
  for (int j = 1; j <= glp_get_num_cols(search.problem); ++j) {
    glp_set_col_stat(search.problem, j, search.basis[static_cast<size_t>(j)]);
  }
  for (int i = 1; i <= glp_get_num_rows(search.problem); ++i) {
    glp_set_row_stat(search.problem, i,
                     i <= known_rows ? search.row_basis[static_cast<size_t>(i)] : GLP_BS);
  }
}

double objective_of(const LinearModel& model, const std::vector<double>& x) {
  double sum = model.constant;
  for (size_t j = 0; j < x.size(); ++j) sum += model.columns[j].cost * x[j];
  return sum;
}

bool keeps(const Row& row, const std::vector<double>& x) {
  double sum = 0;
  double size = 1;
  for (const Term& term : row.terms) {
    const double part = term.factor * x[static_cast<size_t>(term.column)];
    sum += part;
    size += std::abs(part);
  }
  return sum >= row.lower - kKept * size && sum <= row.upper + kKept * size;
}

bool keeps(const Column& column, double value) {
  const double room = kKept * (1 + std::abs(value));
  const bool is_within = value >= column.lower - room && value <= column.upper + room;
  return is_within && (!column.integer || std::abs(value - std::round(value)) <= kIntegral);
}

// The start broke something: its integers, with the best values for everything else.
void repair_start(GlpkSearch& search) {
  for (size_t j = 0; j < search.x.size(); ++j) {
    const Column& column = search.model.columns[j];
    if (!column.integer) continue;
    search.integers[j] = std::round(search.request.start[j]);
    const bool is_allowed =
        search.integers[j] >= column.lower && search.integers[j] <= column.upper;
    if (!is_allowed) return;
  }
  try_integers(search);
}

}  // namespace

bool is_close_enough(const GlpkSearch& search) {
  if (search.solution.x.empty()) return false;
  const double gap = search.solution.objective - search.solution.bound;
  return gap <= search.request.gap * std::abs(search.solution.objective);
}

void try_start(GlpkSearch& search) {
  search.x = search.request.start;
  for (size_t j = 0; j < search.x.size(); ++j) {
    if (!keeps(search.model.columns[j], search.x[j])) return;  // So does what is no number.
  }
  for (const Row& row : search.model.rows) {
    if (!keeps(row, search.x)) return;
  }
  find_broken(search);
  if (search.thrown || !search.broken.empty()) return;
  accept(search, objective_of(search.model, search.x));
}

void find_first(GlpkSearch& search) {
  search.relaxed = search.x;
  remember_basis(search);
  if (!search.request.start.empty() && search.solution.x.empty()) repair_start(search);
  if (search.request.round_first) {
    for (const double threshold : kRoundingThresholds) {
      if (search.thrown || is_close_enough(search)) return;
      round_relaxation(search, threshold);
    }
  }
  restore_basis(search);
}

}  // namespace olm2
