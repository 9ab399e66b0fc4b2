// Ever wider integer programs, guided by the turn's bound (bound.h), until the asked gap.
//
// The bound's solution says of every node how much of it runs again.  Almost all of it is yes or
// no, and good plans agree: a stage takes a candidate set (milp_slots.h), leaves out the slots of
// nodes that do not run again, runs those that do, and leaves open the few nodes that the bound
// broke, with all nodes of their layers and of those within a radius.  Where a stage gives no plan
// or one too far from the bound, the next one is wider and starts from the best plan so far.
//
// Plans are compared by the simulated time of their schedules, placed at addresses: a plan counts
// only if its arenas fit the budgets.  Where decisions need more than the model thought, the
// model's budget is lowered by the excess.
//
// The result is a function of problem and options unless the time limit binds: one program gets a
// number of the solver's steps, so that wider ones are tried where a narrow one is hard.
#pragma once

#include "planner/bound.h"
#include "planner/planner.h"

namespace olm2 {

// The fastest plan found; bound_s is that of `bound`, which must be one for the same question.
// Status unknown, with an empty plan, where none was found.
PolicyResult search_plans(const Problem& problem, const PlanOptions& options,
                          const TurnBound& bound, bool may_recompute, bool may_swap);

}  // namespace olm2
