// Planning where state comes and goes, or is there for part of a step only.
//
// Policies know one kind of state: at home on the device for the whole step.  So a problem with any
// other kind is planned in two parts: a policy plans the *settled* problem, in which all state is
// at home and the budget is larger by what then lies there for nothing, while every node counts the
// moving state it needs as scratch; then state_copies adds the copies to that plan.  Where the
// result is too large, the policy is asked again with less.
//
// Every plan of the real problem gives one of the settled problem (leave out the copies of state)
// that fits its budgets and is no slower.  So a bound for the settled problem holds for the real
// one, as long as scratch counts only what a node cannot do without.
#pragma once

#include <vector>

#include "planner/deadline.h"
#include "planner/planner.h"

namespace olm2 {

// Whether policies can plan the problem as it is.
bool is_settled(const Problem& problem);

struct SettledProblem {
  Problem problem;
  int64_t pretended_bytes = 0;  // By which the device budget is larger.
};

// `early`: nodes before the update count state on its way in for the next nodes too, so that copies
// find room beside them, and links are slower by the time that copies of state take of them; then
// a bound for the settled problem says nothing of the real one.
SettledProblem settle(const Problem& problem, bool early);

// The plan of a settled problem for the real one; itself, if nothing moves.
Plan unsettle(const Problem& problem, const Plan& settled_plan);

// plan_program and find_minimum for problems that are not settled.  The former leaves the time that
// it took to its caller.
Planned plan_moving_state(const Problem& problem, const Policy& policy, const PlanOptions& options,
                          const Deadline& deadline);
// Raises the bound of a plan that was made narrowly (PlanOptions) to what a longer proof says.
void raise_bound(const Problem& problem, const PlanOptions& options, Certificate& certificate);

Minimum minimum_with_moving_state(const Problem& problem, const PlanOptions& options);

}  // namespace olm2
