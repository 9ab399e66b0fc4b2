// How little memory will do: what is proven for every plan, and what a policy reaches.
#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "core/error.h"
#include "planner/in_place.h"
#include "planner/moving_state.h"
#include "planner/planner.h"
#include "planner/realize.h"
#include "planner/smallest.h"
#include "planner/trace.h"

namespace olm2 {
namespace {

// Something on the device, for the message.
struct Occupant {
  std::string name;
  int64_t bytes = 0;
};

std::vector<std::string> as_text(std::vector<Occupant> occupants) {
  std::ranges::sort(occupants, [](const Occupant& a, const Occupant& b) {
    return std::tuple(-a.bytes, a.name) < std::tuple(-b.bytes, b.name);
  });
  std::vector<std::string> lines;
  for (const Occupant& occupant : occupants) {
    if (occupant.bytes > 0) lines.push_back(occupant.name + " " + std::to_string(occupant.bytes));
  }
  return lines;
}

Occupant state_of(const Problem& problem) {
  return {"parameters, gradients and moments", padded(problem.state_bytes, problem.alignment)};
}

int64_t sum(const std::vector<Occupant>& occupants) {
  int64_t bytes = 0;
  for (const Occupant& occupant : occupants) bytes += occupant.bytes;
  return bytes;
}

// Nodes that every plan runs: those that a result or the newest state depends on.
std::vector<bool> indispensable_nodes(const Problem& problem) {
  const Graph& graph = *problem.graph;
  std::vector<bool> is_wanted(graph.values().size(), false);
  for (const ValueId result : problem.results) is_wanted[static_cast<size_t>(result.index)] = true;
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (is_state(value.role) && !value.producer.valid()) {
      is_wanted[static_cast<size_t>(graph.newest({static_cast<int32_t>(v)}).index)] = true;
    }
  }
  std::vector<bool> result(graph.nodes().size(), false);
  for (size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    result[n] = std::ranges::any_of(
        node.outputs, [&](ValueId output) { return is_wanted[static_cast<size_t>(output.index)]; });
    if (!result[n]) continue;
    for (const ValueId input : node.inputs) is_wanted[static_cast<size_t>(input.index)] = true;
  }
  return result;
}

// What is on the device while a node runs, whatever the plan.
std::vector<Occupant> working_set(const Problem& problem, const Node& node, int64_t workspace) {
  const Graph& graph = *problem.graph;
  std::vector<Occupant> occupants = {state_of(problem)};
  const auto add = [&](ValueId value) {
    if (problem.lives_at_home(value)) return;
    occupants.push_back({graph.value(value).name, problem.padded_bytes(value)});
  };
  for (const ValueId input : std::set<ValueId>(node.inputs.begin(), node.inputs.end())) add(input);
  // An output that may lie on an input costs nothing, in the best case; an op lists the pairs that
  // exclude each other, so the most that could be in place is counted as in place.
  const std::vector<InPlace> pairs = possible_in_place(problem, node);
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    const bool may_be_free = std::ranges::any_of(
        pairs, [&](InPlace pair) { return static_cast<size_t>(pair.output) == o; });
    if (!may_be_free) add(node.outputs[o]);
  }
  occupants.push_back({"workspace of " + node.name, padded(workspace, problem.alignment)});
  return occupants;
}

// State that is on the device at the start, but not for the whole step.
bool starts_above(const Problem& problem, ValueId value) {
  const bool is_source = problem.graph->value(value).home == value;
  return is_source && problem.lives_at_home(value) && problem.rest_of(value).at_start &&
         problem.state_offset[static_cast<size_t>(value.index)] >= problem.state_bytes;
}

std::vector<Occupant> at_start(const Problem& problem) {
  std::vector<Occupant> occupants = {state_of(problem)};
  for (size_t v = 0; v < problem.graph->values().size(); ++v) {
    const Value& value = problem.graph->values()[v];
    const ValueId id{static_cast<int32_t>(v)};
    if (value.role == Role::input || starts_above(problem, id)) {
      occupants.push_back({value.name, problem.padded_bytes(id)});
    }
  }
  return occupants;
}

std::vector<Occupant> at_end(const Problem& problem) {
  std::vector<Occupant> occupants = {state_of(problem)};
  for (const ValueId result : std::set<ValueId>(problem.results.begin(), problem.results.end())) {
    const Value& value = problem.graph->value(result);
    if (problem.lives_at_home(result)) continue;
    occupants.push_back({value.name, problem.padded_bytes(result)});
  }
  return occupants;
}

// Fills in which step of a plan has the most on the device, and what that is.
void describe_peak(const Problem& problem, const Plan& plan, Minimum& minimum) {
  const PlanTrace trace = trace_plan(problem, plan);
  const int32_t peak_step = replay(problem, plan).peak_step;
  minimum.moment = "the start of the step";
  for (size_t k = static_cast<size_t>(std::max(peak_step, 0)); k < plan.steps.size(); ++k) {
    if (peak_step < 0 || plan.steps[k].kind != Step::Kind::compute) continue;
    minimum.moment = problem.graph->node(plan.steps[k].node).name;
    break;
  }
  std::vector<Occupant> occupants = {state_of(problem)};
  for (const Stay& stay : trace.stays) {
    const bool is_there = stay.tier == Tier::device && !stay.is_home && stay.begin <= peak_step &&
                          peak_step < stay.end;
    if (!is_there) continue;
    std::string name = stay.value.valid() ? problem.graph->value(stay.value).name
                                          : "workspace of " + problem.graph->node(stay.node).name;
    const bool continues = occupants.back().name == name;  // A further piece.
    if (continues) {
      occupants.back().bytes += stay.bytes;
    } else {
      occupants.push_back({std::move(name), stay.bytes});
    }
  }
  minimum.alive = as_text(std::move(occupants));
}

}  // namespace

Minimum proven_minimum(const Problem& problem) {
  Minimum minimum;
  const auto consider = [&](const std::string& moment, std::vector<Occupant> occupants) {
    const int64_t bytes = sum(occupants);
    if (bytes <= minimum.bytes && !minimum.moment.empty()) return;
    minimum.bytes = minimum.proven_bytes = bytes;
    minimum.moment = moment;
    minimum.alive = as_text(std::move(occupants));
  };
  consider("the start of the step", at_start(problem));
  consider("the end of the step", at_end(problem));
  const std::vector<bool> is_needed = indispensable_nodes(problem);
  for (size_t n = 0; n < problem.graph->nodes().size(); ++n) {
    const Node& node = problem.graph->nodes()[n];
    if (is_needed[n]) consider(node.name, working_set(problem, node, problem.workspace.at(n)));
  }
  return minimum;
}

std::optional<SmallestPlan> smallest_plan(const Problem& problem, const PlanOptions& options) {
  constexpr size_t kDevice = index_of(Tier::device);
  std::vector<Plan> plans = find_policy(options.policy).smallest(problem, options);
  std::vector<std::pair<int64_t, size_t>> by_peak;
  for (size_t i = 0; i < plans.size(); ++i) {
    by_peak.emplace_back(replay(problem, plans[i]).peak[kDevice], i);
  }
  std::ranges::sort(by_peak);
  BytesPerTier limit = problem.budget;
  limit[kDevice] = std::numeric_limits<int64_t>::max();
  std::optional<SmallestPlan> best;
  for (const auto& [peak, i] : by_peak) {
    if (best && peak >= best->device_bytes) break;  // Addresses take no less.
    const BytesPerTier bytes = placed_bytes(problem, plans[i], {.effort = options.place_effort});
    if (!is_within(bytes, limit)) continue;
    if (!best || bytes[kDevice] < best->device_bytes) {
      best = SmallestPlan{std::move(plans[i]), bytes[kDevice]};
    }
  }
  return best;
}

Minimum describe_minimum(const Problem& problem, const SmallestPlan& smallest) {
  Minimum minimum{.bytes = smallest.device_bytes,
                  .proven_bytes = proven_minimum(problem).bytes,
                  .moment = {},
                  .alive = {}};
  describe_peak(problem, smallest.plan, minimum);
  return minimum;
}

Minimum find_minimum(const Problem& problem, const PlanOptions& options) {
  if (!is_settled(problem)) return minimum_with_moving_state(problem, options);
  const std::optional<SmallestPlan> smallest = smallest_plan(problem, options);
  ensure(smallest.has_value(), "a policy without any plan");
  return describe_minimum(problem, *smallest);
}

}  // namespace olm2
