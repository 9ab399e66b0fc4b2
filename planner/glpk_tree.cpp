#include <algorithm>
#include <array>

#include "planner/glpk_guard.h"
#include "planner/glpk_search.h"

namespace olm2 {
namespace {

constexpr std::array<int, 3> kBranching = {GLP_BR_MFV, GLP_BR_DTH, GLP_BR_PCH};
constexpr std::array<int, 3> kBacktracking = {GLP_BT_DFS, GLP_BT_BLB, GLP_BT_BPH};

void note_bound(GlpkSearch& search, glp_tree* tree) {
  const int best = glp_ios_best_node(tree);
  if (best == 0) return;
  // What the cutoff's row cut off may still be just above it.
  raise_bound(search, std::min(glp_ios_node_bound(tree, best), search.request.cutoff));
}

void report(GlpkSearch& search, glp_tree* tree) noexcept {
  if (!search.request.progress) return;
  const bool found = glp_mip_status(glp_ios_get_prob(tree)) == GLP_FEAS;
  try {
    search.request.progress(found ? glp_ios_mip_gap(tree) : -1.0);
  } catch (...) {
    search.thrown = std::current_exception();
  }
}

// The tree's best solution.
void accept_from_tree(GlpkSearch& search) {
  for (size_t j = 0; j < search.x.size(); ++j) {
    search.x[j] = glp_mip_col_val(search.problem, static_cast<int>(j) + 1);
  }
  accept(search, glp_mip_obj_val(search.problem));
}

void tell_first_solution(GlpkSearch& search, glp_tree* tree) {
  if (search.tree_knows_x || search.solution.x.empty()) return;
  search.tree_knows_x = true;
  std::ranges::copy(search.solution.x, search.x_from_1.begin() + 1);
  glp_ios_heur_sol(tree, search.x_from_1.data());
}

void on_event(glp_tree* tree, void* info) {
  auto& search = *static_cast<GlpkSearch*>(info);
  switch (glp_ios_reason(tree)) {
    case GLP_IROWGEN:
      read_relaxation(search);
      find_broken(search);
      for (const Row& row : search.broken) append_row(search, row);
      break;
    case GLP_IHEUR:
      tell_first_solution(search, tree);
      break;
    case GLP_ISELECT:
      ++search.nodes;
      note_bound(search, tree);
      report(search, tree);
      break;
    case GLP_IBINGO:
      note_bound(search, tree);
      accept_from_tree(search);
      break;
    case GLP_IBRANCH:
      note_bound(search, tree);
      break;
    default:
      break;
  }
  if (is_over(search)) glp_ios_terminate(tree);
}

int explore(GlpkSearch& search) {
  const SolverRequest& request = search.request;
  glp_iocp options;
  glp_init_iocp(&options);
  options.br_tech = kBranching[static_cast<size_t>(request.branching)];
  options.bt_tech = kBacktracking[static_cast<size_t>(request.backtracking)];
  options.gmi_cuts = options.mir_cuts = options.cov_cuts = options.clq_cuts =
      request.cuts ? GLP_ON : GLP_OFF;
  options.sr_heur = GLP_OFF;  // It knows nothing of rows still to come.
  options.mip_gap = request.gap;
  options.tol_obj = 1e-10;  // A proof of optimality is meant to the last digits.
  options.tm_lim = milliseconds_left(search);
  options.out_frq = kGlpkHookPeriodMs;
  options.out_dly = 0;
  options.cb_func = &on_event;
  options.cb_info = &search;
  return glp_intopt(search.problem, &options);
}

}  // namespace

void branch(GlpkSearch& search) {
  Solution& solution = search.solution;
  const int failure = explore(search);
  if (search.thrown) return;
  const int status = glp_mip_status(search.problem);
  if (status == GLP_OPT || status == GLP_FEAS) accept_from_tree(search);
  if (failure == GLP_ETMLIM) search.reason = kTimeIsUp;
  const bool is_complete = failure == 0;
  const bool is_done = is_complete || failure == GLP_EMIPGAP;
  if (!solution.x.empty()) {
    solution.verdict = is_done ? Solution::Verdict::optimal : Solution::Verdict::feasible;
    if (is_complete) solution.bound = solution.objective;
    solution.bound = std::min(solution.bound, solution.objective);
  } else if (is_complete) {
    solution.verdict =
        search.is_cut_off ? Solution::Verdict::not_better : Solution::Verdict::infeasible;
    if (search.is_cut_off) solution.bound = std::max(solution.bound, search.request.cutoff);
  }
}

}  // namespace olm2
