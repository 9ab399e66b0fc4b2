#include "planner/milp_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace olm2 {
namespace {

constexpr int32_t kNever = -1;

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

// Numbers forward nodes; returns the number of each scope.
std::vector<int32_t> number_forward_layers(const Graph& graph, Layers& layers) {
  const auto forward = std::ranges::count(graph.nodes(), Phase::forward, &Node::phase);
  const bool scoped = !graph.scopes().empty();
  const auto run_length =
      scoped ? std::numeric_limits<int64_t>::max()
             : static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(forward))));
  std::vector<int32_t> of_scope(graph.scopes().size(), kNever);
  int32_t next = 0;
  int64_t in_run = 0;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.phase != Phase::forward) continue;
    if (node.scope >= 0) {
      int32_t& layer = of_scope[static_cast<size_t>(node.scope)];
      if (layer == kNever) layer = next++;
      layers.of_node[n] = layer;
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
  return of_scope;
}

// A backward node outside of any scope belongs to the layer of its forward node: of all forward
// values it reads, that one is the first to be seen no more after its forward node.
void number_backward_layers(const Graph& graph, const std::vector<int32_t>& of_scope,
                            Layers& layers) {
  int32_t previous = kNever;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.phase != Phase::backward) continue;
    int32_t layer = node.scope >= 0 ? of_scope[static_cast<size_t>(node.scope)] : kNever;
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

void find_source_nodes(const Graph& graph, Layers& layers) {
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.phase != Phase::forward || node.scope >= 0 || graph.scopes().empty()) continue;
    layers.from_sources[n] = std::ranges::all_of(node.inputs, [&](ValueId input) {
      const NodeId producer = graph.value(input).producer;
      return !producer.valid() || layers.from_sources[at(producer)];
    });
  }
}

}  // namespace

Layers layers_of(const Graph& graph) {
  Layers layers{.of_node = std::vector<int32_t>(graph.nodes().size(), kNever),
                .last_forward = last_forward_event(graph),
                .from_sources = std::vector<bool>(graph.nodes().size(), false)};
  number_backward_layers(graph, number_forward_layers(graph, layers), layers);
  find_source_nodes(graph, layers);
  return layers;
}

int32_t turn_of(const Graph& graph) {
  int32_t turn = kNever;
  bool goes_back = false;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    if (graph.nodes()[n].phase == Phase::forward) turn = static_cast<int32_t>(n);
    goes_back |= graph.nodes()[n].phase == Phase::backward;
  }
  return goes_back ? turn : kNever;
}

}  // namespace olm2
