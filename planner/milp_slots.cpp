#include "planner/milp_slots.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"

namespace olm2 {
namespace {

constexpr std::array<std::string_view, 5> kSpaces = {"single0", "single1", "jit0", "jit1", "full"};
constexpr size_t kFewNodes = 12;  // So few, and everything is tried.

size_t at(ValueId value) {
  return static_cast<size_t>(value.index);
}
size_t at(NodeId node) {
  return static_cast<size_t>(node.index);
}

bool touches_state(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.outputs,
                             [&](ValueId output) { return graph.value(output).home.valid(); });
}

// Per node the last node number before which it may run again: later a state that it reads has
// changed.
std::vector<size_t> last_fresh(const Graph& graph) {
  std::vector<size_t> fresh(graph.nodes().size(), graph.nodes().size());
  std::vector<std::vector<size_t>> readers(graph.values().size());  // Per home.
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (const ValueId output : node.outputs) {
      const ValueId home = graph.value(output).home;
      if (!home.valid()) continue;
      for (const size_t reader : readers[at(home)]) fresh[reader] = std::min(fresh[reader], n);
    }
    for (const ValueId input : node.inputs) {
      const ValueId home = graph.value(input).home;
      if (home.valid()) readers[at(home)].push_back(n);
    }
  }
  return fresh;
}

class Offers {
 public:
  Offers(const Problem& problem, bool every_backward_node, bool layer_before)
      : graph_(*problem.graph),
        layers_(layers_of(graph_)),
        fresh_(last_fresh(graph_)),
        turn_(turn_of(graph_)),
        every_backward_node_(every_backward_node),
        layer_before_(layer_before) {}

  std::vector<Slot> slots() {
    const size_t nodes = graph_.nodes().size();
    std::vector<bool> offered(nodes, false);
    std::vector<bool> looked_back(nodes + 1, false);  // Per layer.
    std::vector<Slot> slots;
    for (size_t n = 0; n < nodes; ++n) {
      const Node& node = graph_.nodes()[n];
      if (turn_ >= 0 && node.phase == Phase::backward) {
        if (every_backward_node_) offered.assign(nodes, false);
        const int32_t layer = layers_.of_node[n];
        std::vector<NodeId> again;
        close_over(node.inputs, layer, n, offered, again);
        if (layer_before_ && layer > 0 && !again.empty() &&
            !looked_back[static_cast<size_t>(layer)]) {
          looked_back[static_cast<size_t>(layer)] = true;
          look_back(layer, n, again);
        }
        std::ranges::sort(again);
        for (const NodeId id : again) slots.push_back({.node = id, .optional = true});
      }
      slots.push_back({.node = {static_cast<int32_t>(n)}, .optional = false});
    }
    return slots;
  }

 private:
  // Whether running a node again before node number `before` makes the same outputs, and
  // forgetting them meanwhile could free something.
  bool may_run_again(NodeId id, size_t before) const {
    const Node& node = graph_.node(id);
    const bool ends_early = std::ranges::none_of(
        node.outputs, [&](ValueId output) { return layers_.last_forward[at(output)] >= turn_; });
    return ends_early && !touches_state(graph_, node) && before <= fresh_[at(id)];
  }

  // Adds to `found` the forward nodes of `layer` that `values` are made by, inputs included.
  void close_over(std::span<const ValueId> values, int32_t layer, size_t before,
                  std::vector<bool>& offered, std::vector<NodeId>& found) const {
    std::vector<ValueId> open(values.begin(), values.end());
    while (!open.empty()) {
      const NodeId producer = graph_.value(open.back()).producer;
      open.pop_back();
      if (!producer.valid() || offered[at(producer)]) continue;
      const Node& node = graph_.node(producer);
      if (node.phase != Phase::forward) continue;
      if (layers_.of_node[at(producer)] != layer && !layers_.from_sources[at(producer)]) continue;
      if (!may_run_again(producer, before)) continue;
      offered[at(producer)] = true;
      found.push_back(producer);
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
  }

  // Adds the nodes of the layer before `layer` that rebuild what those in `again` read.
  void look_back(int32_t layer, size_t before, std::vector<NodeId>& again) const {
    std::vector<bool> offered(graph_.nodes().size(), false);
    std::vector<ValueId> read;
    for (const NodeId id : again) {
      offered[at(id)] = true;
      const std::vector<ValueId>& inputs = graph_.node(id).inputs;
      read.insert(read.end(), inputs.begin(), inputs.end());
    }
    close_over(read, layer - 1, before, offered, again);
  }

  const Graph& graph_;
  Layers layers_;
  std::vector<size_t> fresh_;
  int32_t turn_;
  bool every_backward_node_;
  bool layer_before_;
};

// Per node the last node before which running it again could serve a later one, or a result.
std::vector<size_t> last_useful(const Problem& problem) {
  const Graph& graph = *problem.graph;
  const size_t nodes = graph.nodes().size();
  const std::vector<size_t> fresh = last_fresh(graph);
  std::vector<size_t> last(nodes, 0);
  for (const ValueId result : problem.results) {
    const NodeId producer = graph.value(result).producer;
    if (producer.valid() && at(producer) + 1 < nodes) last[at(producer)] = nodes;
  }
  for (size_t n = nodes; n-- > 0;) {
    const Node& node = graph.nodes()[n];
    last[n] = touches_state(graph, node) ? 0 : std::min(last[n], fresh[n]);
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph.value(input).producer;
      if (producer.valid()) last[at(producer)] = std::max({last[at(producer)], n, last[n]});
    }
  }
  return last;
}

std::vector<Slot> full_slots(const Problem& problem) {
  const size_t nodes = problem.graph->nodes().size();
  if (nodes > kMostFullNodes) {
    throw Error("planner.space: \"full\" is for graphs of at most " +
                std::to_string(kMostFullNodes) + " operations, and this one has " +
                std::to_string(nodes) + "; use \"auto\"");
  }
  const std::vector<size_t> useful = last_useful(problem);
  std::vector<Slot> slots;
  for (size_t n = 0; n <= nodes; ++n) {
    for (size_t j = 0; j + 1 < n; ++j) {  // What ran just before is still there.
      if (n <= useful[j]) slots.push_back({.node = {static_cast<int32_t>(j)}, .optional = true});
    }
    if (n < nodes) slots.push_back({.node = {static_cast<int32_t>(n)}, .optional = false});
  }
  return slots;
}

}  // namespace

std::span<const std::string_view> slot_spaces() {
  return kSpaces;
}

std::string_view narrowest_space(const Problem& problem, std::string_view space) {
  if (space != "auto") return space;
  return problem.graph->nodes().size() <= kFewNodes ? "full" : "single0";
}

std::vector<Slot> slots_of(const Problem& problem, std::string_view space, bool may_recompute) {
  space = narrowest_space(problem, space);
  if (std::ranges::find(kSpaces, space) == kSpaces.end()) {
    std::string names;
    for (const std::string_view name : kSpaces) {
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    throw Error("planner.space: got '" + std::string(space) + "', expected one of auto, " + names);
  }
  if (!may_recompute) {
    std::vector<Slot> slots;
    for (size_t n = 0; n < problem.graph->nodes().size(); ++n) {
      slots.push_back({.node = {static_cast<int32_t>(n)}, .optional = false});
    }
    return slots;
  }
  if (space == "full") return full_slots(problem);
  const bool every_backward_node = space.starts_with("jit");
  return Offers(problem, every_backward_node, space.ends_with("1")).slots();
}

}  // namespace olm2
