// Copies of state that rests in another tier, added to a plan that was made as if it were at home.
//
// Between two uses by the plan's nodes a source either stays on the device or is forgotten and
// fetched again.  It stays where that fits, shortest gaps first (each saves a copy), and wherever
// it was changed: a version goes back once, after its last use.  A copy in starts just in time,
// found backwards from its reader beside the copies the plan has on the same lane, or later where
// its bytes do not fit yet.  A copy out gives its device bytes up when it is done, or earlier,
// oldest first, where a node does not fit otherwise; that node then waits.
#pragma once

#include <vector>

#include "core/schedule.h"

namespace olm2 {

// Whether versions of this source, as the problem has it, come and go.
bool is_moving(const Problem& problem, ValueId source);

// `plan` with its copies of state.  `device_bytes`: per compute step of the plan, in order, the
// most on the device between the step before and its end, without moving state.  `problem.budget`
// is obeyed where it can be: if what nodes need themselves exceeds it, so does the result.
Plan with_state_copies(const Problem& problem, const Plan& plan, std::vector<int64_t> device_bytes);

// Per node in the graph's order, each once: bytes of moving state on the device while it runs.
// `early`: also those on their way in for later nodes, as if memory did not matter.
std::vector<int64_t> state_windows(const Problem& problem, bool early);

// Seconds that copies of moving state take of each link before the first node of the update, if
// every node fetches what it reads and nothing is kept between nodes that do not follow each other.
struct StateTraffic {
  double in_s = 0;
  double out_s = 0;
};
StateTraffic traffic_before_update(const Problem& problem);

}  // namespace olm2
