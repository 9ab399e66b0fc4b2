// Where a node may run again: the candidate set that bounds the space of plans.
//
//   single0  every forward node of a layer once, just before the first of the layer's backward
//            nodes that reads its outputs or what is made from them
//   single1  also the layer before, as far as it rebuilds what the layer reads, at that moment
//   jit0     before every backward node the forward nodes of its layer that what it reads is made
//            by: a value may be made again several times
//   jit1     both
//   full     every earlier node before every node (Jain et al. 2020, Checkmate, and gradients too);
//            for graphs of at most kMostFullNodes nodes
// Layers: milp_layers.h.  Left out everywhere: nodes that touch state, and nodes that read a
// version of state that is gone by then.  single and jit also leave out nodes whose outputs are
// read until the forward pass ends (the logits: nothing is gained by forgetting them for no time),
// full what nobody reads later.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/schedule.h"
#include "planner/milp_layers.h"

namespace olm2 {

inline constexpr size_t kMostFullNodes = 128;

// One turn of the compute lane: every node has a mandatory slot, in graph order; optional ones
// lie between them.  A further slot of a node that is not optional always runs.
struct Slot {
  NodeId node;
  bool optional = false;
};

// What the slot's node takes there.
inline double run_seconds(const Problem& problem, const Slot& slot) {
  return problem.run_seconds(static_cast<size_t>(slot.node.index), slot.optional);
}

// The names above, narrow ones first.
std::span<const std::string_view> slot_spaces();

// The space itself; for "auto" the first one to be searched: "full" for a handful of nodes.
std::string_view narrowest_space(const Problem& problem, std::string_view space);

// Throws Error for an unknown space, and for a graph too large for "full".
std::vector<Slot> slots_of(const Problem& problem, std::string_view space, bool may_recompute);

}  // namespace olm2
