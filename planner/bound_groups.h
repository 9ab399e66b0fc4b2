// The turn bound with whole runs: a node runs again or it does not.
//
// The columns c are integers then.  Equal layers would make the search for the best of them
// endless, so like nodes of different layers (the same name, seconds, sizes and uses) share one
// column C, the sum of theirs, an integer between 0 and their number; of their rows there remains
// the sum. Every plan still obeys these rows, so the least time under them is a bound.  It can be
// larger than that of the broken c, or smaller, for what the single rows said is lost.
// Where rows of like nodes differ, the sum is weakened so that it holds: with
// 0 <= x <= 1, a x >= A x - max(0, A - a) and a x <= A x + max(0, a - A) for any A.
#pragma once

#include "planner/bound_model.h"

namespace olm2 {

struct WholeRuns {
  LinearModel linear;
  int integers = 0;
  bool is_grouped = false;  // False: every node has its own column.
};

// So few columns c stay on their own.
inline constexpr int kFewRuns = 24;

WholeRuns with_whole_runs(const Problem& problem, const TurnModel& model, int few_runs = kFewRuns);

}  // namespace olm2
