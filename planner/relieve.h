// Makes room where gaps between addresses need more than the budget has, at the price of time.
//
// What a policy asks for may fit by count and not by address: lives that overlap like shingles
// leave gaps at moments when nothing is to spare.  Two kinds of bytes are there for convenience
// alone: a copy out holds its bytes until it is expected to be over, and a copy in takes them some
// time before they are read.  At each moment at which something lies above the budget, as many such
// bytes are given up right before it, the ones that left first, or taken only after it, the ones
// needed last. The result is a plan like any other; whoever uses the bytes next waits a little for
// the copy.
#pragma once

#include <optional>

#include "planner/planner.h"

namespace olm2 {

// A plan with fewer bytes on the device at the steps at which `placed`, the schedule of `plan`,
// lies above `limit`.  Nothing if it has no such copies there.
std::optional<Plan> relieve(const Problem& problem, const Plan& plan, const Schedule& placed,
                            int64_t limit);

}  // namespace olm2
