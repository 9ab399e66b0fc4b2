// Policies by mixed-integer programming: recompute, swap and olm2 (both) are one model in which the
// unwanted variables do not exist.  milp_slots.h bounds the space of plans, milp_model.h states the
// program, glpk_solver.h solves it, arrange.h turns its decisions into an exact plan.
//
// The model's copies are fluids and its bytes real numbers.  Where the exact plan needs more than
// the budget after all, the model's budget is lowered by the excess and the model solved again, a
// bounded number of times.  Keeping everything is tried first: where it fits it is optimal.
// A plan is a function of problem and options alone unless the time limit ends the search.
#pragma once

#include <optional>

#include "planner/planner.h"

namespace olm2 {

// The fastest plan found.  Statuses: optimal and feasible as in planner.h; unknown, with an empty
// plan, both where the space holds no plan and where the time did not suffice: that no plan of any
// kind exists is not for this space to say.
// bound_s: no plan of the space is faster for problem.budget.  Throws Error for an unknown space.
PolicyResult plan_by_milp(const Problem& problem, const PlanOptions& options, bool may_recompute,
                          bool may_swap);

// The fastest plan that ever wider candidate sets hold, with addresses (search.h): for where the
// narrow one's plan is too far from the bound.  Unknown, with an empty plan, where none was found.
PolicyResult widen_by_milp(const Problem& problem, const PlanOptions& options, bool may_recompute,
                           bool may_swap);

// The plan with the smallest peak of device bytes found, whatever its time; other tiers as in
// problem.budget.  Its peak is what replay says; problem.budget of the device plays no part.
// Empty if time did not suffice.
std::optional<PolicyResult> minimum_by_milp(const Problem& problem, const PlanOptions& options,
                                            bool may_recompute, bool may_swap);

}  // namespace olm2
