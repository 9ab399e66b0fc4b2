#include "planner/glpk_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <unistd.h>

#include "core/error.h"
#include "planner/glpk_guard.h"
#include "planner/glpk_search.h"

namespace olm2 {
namespace {

constexpr auto kGrace = std::chrono::milliseconds(40);  // For GLPK to end by itself.

void load(GlpkSearch& search) {
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

// There is room for rows of this many terms.
void check_lengths(const GlpkSearch& search, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    ensure(row.terms.size() <= search.model.columns.size(), "a row has two terms of one column");
  }
}

void read_prices(GlpkSearch& search) {
  for (size_t i = 0; i < search.model.rows.size(); ++i) {
    search.solution.prices[i] = glp_get_row_dual(search.problem, static_cast<int>(i) + 1);
  }
}

bool is_integral(const GlpkSearch& search) {
  for (size_t j = 0; j < search.x.size(); ++j) {
    if (!search.model.columns[j].integer) continue;
    if (std::abs(search.x[j] - std::round(search.x[j])) > kIntegral) return false;
  }
  return true;
}

// The slack basis is dual feasible where no cost is negative, and so is every basis after a row was
// added or a bound moved: the dual simplex starts from what is there.
Relaxation solve_relaxation(GlpkSearch& search) {
  if (is_over(search)) return Relaxation::stopped;
  glp_smcp options;
  glp_init_smcp(&options);
  options.meth = GLP_DUALP;
  options.tm_lim = milliseconds_left(search);
  options.it_lim = steps_left(search);
  options.out_frq = kGlpkHookPeriodMs;
  options.out_dly = 0;
  const int failure = glp_simplex(search.problem, &options);
  if (failure == GLP_ETMLIM) search.reason = kTimeIsUp;
  if (failure == GLP_EITLIM) search.reason = kEnoughSteps;
  if (failure != 0) return Relaxation::stopped;
  const int status = glp_get_status(search.problem);
  if (status == GLP_NOFEAS) return Relaxation::infeasible;
  return status == GLP_OPT ? Relaxation::solved : Relaxation::stopped;
}

// From here on only what is below the cutoff counts.
void add_cutoff(GlpkSearch& search) {
  if (search.request.cutoff == kUnbounded) return;
  search.is_cut_off = true;
  for (size_t j = 0; j < search.x.size(); ++j) {
    const double cost = search.model.columns[j].cost;
    if (cost != 0) search.cutoff_row.terms.push_back({static_cast<int>(j), cost});
  }
  search.cutoff_row.upper = search.request.cutoff - search.model.constant;
  if (!search.cutoff_row.terms.empty()) append_row(search, search.cutoff_row);
}

// The relaxation alone decides: it is integral, or not below the cutoff.
bool is_decided(GlpkSearch& search) {
  Solution& solution = search.solution;
  if (solution.bound >= search.request.cutoff) {
    solution.verdict = Solution::Verdict::not_better;
    return true;
  }
  if (!is_integral(search)) return false;
  accept(search, solution.bound);
  solution.bound = std::min(solution.bound, solution.objective);
  solution.verdict = Solution::Verdict::optimal;
  return true;
}

void solve_loaded(GlpkSearch& search) {
  Solution& solution = search.solution;
  const Relaxation root = solve_with_broken_rows(search);
  read_prices(search);
  if (root == Relaxation::infeasible && solution.x.empty()) {
    solution.verdict = Solution::Verdict::infeasible;
  }
  if (root != Relaxation::solved) return;
  raise_bound(search, glp_get_obj_val(search.problem));
  if (search.thrown) return;
  if (is_decided(search)) return;
  add_cutoff(search);
  find_first(search);
  if (search.thrown) return;
  if (is_close_enough(search)) {
    solution.verdict = Solution::Verdict::optimal;
    solution.bound = std::min(solution.bound, solution.objective);
    return;
  }
  if (solve_relaxation(search) == Relaxation::solved) branch(search);
}

void solve_body(void* data) {
  auto& search = *static_cast<GlpkSearch*>(data);
  load(search);
  try {
    solve_loaded(search);
  } catch (...) {  // GLPK's objects and hooks must not be left behind.
    search.thrown = std::current_exception();
  }
  glp_delete_prob(search.problem);
}

// Whether the caller wants it to end, or time is up.
bool is_stopped(GlpkSearch& search) noexcept {
  if (search.thrown) return true;
  try {
    if (search.request.should_stop && search.request.should_stop()) {
      search.reason = kStoppedOnRequest;
      return true;
    }
  } catch (...) {
    search.thrown = std::current_exception();
    return true;
  }
  if (GlpkSearch::Clock::now() < search.deadline) return false;
  search.reason = kTimeIsUp;
  return true;
}

// GLPK hears of the end first: it checks its own limit.  Steps are not looked at here: when this
// is asked depends on the machine.
bool is_over_for_long(void* data) {
  auto& search = *static_cast<GlpkSearch*>(data);
  const bool has_time = GlpkSearch::Clock::now() < search.deadline + kGrace;
  return is_stopped(search) && (!has_time || search.reason != kTimeIsUp);
}

// The verdict of a search that ended early, and why it did.
void conclude(GlpkSearch& search) {
  Solution& solution = search.solution;
  if (solution.verdict == Solution::Verdict::unknown) {
    if (!solution.x.empty()) solution.verdict = Solution::Verdict::feasible;
    solution.bound = std::min(solution.bound, solution.objective);
  }
  if (solution.verdict == Solution::Verdict::unknown ||
      solution.verdict == Solution::Verdict::feasible) {
    solution.reason = search.reason;
    if (solution.reason.empty()) solution.reason = "the solver met numerical trouble";
  }
}

}  // namespace

GlpkSearch::GlpkSearch(const LinearModel& asked_model, const SolverRequest& asked)
    : model(asked_model),
      request(asked),
      x(model.columns.size()),
      columns(model.columns.size() + 1),
      factors(model.columns.size() + 1),
      integers(model.columns.size()),
      x_from_1(model.columns.size() + 1),
      basis(model.columns.size() + 1) {
  const auto limit = std::chrono::duration<double>(std::clamp(request.time_limit_s, 0.0, 1e6));
  solution.prices.resize(model.rows.size());
  deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
}

int bound_type(double lower, double upper) {
  if (lower == upper) return GLP_FX;
  if (lower == -kUnbounded) return upper == kUnbounded ? GLP_FR : GLP_UP;
  return upper == kUnbounded ? GLP_LO : GLP_DB;
}

Relaxation solve_with_broken_rows(GlpkSearch& search) {
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

bool is_over(GlpkSearch& search) noexcept {
  if (is_stopped(search)) return true;
  if (steps_left(search) > 0) return false;
  search.reason = kEnoughSteps;
  return true;
}

int milliseconds_left(const GlpkSearch& search) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(search.deadline -
                                                                          GlpkSearch::Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000'000));
}

int steps_left(const GlpkSearch& search) {
  constexpr int64_t kAny = std::numeric_limits<int>::max();
  if (search.request.step_limit <= 0) return static_cast<int>(kAny);
  const int64_t taken = search.nodes + glp_get_it_cnt(search.problem);
  return static_cast<int>(std::clamp<int64_t>(search.request.step_limit - taken, 0, kAny));
}

void append_row(GlpkSearch& search, const Row& row) {
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

void read_relaxation(GlpkSearch& search) {
  for (size_t j = 0; j < search.x.size(); ++j) {
    search.x[j] = glp_get_col_prim(search.problem, static_cast<int>(j) + 1);
  }
}

void find_broken(GlpkSearch& search) noexcept {
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

void raise_bound(GlpkSearch& search, double bound) noexcept {
  if (bound <= search.solution.bound) return;
  search.solution.bound = bound;
  if (!search.request.on_bound) return;
  try {
    search.request.on_bound(bound);
  } catch (...) {
    search.thrown = std::current_exception();
  }
}

void accept(GlpkSearch& search, double objective) noexcept {
  Solution& solution = search.solution;
  if (objective >= std::min(solution.objective, search.request.cutoff)) return;
  try {
    solution.x = search.x;
    solution.objective = objective;
    if (!search.request.on_incumbent) return;
    search.request.on_incumbent(objective, solution.x, std::min(solution.bound, objective));
  } catch (...) {
    search.thrown = std::current_exception();
  }
}

Solution solve_with_glpk(const LinearModel& model, const SolverRequest& request) {
  ensure(request.start.empty() || request.start.size() == model.columns.size(),
         "a start has another number of columns than the model");
  GlpkSearch search(model, request);
  check_lengths(search, model.rows);
  const int64_t memory_limit =
      request.memory_limit_bytes > 0 ? request.memory_limit_bytes : default_memory_limit();
  GlpkGuard guard{.is_over = &is_over_for_long,
                  .data = &search,
                  .memory_limit_bytes = memory_limit,
                  .jump = {},
                  .said = {},
                  .said_before = {}};
  if (!request.start.empty()) try_start(search);
  const GlpkEnd end = search.thrown ? GlpkEnd::stopped : run_guarded(guard, &solve_body);
  if (search.thrown) std::rethrow_exception(search.thrown);
  const std::string lack =
      "the solver needs more than its " + std::to_string(memory_limit) + " bytes of memory";
  if (end == GlpkEnd::failed) {
    if (!lacked_memory(guard)) {
      throw Error("GLPK refused the planning model: " + guard.said_before + guard.said);
    }
    search.reason = lack.c_str();
  }
  conclude(search);
  return std::move(search.solution);
}

std::string glpk_name() {
  return std::string("GLPK ") + glp_version();
}

int64_t default_memory_limit() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE) / 2;
}

}  // namespace olm2
