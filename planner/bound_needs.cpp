#include "planner/bound_needs.h"

#include <algorithm>
#include <set>

#include "planner/in_place.h"

namespace olm2 {
namespace {

size_t at(int32_t index) {
  return static_cast<size_t>(index);
}
size_t at(ValueId value) {
  return static_cast<size_t>(value.index);
}

// Per value the last node that reads it; the number of nodes for results.
std::vector<int32_t> last_readers(const Problem& problem) {
  const Graph& graph = *problem.graph;
  std::vector<int32_t> last(graph.values().size(), kNoNode);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    for (const ValueId input : graph.nodes()[n].inputs) last[at(input)] = static_cast<int32_t>(n);
  }
  for (const ValueId result : problem.results) {
    last[at(result)] = static_cast<int32_t>(graph.nodes().size());
  }
  return last;
}

void find_deadlines(const Problem& problem, size_t turn, TurnNeeds& needs) {
  const Graph& graph = *problem.graph;
  needs.deadline = needs.last_need;
  needs.run_deadline.assign(turn, kNoNode);
  for (size_t n = turn; n-- > 0;) {
    const Node& node = graph.nodes()[n];
    for (const ValueId output : node.outputs) {
      if (!needs.in_v[at(output)] || needs.read_by_turn[at(output)]) continue;
      needs.run_deadline[n] = std::max(needs.run_deadline[n], needs.deadline[at(output)]);
    }
    for (const ValueId input : node.inputs) {
      if (needs.last_need[at(input)] != kNoNode) continue;
      needs.deadline[at(input)] = std::max(needs.deadline[at(input)], needs.run_deadline[n]);
    }
  }
}

}  // namespace

int64_t bytes_of(const Problem& problem, ValueId value) {
  if (problem.lives_at_home(value)) return 0;
  const ValueId home = problem.graph->value(value).home;
  const bool settles_below = home.valid() && problem.rest_of(home).tier == Tier::device &&
                             problem.state_offset.at(at(home)) < problem.state_bytes;
  return settles_below ? 0 : problem.padded_bytes(value);
}

int64_t made_bytes(const Problem& problem, size_t n) {
  const Node& node = problem.graph->nodes()[n];
  const std::vector<InPlace> pairs = possible_in_place(problem, node);
  int64_t bytes = padded(problem.workspace.at(n), problem.alignment);
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    const bool may_be_free =
        std::ranges::any_of(pairs, [&](InPlace pair) { return at(pair.output) == o; });
    if (!may_be_free) bytes += bytes_of(problem, node.outputs[o]);
  }
  return bytes;
}

int64_t operand_bytes(const Problem& problem, size_t n) {
  const std::vector<ValueId>& inputs = problem.graph->nodes()[n].inputs;
  int64_t bytes = made_bytes(problem, n);
  for (const ValueId input : std::set<ValueId>(inputs.begin(), inputs.end())) {
    bytes += bytes_of(problem, input);
  }
  return bytes;
}

TurnNeeds needs_of(const Problem& problem, NodeId turn) {
  const Graph& graph = *problem.graph;
  const std::vector<int32_t> last = last_readers(problem);
  TurnNeeds needs;
  const size_t count = graph.values().size();
  needs.last_need.assign(count, kNoNode);
  needs.in_v.assign(count, false);
  needs.read_by_turn.assign(count, false);
  for (size_t v = 0; v < count; ++v) {
    const ValueId id{static_cast<int32_t>(v)};
    needs.in_v[v] = bytes_of(problem, id) > 0 && graph.value(id).producer.index < turn.index;
    if (needs.in_v[v] && last[v] >= turn.index) needs.last_need[v] = last[v];
  }
  for (const ValueId input : graph.node(turn).inputs) {
    needs.read_by_turn[at(input)] = needs.in_v[at(input)];
  }
  find_deadlines(problem, at(turn.index), needs);
  return needs;
}

std::vector<int64_t> bytes_at_turns(const Problem& problem) {
  const Graph& graph = *problem.graph;
  const std::vector<int32_t> last = last_readers(problem);
  const size_t count = graph.nodes().size();
  std::vector<int64_t> change(count + 1, 0);
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const ValueId value{static_cast<int32_t>(v)};
    const int32_t first = graph.value(value).producer.index + 1;  // Made before this node.
    if (last[v] < first) continue;
    change[at(first)] += bytes_of(problem, value);
    if (at(last[v]) < count) change[at(last[v]) + 1] -= bytes_of(problem, value);
  }
  std::vector<int64_t> bytes(count, 0);
  int64_t there = padded(problem.state_bytes, problem.alignment);
  for (size_t n = 0; n < count; ++n) {
    there += change[n];
    bytes[n] = there + made_bytes(problem, n);
  }
  return bytes;
}

std::vector<NodeId> cuts_from(const Problem& problem, NodeId turn) {
  const std::span<const Node> nodes = problem.graph->nodes();
  std::vector<NodeId> cuts = {turn};
  for (size_t first = at(turn.index) + 1; first < nodes.size();) {
    size_t last = first;
    int64_t most = 0;
    for (; last < nodes.size() && nodes[last].scope == nodes[first].scope; ++last) {
      most = std::max(most, operand_bytes(problem, last));
    }
    size_t cut = first;
    for (size_t n = first; n < last; ++n) {
      if (2 * operand_bytes(problem, n) > most) cut = n;
    }
    if (most > 0) cuts.push_back({static_cast<int32_t>(cut)});
    first = last;
  }
  return cuts;
}

}  // namespace olm2
