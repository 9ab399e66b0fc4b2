// Policy `none`: every node once, in graph order, every value on the device until its last use.
#pragma once

#include "planner/planner.h"

namespace olm2 {

Plan keep_all_plan(const Problem& problem);

PolicyResult plan_none(const Problem& problem, const PlanOptions& options);
// Its only plan.
std::vector<Plan> smallest_none(const Problem& problem, const PlanOptions& options);

}  // namespace olm2
