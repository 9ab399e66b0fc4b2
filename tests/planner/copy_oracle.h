// The fastest of all plans, copies included, found by search, for the tiniest of graphs.
#pragma once

#include <optional>

#include "core/schedule.h"

namespace olm2::oracle {

struct CopySearch {
  int64_t block_bytes = 0;    // 0: the problem's alignment.
  bool may_recompute = true;  // Else every node runs once.
  // The plans that the integer program of swap and olm2 looks for: what leaves starts on its way
  // before the last forward node ends, is given up no earlier than its last read before that, comes
  // back once before it is read again, and has a place of its own on the host.  Without recomputing
  // only values that the backward pass reads leave.
  bool leaves_once = false;
};

// Seconds of the fastest plan within the device and host budgets: any node again at any moment, any
// block of any value out and in again at any moment, beside computing.  Nodes run for the first
// time in the graph's order.  Slightly better off than plans are: where bytes lie plays no part,
// and an output may lie on an input that was copied before.  Empty: no plan fits.
//
// A search by time: everything takes whole seconds, because seconds per node are whole, a link
// moves one block per second without latency and slows nothing, and values are whole blocks, at
// most 16 together.  There must be no state.  Two tiers; a third one is a third mask of a State.
std::optional<int> fastest_with_copies(const Problem& problem, const CopySearch& asked = {});

}  // namespace olm2::oracle
