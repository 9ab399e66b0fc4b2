#include "planner/evicted.h"

#include <algorithm>

namespace olm2 {

EvictedValues::EvictedValues(const Problem& problem)
    : problem_(problem),
      parents_(problem.graph->values().size()),
      children_(parents_.size()),
      is_evicted_(parents_.size(), false),
      counts_(parents_.size(), false),
      known_(parents_.size(), -1),
      seen_values_(parents_.size(), 0),
      seen_nodes_(problem.graph->nodes().size(), 0) {
  const Graph& graph = *problem.graph;
  const auto is_made = [&](ValueId v) {
    return graph.value(v).producer.valid() && !graph.value(v).home.valid();
  };
  for (const Node& node : graph.nodes()) {
    for (const ValueId output : node.outputs) {
      if (!is_made(output)) continue;
      for (const ValueId input : node.inputs) {
        if (!is_made(input)) continue;
        parents_[at(output)].push_back(input);
        children_[at(input)].push_back(output);
      }
    }
  }
}

template <typename Passes, typename Visit>
void EvictedValues::walk(ValueId from, const std::vector<Values>& edges, const Passes& passes,
                         const Visit& visit) {
  ++round_;
  stack_.assign(1, from);
  while (!stack_.empty()) {
    const ValueId here = stack_.back();
    stack_.pop_back();
    for (const ValueId next : edges[at(here)]) {
      if (seen_values_[at(next)] == round_) continue;
      seen_values_[at(next)] = round_;
      visit(next);
      if (passes(next)) stack_.push_back(next);
    }
  }
}

void EvictedValues::forget_around(ValueId value) {
  const auto is_evicted = [&](ValueId v) { return is_evicted_[at(v)]; };
  const auto forget = [&](ValueId v) { known_[at(v)] = -1; };
  forget(value);
  walk(value, children_, is_evicted, forget);
  walk(value, parents_, is_evicted, forget);
}

void EvictedValues::leave(ValueId value, bool is_read_again) {
  is_evicted_[at(value)] = true;
  const bool counts = is_read_again || std::ranges::any_of(children(value), [&](ValueId v) {
                        return counts_[at(v)];
                      });
  if (counts) {
    counts_[at(value)] = true;
    walk(
        value, parents_, [&](ValueId v) { return is_evicted_[at(v)] && counts_[at(v)]; },
        [&](ValueId v) {
          if (is_evicted_[at(v)]) counts_[at(v)] = true;
        });
  }
  forget_around(value);
}

void EvictedValues::come_back(ValueId value) {
  if (!is_evicted_[at(value)]) return;
  is_evicted_[at(value)] = counts_[at(value)] = false;
  forget_around(value);
}

double EvictedValues::remake_seconds(ValueId value) {
  double& seconds = known_[at(value)];
  if (seconds >= 0) return seconds;
  const int64_t mark = round_ + 1;  // Differs from call to call: walk() counts up.
  seconds = 0;
  const auto add = [&](ValueId v) {
    const auto node = static_cast<size_t>(problem_.graph->value(v).producer.index);
    if (seen_nodes_[node] == mark) return;
    seen_nodes_[node] = mark;
    seconds += problem_.run_seconds(node, true);
  };
  const auto is_evicted = [&](ValueId v) { return is_evicted_[at(v)]; };
  const auto counts = [&](ValueId v) { return counts_[at(v)]; };
  add(value);
  walk(value, parents_, is_evicted, [&](ValueId v) {
    if (is_evicted(v)) add(v);
  });
  walk(value, children_, counts, [&](ValueId v) {
    if (counts(v)) add(v);
  });
  return seconds;
}

}  // namespace olm2
