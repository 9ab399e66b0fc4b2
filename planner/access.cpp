#include "planner/access.h"

#include <algorithm>

namespace olm2 {
namespace {

size_t at(ValueId value) {
  return static_cast<size_t>(value.index);
}

// When the content of each state source and version is replaced; walks from the end.
void find_replacements(const Graph& graph, std::vector<int32_t>& until) {
  const auto end = static_cast<int32_t>(graph.nodes().size());
  std::vector<int32_t> next_change(graph.values().size(), end);
  for (int32_t n = end - 1; n >= 0; --n) {
    for (const ValueId output : graph.nodes()[static_cast<size_t>(n)].outputs) {
      const ValueId home = graph.value(output).home;
      if (!home.valid()) continue;
      until[at(output)] = next_change[at(home)];
      next_change[at(home)] = n;
    }
  }
  for (size_t v = 0; v < graph.values().size(); ++v) {
    if (!graph.values()[v].producer.valid()) until[v] = next_change[v];
  }
}

void find_remakable(const Graph& graph, std::vector<int32_t>& until) {
  for (const Node& node : graph.nodes()) {
    int32_t lasts = static_cast<int32_t>(graph.nodes().size());
    for (const ValueId input : node.inputs) lasts = std::min(lasts, until[at(input)]);
    const bool changes_state = std::ranges::any_of(
        node.outputs, [&](ValueId output) { return graph.value(output).home.valid(); });
    for (const ValueId output : node.outputs) {
      if (!graph.value(output).home.valid()) until[at(output)] = changes_state ? -1 : lasts;
    }
  }
}

void find_needs(const Graph& graph, AccessSequence& sequence) {
  std::vector<int32_t> reach(graph.values().size(), -1);  // Of anything made from it, too.
  for (size_t n = graph.nodes().size(); n-- > 0;) {
    int32_t last = static_cast<int32_t>(n);
    for (const ValueId output : graph.nodes()[n].outputs) {
      if (!graph.value(output).home.valid()) last = std::max(last, reach[at(output)]);
    }
    for (const ValueId input : graph.nodes()[n].inputs) {
      reach[at(input)] = std::max(reach[at(input)], last);
    }
  }
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const std::vector<int32_t>& reads = sequence.reads[v];
    const int32_t own = reads.empty() ? -1 : reads.back();
    sequence.needed_until.push_back(graph.values()[v].role == Role::input ? reach[v] : own);
  }
}

}  // namespace

int32_t AccessSequence::next_read(ValueId value, int32_t moment) const {
  const std::vector<int32_t>& all = reads[at(value)];
  const auto found = std::ranges::lower_bound(all, moment);
  return found == all.end() ? -1 : *found;
}

AccessSequence access_sequence(const Problem& problem) {
  const Graph& graph = *problem.graph;
  AccessSequence sequence;
  sequence.reads.resize(graph.values().size());
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const auto moment = static_cast<int32_t>(n);
    for (const ValueId input : graph.nodes()[n].inputs) {
      std::vector<int32_t>& reads = sequence.reads[at(input)];
      if (reads.empty() || reads.back() != moment) reads.push_back(moment);
    }
  }
  sequence.remade_until.assign(graph.values().size(), -1);
  find_replacements(graph, sequence.remade_until);
  find_remakable(graph, sequence.remade_until);
  find_needs(graph, sequence);
  return sequence;
}

}  // namespace olm2
