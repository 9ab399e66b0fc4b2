// The fastest of all plans, copies included, found by search, for the tiniest of graphs.
#pragma once

#include <optional>

#include "core/schedule.h"

namespace olm2::oracle {

// Seconds of the fastest plan within the device and host budgets: any node again at any moment, any
// block of any value out and in again at any moment, beside computing.  Nodes run for the first
// time in the graph's order.  Slightly better off than plans are: where bytes lie plays no part,
// and an output may lie on an input that was copied before.  Empty: no plan fits.
//
// A search by time: everything takes whole seconds, because seconds per node are whole, a link
// moves one block of `alignment` bytes per second without latency and slows nothing, and values are
// whole blocks, at most 16 together.  There must be no state.
std::optional<int> fastest_with_copies(const Problem& problem);

}  // namespace olm2::oracle
