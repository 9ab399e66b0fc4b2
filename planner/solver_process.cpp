#include "planner/glpk_solver.h"

namespace olm2 {

Solution solve(const LinearModel& model, const SolverRequest& request) {
  return solve_with_glpk(model, request);
}

}  // namespace olm2
