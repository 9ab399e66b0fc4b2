// The fastest of all plans that copy nothing, found by search, for graphs of few values.
#pragma once

#include <optional>

#include "core/schedule.h"

namespace olm2::oracle {

// Seconds of the fastest plan within the device budget that moves nothing: any node again, any
// number of times, at any moment, anything forgotten at any moment; nodes run for the first time in
// the graph's order.  Bytes are counted as in replay, in-place outputs included.  Empty: no plan
// fits.
// Dijkstra's search over states (what is on the device, which version each home holds, how many
// nodes have run).  Seconds per node must be whole numbers, values that take bytes at most 16.
std::optional<int> fastest_without_copies(const Problem& problem);

}  // namespace olm2::oracle
