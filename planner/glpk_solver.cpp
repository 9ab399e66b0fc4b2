#include "planner/glpk_solver.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csetjmp>
#include <exception>
#include <string>
#include <vector>

#include <glpk.h>

#include "core/error.h"

// GLPK is C and ends the program where it finds a mistake.  Its error hook jumps back into
// `guarded` instead, over the frames in between: no function that calls GLPK may own anything that
// needs a destructor.  All vectors therefore live in Search, outside of the jump.

namespace olm2 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<double, 3> kRoundingThresholds = {0.5, 0.1, 1e-6};

struct Guard {
  std::jmp_buf jump{};
  std::string said;  // What GLPK printed last.
};

int keep_words(void* info, const char* text) {
  auto& said = static_cast<Guard*>(info)->said;
  if (said.size() < 2000) said += text;
  return 1;  // Nothing reaches the terminal.
}

void jump_out(void* info) {
  std::longjmp(static_cast<Guard*>(info)->jump, 1);
}

// Runs body(data); false if GLPK reported an error, after which all its objects are gone.
bool guarded(Guard& guard, void (*body)(void*), void* data) {
  glp_term_hook(&keep_words, &guard);
  glp_term_out(GLP_OFF);
  if (setjmp(guard.jump) != 0) {
    glp_free_env();
    return false;
  }
  glp_error_hook(&jump_out, &guard);
  body(data);
  glp_error_hook(nullptr, nullptr);
  glp_term_hook(nullptr, nullptr);
  glp_term_out(GLP_ON);
  return true;
}

// One solve.  GLPK counts rows and columns from 1.
struct Search {
  const LinearModel& model;
  const SolverRequest& request;
  Clock::time_point deadline;
  glp_prob* problem = nullptr;
  Solution solution;
  std::vector<Row> broken;   // To be added next.
  std::vector<double> x;     // Point given to the request's functions.
  std::vector<int> columns;  // Of the row being added; entry 0 is not used.
  std::vector<double> factors;
  std::vector<double> prices;    // Per row of the model.
  std::vector<double> relaxed;   // The root relaxation's solution.
  std::vector<double> rounded;   // A solution found by rounding it; empty: none.
  std::vector<double> x_from_1;  // Room for one with an entry 0 that is not used.
  std::vector<int> basis;        // Status of each column at the root, and of each row.
  std::vector<int> row_basis;
  bool rounded_is_known = false;
  std::exception_ptr thrown;
};

int milliseconds_left(const Search& search) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(search.deadline - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000'000));
}

int bound_type(double lower, double upper) {
  if (lower == upper) return GLP_FX;
  if (lower == -kUnbounded) return upper == kUnbounded ? GLP_FR : GLP_UP;
  return upper == kUnbounded ? GLP_LO : GLP_DB;
}

void append_row(Search& search, const Row& row) {
  const int i = glp_add_rows(search.problem, 1);
  glp_set_row_bnds(search.problem, i, bound_type(row.lower, row.upper), row.lower, row.upper);
  const size_t count = row.terms.size();
  for (size_t k = 0; k < count; ++k) {
    search.columns[k + 1] = row.terms[k].column + 1;
    search.factors[k + 1] = row.terms[k].factor;
  }
  glp_set_mat_row(search.problem, i, static_cast<int>(count), search.columns.data(),
                  search.factors.data());
}

void load(Search& search) {
  search.problem = glp_create_prob();
  glp_set_obj_dir(search.problem, GLP_MIN);
  glp_set_obj_coef(search.problem, 0, search.model.constant);
  if (!search.model.columns.empty()) {
    glp_add_cols(search.problem, static_cast<int>(search.model.columns.size()));
  }
  for (size_t j = 0; j < search.model.columns.size(); ++j) {
    const Column& column = search.model.columns[j];
    const int number = static_cast<int>(j) + 1;
    if (column.integer) glp_set_col_kind(search.problem, number, GLP_IV);
    glp_set_col_bnds(search.problem, number, bound_type(column.lower, column.upper), column.lower,
                     column.upper);
    glp_set_obj_coef(search.problem, number, column.cost);
  }
  for (const Row& row : search.model.rows) append_row(search, row);
}

// Search has room for rows of this many terms.
void check_lengths(const Search& search, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    ensure(row.terms.size() <= search.model.columns.size(), "a row has two terms of one column");
  }
}

// Fills search.broken for search.x; keeps what the request's function throws.
void find_broken(Search& search) noexcept {
  search.broken.clear();
  if (!search.request.broken_rows) return;
  try {
    search.broken = search.request.broken_rows(search.x);
    check_lengths(search, search.broken);
  } catch (...) {
    search.broken.clear();
    search.thrown = std::current_exception();
  }
}

void read_relaxation(Search& search) {
  for (size_t j = 0; j < search.x.size(); ++j) {
    search.x[j] = glp_get_col_prim(search.problem, static_cast<int>(j) + 1);
  }
}

void read_prices(Search& search) {
  for (size_t i = 0; i < search.model.rows.size(); ++i) {
    search.prices[i] = glp_get_row_dual(search.problem, static_cast<int>(i) + 1);
  }
}

bool is_integral(const Search& search) {
  for (size_t j = 0; j < search.x.size(); ++j) {
    if (!search.model.columns[j].integer) continue;
    if (std::abs(search.x[j] - std::round(search.x[j])) > 1e-7) return false;
  }
  return true;
}

enum class Relaxation : uint8_t { solved, infeasible, stopped };

// The slack basis is dual feasible where no cost is negative, and so is every basis after a row was
// added or a bound moved: the dual simplex starts from what is there.
Relaxation solve_relaxation(Search& search) {
  glp_smcp options;
  glp_init_smcp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.meth = GLP_DUALP;
  options.tm_lim = milliseconds_left(search);
  if (options.tm_lim == 0) return Relaxation::stopped;
  const int failure = glp_simplex(search.problem, &options);
  if (failure != 0) return Relaxation::stopped;
  const int status = glp_get_status(search.problem);
  if (status == GLP_NOFEAS) return Relaxation::infeasible;
  return status == GLP_OPT ? Relaxation::solved : Relaxation::stopped;
}

// The relaxation with all its constraints; its solution is left in search.x.
Relaxation solve_with_broken_rows(Search& search) {
  while (true) {
    const Relaxation result = solve_relaxation(search);
    if (result != Relaxation::solved) return result;
    read_relaxation(search);
    find_broken(search);
    if (search.thrown) return Relaxation::stopped;
    if (search.broken.empty()) return Relaxation::solved;
    for (const Row& row : search.broken) append_row(search, row);
  }
}

void set_bounds(Search& search, size_t j, double lower, double upper) {
  glp_set_col_bnds(search.problem, static_cast<int>(j) + 1, bound_type(lower, upper), lower, upper);
}

// Rounds the integers of the relaxation, up from `threshold` on, and solves for everything else.
void round_relaxation(Search& search, double threshold) {
  for (size_t j = 0; j < search.x.size(); ++j) {
    if (!search.model.columns[j].integer) continue;
    const double rounded = std::floor(search.relaxed[j] + 1.0 - threshold);
    set_bounds(search, j, rounded, rounded);
  }
  if (solve_with_broken_rows(search) == Relaxation::solved) {
    const double objective = glp_get_obj_val(search.problem);
    if (objective < search.solution.objective) {
      search.solution.objective = objective;
      search.rounded = search.x;
    }
  }
  for (size_t j = 0; j < search.x.size(); ++j) {
    const Column& column = search.model.columns[j];
    if (column.integer) set_bounds(search, j, column.lower, column.upper);
  }
}

bool is_close_enough(const Search& search) {
  if (search.rounded.empty()) return false;
  const double gap = search.solution.objective - search.solution.bound;
  return gap <= search.request.gap * std::abs(search.solution.objective);
}

// Looks for a first solution near the relaxation's.
void round_and_restore(Search& search) {
  search.relaxed = search.x;
  const int columns = glp_get_num_cols(search.problem);
  const int rows = glp_get_num_rows(search.problem);
  for (int j = 1; j <= columns; ++j) {
    search.basis[static_cast<size_t>(j)] = glp_get_col_stat(search.problem, j);
  }
  search.row_basis.resize(static_cast<size_t>(rows) + 1);
  for (int i = 1; i <= rows; ++i) {
    search.row_basis[static_cast<size_t>(i)] = glp_get_row_stat(search.problem, i);
  }
  for (const double threshold : kRoundingThresholds) {
    round_relaxation(search, threshold);
    if (search.thrown || is_close_enough(search)) return;
  }
  for (int j = 1; j <= columns; ++j) {
    glp_set_col_stat(search.problem, j, search.basis[static_cast<size_t>(j)]);
  }
  for (int i = 1; i <= glp_get_num_rows(search.problem); ++i) {
    glp_set_row_stat(search.problem, i,
                     i <= rows ? search.row_basis[static_cast<size_t>(i)] : GLP_BS);
  }
}

void note_bound(Search& search, glp_tree* tree) {
  const int best = glp_ios_best_node(tree);
  if (best == 0) return;
  search.solution.bound = std::max(search.solution.bound, glp_ios_node_bound(tree, best));
}

void report(Search& search, glp_tree* tree) noexcept {
  if (!search.request.progress) return;
  const bool found = glp_mip_status(glp_ios_get_prob(tree)) == GLP_FEAS;
  try {
    search.request.progress(found ? glp_ios_mip_gap(tree) : -1.0);
  } catch (...) {
    search.thrown = std::current_exception();
  }
}

void on_event(glp_tree* tree, void* info) {
  auto& search = *static_cast<Search*>(info);
  switch (glp_ios_reason(tree)) {
    case GLP_IROWGEN:
      read_relaxation(search);
      find_broken(search);
      for (const Row& row : search.broken) append_row(search, row);
      break;
    case GLP_IHEUR:
      if (!search.rounded.empty() && !search.rounded_is_known) {
        search.rounded_is_known = true;
        std::ranges::copy(search.rounded, search.x_from_1.begin() + 1);
        glp_ios_heur_sol(tree, search.x_from_1.data());
      }
      break;
    case GLP_ISELECT:
      note_bound(search, tree);
      report(search, tree);
      break;
    case GLP_IBINGO:
    case GLP_IBRANCH:
      note_bound(search, tree);
      break;
    default:
      break;
  }
  if (search.thrown) glp_ios_terminate(tree);
}

void branch(Search& search) {
  glp_iocp options;
  glp_init_iocp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.br_tech = GLP_BR_DTH;
  options.bt_tech = GLP_BT_BPH;
  options.sr_heur = GLP_OFF;  // It knows nothing of rows still to come.
  options.mip_gap = search.request.gap;
  options.tol_obj = 1e-10;  // A proof of optimality is meant to the last digits.
  options.tm_lim = milliseconds_left(search);
  options.cb_func = &on_event;
  options.cb_info = &search;
  const int failure = glp_intopt(search.problem, &options);
  const int status = glp_mip_status(search.problem);
  if (search.thrown) return;
  if (failure == 0 && status == GLP_NOFEAS && search.rounded.empty()) {
    search.solution.verdict = Solution::Verdict::infeasible;
    return;
  }
  const bool found = status == GLP_OPT || status == GLP_FEAS;
  if (found && glp_mip_obj_val(search.problem) <= search.solution.objective) {
    search.solution.objective = glp_mip_obj_val(search.problem);
    for (size_t j = 0; j < search.x.size(); ++j) {
      search.x[j] = glp_mip_col_val(search.problem, static_cast<int>(j) + 1);
    }
  } else {
    search.x = search.rounded;
  }
  if (search.x.empty()) return;
  const bool done = failure == 0 || failure == GLP_EMIPGAP;
  search.solution.verdict = done ? Solution::Verdict::optimal : Solution::Verdict::feasible;
  if (failure == 0) search.solution.bound = search.solution.objective;
  search.solution.bound = std::min(search.solution.bound, search.solution.objective);
}

void solve_loaded(Search& search) {
  const Relaxation root = solve_with_broken_rows(search);
  read_prices(search);
  if (root == Relaxation::infeasible) search.solution.verdict = Solution::Verdict::infeasible;
  if (root != Relaxation::solved) return;
  search.solution.bound = glp_get_obj_val(search.problem);
  if (is_integral(search)) {
    search.solution.verdict = Solution::Verdict::optimal;
    search.solution.objective = search.solution.bound;
    return;
  }
  round_and_restore(search);
  if (search.thrown) return;
  if (is_close_enough(search)) {
    search.solution.verdict = Solution::Verdict::optimal;
    search.x = search.rounded;
    return;
  }
  if (solve_relaxation(search) == Relaxation::solved) {
    branch(search);
  } else if (!search.rounded.empty()) {  // Time is up.
    search.solution.verdict = Solution::Verdict::feasible;
    search.x = search.rounded;
  }
}

void solve(void* data) {
  auto& search = *static_cast<Search*>(data);
  load(search);
  try {
    solve_loaded(search);
  } catch (...) {  // GLPK's objects and hooks must not be left behind.
    search.thrown = std::current_exception();
  }
  glp_delete_prob(search.problem);
}

}  // namespace

Solution solve_with_glpk(const LinearModel& model, const SolverRequest& request) {
  const auto limit = std::chrono::duration<double>(std::clamp(request.time_limit_s, 0.0, 1e6));
  Search search{.model = model,
                .request = request,
                .deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit),
                .problem = nullptr,
                .solution = {},
                .broken = {},
                .x = std::vector<double>(model.columns.size()),
                .columns = std::vector<int>(model.columns.size() + 1),
                .factors = std::vector<double>(model.columns.size() + 1),
                .prices = std::vector<double>(model.rows.size()),
                .relaxed = {},
                .rounded = {},
                .x_from_1 = std::vector<double>(model.columns.size() + 1),
                .basis = std::vector<int>(model.columns.size() + 1),
                .row_basis = {},
                .rounded_is_known = false,
                .thrown = nullptr};
  check_lengths(search, model.rows);
  Guard guard;
  if (!guarded(guard, &solve, &search)) {
    throw Error("GLPK refused the planning model: " + guard.said);
  }
  if (search.thrown) std::rethrow_exception(search.thrown);
  const bool found = search.solution.verdict == Solution::Verdict::optimal ||
                     search.solution.verdict == Solution::Verdict::feasible;
  if (found) search.solution.x = std::move(search.x);
  search.solution.prices = std::move(search.prices);
  return std::move(search.solution);
}

std::string glpk_name() {
  return std::string("GLPK ") + glp_version();
}

}  // namespace olm2
