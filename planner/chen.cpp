#include "planner/chen.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/keep_all.h"
#include "planner/realize.h"
#include "planner/run_seconds.h"
#include "planner/steps.h"

namespace olm2 {
namespace {

constexpr size_t kMaxTried = 64;

size_t as_size(int32_t i) {
  return static_cast<size_t>(i);
}

std::vector<size_t> forward_nodes(const Graph& graph) {
  std::vector<size_t> nodes;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    if (graph.nodes()[n].phase == Phase::forward) nodes.push_back(n);
  }
  return nodes;
}

// What may not be separated: runs of forward nodes of one scope; single nodes without scopes.
std::vector<std::vector<size_t>> forward_units(const Graph& graph) {
  const std::vector<size_t> nodes = forward_nodes(graph);
  const bool has_scopes =
      std::ranges::any_of(nodes, [&](size_t n) { return graph.nodes()[n].scope >= 0; });
  std::vector<std::vector<size_t>> units;
  for (const size_t n : nodes) {
    const bool continues = has_scopes && !units.empty() &&
                           graph.nodes()[units.back().back()].scope == graph.nodes()[n].scope;
    if (!continues) units.emplace_back();
    units.back().push_back(n);
  }
  return units;
}

// Per node its segment; -1: not forward.
std::vector<int> segments_of(const Graph& graph, int count) {
  const std::vector<std::vector<size_t>> units = forward_units(graph);
  std::vector<int> segment(graph.nodes().size(), -1);
  for (size_t u = 0; u < units.size(); ++u) {
    for (const size_t n : units[u]) {
      segment[n] = static_cast<int>(u * static_cast<size_t>(count) / units.size());
    }
  }
  return segment;
}

class Segmenting {
 public:
  Segmenting(const Problem& problem, int count)
      : problem_(problem),
        graph_(*problem.graph),
        count_(count),
        segment_(segments_of(graph_, count)),
        is_interior_(graph_.values().size(), false) {
    find_times();
    for (size_t v = 0; v < is_interior_.size(); ++v) is_interior_[v] = is_forgotten(v);
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (segment_[n] < 0) continue;
      for (const ValueId input : graph_.nodes()[n].inputs) {
        if (segment_of(input) != segment_[n]) is_interior_[as_size(input.index)] = false;
      }
    }
  }

  Plan plan() const {
    Plan plan;
    std::vector<bool> is_remade(as_size(count_), false);
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (segment_[n] < 0) {
        for (const ValueId input : graph_.nodes()[n].inputs) {
          if (!is_interior_[as_size(input.index)]) continue;
          const int segment = segment_of(input);
          if (is_remade[as_size(segment)]) continue;
          is_remade[as_size(segment)] = true;
          remake(segment, n, plan);
        }
      }
      plan.steps.push_back(compute_step(n));
    }
    return with_earliest_drops(problem_, plan);
  }

 private:
  int segment_of(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return producer.valid() ? segment_[as_size(producer.index)] : -1;
  }

  void find_times() {
    first_change_.assign(graph_.values().size(), graph_.nodes().size());
    last_reader_.assign(as_size(count_), 0);
    for (size_t n = graph_.nodes().size(); n-- > 0;) {
      const Node& node = graph_.nodes()[n];
      for (const ValueId output : node.outputs) {
        const ValueId home = graph_.value(output).home;
        if (home.valid()) first_change_[as_size(home.index)] = n;
      }
      if (segment_[n] >= 0) continue;
      for (const ValueId input : node.inputs) {
        const int segment = segment_of(input);
        if (segment >= 0) {
          last_reader_[as_size(segment)] = std::max(last_reader_[as_size(segment)], n);
        }
      }
    }
  }

  // Made in a segment that is made again, by a node that can run again.
  bool is_forgotten(size_t v) const {
    const ValueId value{static_cast<int32_t>(v)};
    const int segment = segment_of(value);
    if (segment < 0 || segment == count_ - 1) return false;
    if (std::ranges::find(problem_.results, value) != problem_.results.end()) return false;
    const Node& node = graph_.node(graph_.values()[v].producer);
    const auto changes_too_early = [&](ValueId input) {
      const ValueId home = graph_.value(input).home;
      return home.valid() && first_change_[as_size(home.index)] < last_reader_[as_size(segment)];
    };
    const auto is_version = [&](ValueId output) { return graph_.value(output).home.valid(); };
    return std::ranges::none_of(node.inputs, changes_too_early) &&
           std::ranges::none_of(node.outputs, is_version);
  }

  // The nodes of a segment that give what nodes from `reader` on need.
  void remake(int segment, size_t reader, Plan& plan) const {
    std::vector<bool> wanted(graph_.values().size(), false);
    for (size_t n = reader; n < graph_.nodes().size(); ++n) {
      for (const ValueId input : graph_.nodes()[n].inputs) {
        if (is_interior_[as_size(input.index)] && segment_of(input) == segment) {
          wanted[as_size(input.index)] = true;
        }
      }
    }
    std::vector<Step> steps;
    for (size_t n = reader; n-- > 0;) {
      if (segment_[n] != segment) continue;
      const Node& node = graph_.nodes()[n];
      const bool is_wanted = std::ranges::any_of(
          node.outputs, [&](ValueId output) { return wanted[as_size(output.index)]; });
      if (!is_wanted) continue;
      steps.push_back(compute_step(n));
      for (const ValueId input : node.inputs) {
        if (is_interior_[as_size(input.index)]) wanted[as_size(input.index)] = true;
      }
    }
    plan.steps.insert(plan.steps.end(), steps.rbegin(), steps.rend());
  }

  const Problem& problem_;
  const Graph& graph_;
  int count_;
  std::vector<int> segment_;          // Per node; -1: not forward.
  std::vector<bool> is_interior_;     // Per value: forgotten and made again.
  std::vector<size_t> first_change_;  // Per state source: the first node that writes it.
  std::vector<size_t> last_reader_;   // Per segment: the last node after the forward pass that
                                      // reads one of its values.
};

int root_of(size_t units) {
  return static_cast<int>(std::lround(std::sqrt(static_cast<double>(units))));
}

// Numbers of segments worth trying: all up to kMaxTried, and one per unit.
std::vector<int> segment_counts(const Graph& graph) {
  const size_t units = forward_units(graph).size();
  std::vector<int> counts;
  for (size_t k = 1; k <= std::min(units, kMaxTried); ++k) counts.push_back(static_cast<int>(k));
  if (units > kMaxTried) {
    const int root = root_of(units);
    if (static_cast<size_t>(root) > kMaxTried) counts.push_back(root);
    counts.push_back(static_cast<int>(units));
  }
  return counts;
}

// The fastest of the plans whose placed arena fits.
PolicyResult fastest_that_fits(const Problem& problem, std::vector<Plan> plans,
                               const PlanOptions& options) {
  std::vector<std::pair<double, size_t>> by_time;
  for (size_t i = 0; i < plans.size(); ++i) {
    by_time.emplace_back(computing_seconds(problem, plans[i]), i);
  }
  std::ranges::sort(by_time);
  PolicyResult result{
      .bound_s = std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0),
      .space = "heuristic",
      .solver = "none"};
  for (const auto& [seconds, i] : by_time) {
    if (!is_within(replay(problem, plans[i]).peak, problem.budget)) continue;
    const BytesPerTier bytes = placed_bytes(problem, plans[i], {.effort = options.place_effort});
    if (!is_within(bytes, problem.budget)) continue;
    result.status = Status::feasible;
    result.plan = std::move(plans[i]);
    break;
  }
  return result;
}

}  // namespace

Plan chen_plan(const Problem& problem, int segments) {
  return segments <= 1 ? keep_all_plan(problem) : Segmenting(problem, segments).plan();
}

std::vector<Plan> smallest_chen(const Problem& problem, const PlanOptions& /*options*/) {
  std::vector<Plan> plans;
  for (const int count : segment_counts(*problem.graph)) {
    plans.push_back(chen_plan(problem, count));
  }
  if (plans.empty()) plans.push_back(keep_all_plan(problem));
  return plans;
}

PolicyResult plan_chen(const Problem& problem, const PlanOptions& options) {
  return fastest_that_fits(problem, smallest_chen(problem, options), options);
}

std::vector<Plan> smallest_chen_sqrt(const Problem& problem, const PlanOptions& /*options*/) {
  return {keep_all_plan(problem),
          chen_plan(problem, root_of(forward_units(*problem.graph).size()))};
}

PolicyResult plan_chen_sqrt(const Problem& problem, const PlanOptions& options) {
  return fastest_that_fits(problem, smallest_chen_sqrt(problem, options), options);
}

}  // namespace olm2
