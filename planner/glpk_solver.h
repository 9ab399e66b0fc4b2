// Solves a LinearModel with GLPK.
#pragma once

#include <string>

#include "planner/solver.h"

namespace olm2 {

// Says nothing on stdout or stderr.  All of GLPK's state belongs to the calling thread.
// Throws Error with GLPK's own words if it refuses the model (which then is our mistake or a lack
// of memory); the next call works again.  Exceptions of the request's functions pass through.
Solution solve_with_glpk(const LinearModel& model, const SolverRequest& request);

// "GLPK 5.0".
std::string glpk_name();

}  // namespace olm2
