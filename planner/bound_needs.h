// What a plan cut at the first run of a node T still needs, and how much that node takes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule.h"

namespace olm2 {

// A node that nothing reads: before the first one.
inline constexpr int32_t kNoNode = -1;

struct TurnNeeds {
  std::vector<bool> in_v;          // Per value: made before T, and it takes bytes.
  std::vector<bool> read_by_turn;  // Per value of V.
  // Per value of V: the last node at or after T that reads it, the number of nodes for results;
  // kNoNode: none does.
  std::vector<int32_t> last_need;
  // Per value of V: the last moment at which it can matter; for what no later node reads that of
  // what is made from it.
  std::vector<int32_t> deadline;
  std::vector<int32_t> run_deadline;  // Per node before T: the last of its outputs.
};
TurnNeeds needs_of(const Problem& problem, NodeId turn);

// Padded bytes that a value takes among those planned for; 0 for what is, or comes to rest, below
// state_bytes.
int64_t bytes_of(const Problem& problem, ValueId value);

// Least device bytes of what a node makes, beside its inputs, and of its scratch: an output that
// may lie on an input takes none.
int64_t made_bytes(const Problem& problem, size_t node);

// The same and its inputs: what is on the device while it runs.
int64_t operand_bytes(const Problem& problem, size_t node);

// The state, and per node all that is needed then or later: what keeping everything holds.
std::vector<int64_t> bytes_at_turns(const Problem& problem);

// T, and nodes after T which themselves hold so much that little room is left for anything else, in
// order: one per layer, and the last large one of every run of nodes outside of any.
std::vector<NodeId> cuts_from(const Problem& problem, NodeId turn);

}  // namespace olm2
