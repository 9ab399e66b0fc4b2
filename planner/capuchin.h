// Policy `capuchin`: after Peng et al. 2020 ("Capuchin: Tensor-based GPU Memory Management for Deep
// Learning", sections 4.4 and 4.5), on the access sequence and times that a Problem states.
//
// A gap of a value is the time between two of its accesses.  While keeping everything would exceed
// the budget at some node, one value is taken off the device for a gap around that node:
//   1. by swapping, if both copies hide behind computing: the largest free time first, where
//        free time = start of the access after the gap - end of the one before it - copy out - copy
//        in,
//      and the copies of all swaps, in order on their lanes, still end in time;
//   2. else what costs least per byte: making it again (its node and whatever it needs that is not
//      there: the paper's MSPS, with its update after every choice), or swapping in the open.
// A swap starts at the access before the gap; its copy back is issued as late as hides it (the
// paper's in-trigger).  What estimates missed is evicted on demand, least recently used first (the
// paper's passive mode; online.h).
//
// Simplified: copies take the time the profile says instead of being corrected by feedback.
#pragma once

#include "planner/online.h"

namespace olm2 {

// The decisions, per node, for problem.budget.
OnlineHints choose_capuchin(const Problem& problem, const AccessSequence& sequence);

PolicyResult plan_capuchin(const Problem& problem, const PlanOptions& options);
// Of the passive mode.
std::vector<Plan> smallest_capuchin(const Problem& problem, const PlanOptions& options);

}  // namespace olm2
