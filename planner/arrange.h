// From decisions to an exact Plan: a list scheduler that counts padded bytes.
//
// Given which nodes run in which order and which bytes wait in the host tier, everything else
// follows: a value is on the device from where it is made to its last reader; bytes that go out
// leave after their last reader before the turn and are back for their first reader after it.
// What is left to choose is when copies start and when their bytes are taken or given up:
//  - A copy out starts when the link is free and its bytes are made (sending.h).  Its device bytes
//    are given up when it is done, or earlier, oldest first, where the next node does not fit
//    otherwise (that node then waits).
//  - A copy in starts just in time (found backwards from its reader, with a margin), or later where
//    its bytes do not fit yet.  Much earlier would hide nothing more, and makes lives that
//    addresses are hard to find for: up to 13 % of the budget were lost to gaps, against none.
// So the replayed peak never exceeds the budget if it does not with copies that take no time.
#pragma once

#include <vector>

#include "core/schedule.h"

namespace olm2 {

struct Decisions {
  std::vector<NodeId> order;  // Every node once, in graph order, and re-executions between them.
  // Per value: how many bytes from its beginning wait in the host tier over the turn; 0, a
  // multiple of the alignment, or all of it.
  std::vector<int64_t> swapped;
};

// Every node once, nothing swapped.
Decisions keep_everything(const Graph& graph);

struct Arrangement {
  // Peaks of the decisions with copies that take no time: no plan for them needs less.
  BytesPerTier least{};
  Plan plan;  // Empty if one of them exceeds the budget.
  bool fits(const BytesPerTier& budget) const {
    return least[index_of(Tier::device)] <= budget[index_of(Tier::device)] &&
           least[index_of(Tier::host)] <= budget[index_of(Tier::host)];
  }
};

// Copies in start as if they took `margin` times as long: more hides better what copies before them
// delay, and leaves more gaps between addresses.
inline constexpr double kUsualMargin = 1.25;
Arrangement arrange(const Problem& problem, const Decisions& decisions,
                    double margin = kUsualMargin);

// Only Arrangement::least.
BytesPerTier least_bytes(const Problem& problem, const Decisions& decisions);

}  // namespace olm2
