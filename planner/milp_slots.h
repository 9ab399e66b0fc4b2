// Where a node may run a second time: the candidate set that bounds the space of plans.
//
// `single0`: every forward node of a layer whose outputs, or what is made from them, the layer's
// backward nodes read may run once more, just before the first of those backward nodes that needs
// it.  Nodes that depend on nothing but sources, like the embedding, count as part of every layer.
// A layer is a scope of the graph (Node::scope); nodes outside of any form layers by runs, and a
// graph without scopes is cut into about sqrt(n) runs.
// Left out: nodes whose outputs are read until the forward pass ends (the logits: nothing is
// gained by forgetting them for no time), nodes that touch state, and nodes that read a version of
// state that is gone by then.
#pragma once

#include <string_view>
#include <vector>

#include "core/schedule.h"

namespace olm2 {

// One turn of the compute lane: every node has a mandatory slot, in graph order; optional ones
// lie between them.
struct Slot {
  NodeId node;
  bool optional = false;
};

// Throws Error for an unknown space ("auto" is "single0").
std::vector<Slot> slots_of(const Problem& problem, std::string_view space, bool may_recompute);

// The last forward node, where the step turns back; -1 if there is no backward node after it.
int32_t turn_of(const Graph& graph);

}  // namespace olm2
