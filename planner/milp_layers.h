// The layers of a graph, as far as its names and phases tell them: what single and jit spaces
// (milp_slots.h) and the guided search (search.h) mean by a layer.
//
// A layer is a scope of the graph (Node::scope); forward nodes outside of any form layers by runs,
// and a graph without scopes is cut into about sqrt(n) runs.  Layers are numbered in the order of
// their first forward nodes, so that layer l - 1 makes what layer l reads.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph.h"

namespace olm2 {

struct Layers {
  std::vector<int32_t> of_node;       // Forward and backward nodes; -1: none.
  std::vector<int32_t> last_forward;  // Per value: last forward node that makes or reads it, or -1.
  // Per node: outside of any scope and made of sources alone, like the embedding.  It counts as
  // part of every layer.
  std::vector<bool> from_sources;
};

Layers layers_of(const Graph& graph);

// The last forward node, where the step turns back; -1 if there is no backward node after it.
int32_t turn_of(const Graph& graph);

}  // namespace olm2
