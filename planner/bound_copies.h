// The rows of the turn bound that are about copies: 4 to 8 of bound.h.
#pragma once

#include "planner/bound_model.h"

namespace olm2 {

// Whether there are links, and a plan may use them: some state always moves where it rests in
// another tier.
bool may_copy(const Problem& problem, bool may_swap);

// State that rests in another tier moves whatever the policy, and has its bytes there already.
bool rests_elsewhere(const Problem& problem, ValueId value);

void add_copies(const Problem& problem, const TurnRequest& request, TurnModel& model);

}  // namespace olm2
