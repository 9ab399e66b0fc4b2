#include "planner/milp_slots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"

namespace olm2 {
namespace {

constexpr int32_t kNever = -1;

// What the candidate set is decided from.  Indices are node and value numbers.
struct Layers {
  const Graph& graph;
  std::vector<int32_t> of_node;       // Forward and backward nodes; -1: none.
  std::vector<int32_t> last_forward;  // Per value: last forward node that makes or reads it.
  std::vector<bool> from_sources;     // Per node: outside of any scope, made of sources alone.
};

size_t at(ValueId value) {
  return static_cast<size_t>(value.index);
}
size_t at(NodeId node) {
  return static_cast<size_t>(node.index);
}

std::vector<int32_t> last_forward_event(const Graph& graph) {
  std::vector<int32_t> last(graph.values().size(), kNever);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.phase != Phase::forward) continue;
    for (const ValueId value : node.inputs) last[at(value)] = static_cast<int32_t>(n);
    for (const ValueId value : node.outputs) last[at(value)] = static_cast<int32_t>(n);
  }
  return last;
}

// Scopes keep their numbers; runs of unscoped nodes get numbers after them.
void number_forward_layers(Layers& layers) {
  const Graph& graph = layers.graph;
  const auto forward = std::ranges::count(graph.nodes(), Phase::forward, &Node::phase);
  const bool scoped = !graph.scopes().empty();
  const auto run_length =
      scoped ? std::numeric_limits<int64_t>::max()
             : static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(forward))));
  auto next = static_cast<int32_t>(graph.scopes().size());
  int64_t in_run = 0;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.phase != Phase::forward) continue;
    if (node.scope >= 0) {
      layers.of_node[n] = node.scope;
      in_run = 0;
      continue;
    }
    if (in_run == 0 || in_run >= run_length) {
      ++next;
      in_run = 0;
    }
    layers.of_node[n] = next - 1;
    ++in_run;
  }
}

// A backward node outside of any scope belongs to the layer of its forward node: of all forward
// values it reads, that one is the first to be seen no more after its forward node.
void number_backward_layers(Layers& layers) {
  const Graph& graph = layers.graph;
  int32_t previous = kNever;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.phase != Phase::backward) continue;
    int32_t layer = node.scope;
    if (layer < 0) {
      int32_t forward_node = std::numeric_limits<int32_t>::max();
      for (const ValueId value : node.inputs) {
        const NodeId producer = graph.value(value).producer;
        if (!producer.valid() || graph.node(producer).phase != Phase::forward) continue;
        forward_node = std::min(forward_node, layers.last_forward[at(value)]);
      }
      const bool reads_forward = forward_node != std::numeric_limits<int32_t>::max();
      layer = reads_forward ? layers.of_node[static_cast<size_t>(forward_node)] : previous;
    }
    layers.of_node[n] = layer;
    previous = layer;
  }
}

void find_source_nodes(Layers& layers) {
  const Graph& graph = layers.graph;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.phase != Phase::forward || node.scope >= 0 || graph.scopes().empty()) continue;
    layers.from_sources[n] = std::ranges::all_of(node.inputs, [&](ValueId input) {
      const NodeId producer = graph.value(input).producer;
      return !producer.valid() || layers.from_sources[at(producer)];
    });
  }
}

Layers layers_of(const Graph& graph) {
  Layers layers{.graph = graph,
                .of_node = std::vector<int32_t>(graph.nodes().size(), kNever),
                .last_forward = last_forward_event(graph),
                .from_sources = std::vector<bool>(graph.nodes().size(), false)};
  number_forward_layers(layers);
  number_backward_layers(layers);
  find_source_nodes(layers);
  return layers;
}

// Whether running `node` again before node number `before` makes the same outputs, and forgetting
// them meanwhile could free something.
bool may_run_again(const Layers& layers, NodeId id, int32_t turn, size_t before) {
  const Graph& graph = layers.graph;
  const Node& node = graph.node(id);
  for (const ValueId output : node.outputs) {
    if (graph.value(output).home.valid() || layers.last_forward[at(output)] >= turn) return false;
  }
  for (size_t n = at(id) + 1; n < before; ++n) {
    for (const ValueId made : graph.nodes()[n].outputs) {
      const ValueId home = graph.value(made).home;
      if (!home.valid()) continue;
      const bool stale = std::ranges::any_of(
          node.inputs, [&](ValueId input) { return graph.value(input).home == home; });
      if (stale) return false;
    }
  }
  return true;
}

// Adds to `found` the forward nodes of `layer` that `value` is made by, inputs included.
void close_over(const Layers& layers, ValueId value, int32_t layer, int32_t turn, size_t before,
                std::vector<bool>& offered, std::vector<NodeId>& found) {
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const NodeId producer = layers.graph.value(open.back()).producer;
    open.pop_back();
    if (!producer.valid() || offered[at(producer)]) continue;
    const Node& node = layers.graph.node(producer);
    if (node.phase != Phase::forward) continue;
    if (layers.of_node[at(producer)] != layer && !layers.from_sources[at(producer)]) continue;
    if (!may_run_again(layers, producer, turn, before)) continue;
    offered[at(producer)] = true;
    found.push_back(producer);
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
}

}  // namespace

int32_t turn_of(const Graph& graph) {
  int32_t turn = kNever;
  bool goes_back = false;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    if (graph.nodes()[n].phase == Phase::forward) turn = static_cast<int32_t>(n);
    goes_back |= graph.nodes()[n].phase == Phase::backward;
  }
  return goes_back ? turn : kNever;
}

std::vector<Slot> slots_of(const Problem& problem, std::string_view space, bool may_recompute) {
  if (space != "auto" && space != "single0") {
    throw Error("planner: unknown space '" + std::string(space) +
                "'; expected \"auto\" or \"single0\"");
  }
  const Graph& graph = *problem.graph;
  const int32_t turn = turn_of(graph);
  const Layers layers = layers_of(graph);
  std::vector<bool> offered(graph.nodes().size(), false);
  std::vector<Slot> slots;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (may_recompute && turn != kNever && node.phase == Phase::backward) {
      std::vector<NodeId> again;
      for (const ValueId input : node.inputs) {
        close_over(layers, input, layers.of_node[n], turn, n, offered, again);
      }
      std::ranges::sort(again);
      for (const NodeId id : again) slots.push_back({.node = id, .optional = true});
    }
    slots.push_back({.node = {static_cast<int32_t>(n)}, .optional = false});
  }
  return slots;
}

}  // namespace olm2
