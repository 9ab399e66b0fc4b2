// What a linear program's multipliers prove, whoever found them and however roughly.
#pragma once

#include <span>

#include "planner/solver.h"

namespace olm2 {

// A value that no point within the model's rows and column bounds is below, whether or not columns
// are integer.  For any multipliers y of the right sign
//   cost x >= y (A x) + (cost - y A) x >= sum of y times the row's side + sum of the least that
//   (cost - y A)[j] x[j] is within the column's bounds
// (weak duality; with a margin for rounding as in Neumaier and Shcherbina 2004).  Multipliers of
// the wrong sign count as 0.  All are scaled down together where a column without an upper bound
// asks for it.  The margin is 1e-12 of the sum of the magnitudes added.
double proven_value(const LinearModel& model, std::span<const double> prices);

}  // namespace olm2
