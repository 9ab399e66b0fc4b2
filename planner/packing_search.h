// Lowers a packing by moving few groups at a time.  Inside of packing only.
//
// Ejection search, the idea of Nagata and Braysy 2009 for vehicle routes: groups that reach above a
// ceiling are taken out; one by one they are put back where what they push out weighs least, and
// what was pushed out waits its turn.  A group that pushes others out grows heavier, so that the
// same groups do not push each other out for ever.  A step looks at the boxes in use at the same
// moments as the group's and at nothing else, so that there is time for many.
#pragma once

#include <span>
#include <vector>

#include "planner/packing.h"

namespace olm2 {

// Seeks a packing whose top is at most `goal`, or near to it, and keeps what it finds in `best`.
// The number of steps follows from the sizes and `effort`.
void lower_top(std::span<const BoxGroup> groups, int64_t base, int64_t goal, int effort,
               Packing& best);

// A packing near the offsets of `start`, which may collide; below the base: anywhere.  What finds
// no place below `ceiling` lies on top.
Packing move_few(std::span<const BoxGroup> groups, int64_t base, int64_t ceiling, int effort,
                 const std::vector<int64_t>& start);

}  // namespace olm2
