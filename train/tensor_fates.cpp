#include "train/tensor_fates.h"

#include <algorithm>

#include "core/error.h"
#include "planner/arrange.h"
#include "planner/realize.h"

namespace olm2 {
namespace {

// What a plan decides: the order of its nodes and how much of each value goes away.
Decisions decisions_in(const Problem& problem, const Plan& plan) {
  Decisions decisions;
  decisions.swapped.resize(problem.graph->values().size(), 0);
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::compute) decisions.order.push_back(step.node);
    if (step.kind != Step::Kind::copy || step.from != Tier::device) continue;
    int64_t& swapped = decisions.swapped[static_cast<size_t>(step.value.index)];
    swapped = std::min(swapped + padded(step.range.bytes(), problem.alignment),
                       problem.padded_bytes(step.value));
  }
  return decisions;
}

bool reads(const Node& node, ValueId value) {
  return std::ranges::find(node.inputs, value) != node.inputs.end();
}

// Every run of `node` but the first.
void remove_reruns(NodeId node, std::vector<NodeId>& order) {
  const auto first = std::ranges::find(order, node);
  if (first == order.end()) return;
  order.erase(std::remove(first + 1, order.end(), node), order.end());
}

// Runs the producer once more before the first node after the forward pass that reads the value.
bool add_rerun(const Graph& graph, ValueId value, std::vector<NodeId>& order) {
  const auto reader = std::ranges::find_if(order, [&](NodeId id) {
    return graph.node(id).phase != Phase::forward && reads(graph.node(id), value);
  });
  if (reader == order.end()) return false;
  order.insert(reader, graph.value(value).producer);
  return true;
}

bool has_links(const Problem& problem) {
  return problem.device_to_host.bytes_per_s > 0 && problem.host_to_device.bytes_per_s > 0;
}

// Simulated with whatever memory it takes.
OtherFate measure(const Problem& problem, const Decisions& decisions) {
  constexpr size_t kDevice = index_of(Tier::device);
  constexpr size_t kHost = index_of(Tier::host);
  Problem roomy = problem;
  const BytesPerTier least = least_bytes(problem, decisions);
  for (const size_t tier : {kDevice, kHost}) {
    roomy.budget[tier] = std::max(roomy.budget[tier], least[tier]);
  }
  const Realized realized = realize(roomy, arrange(roomy, decisions).plan);
  OtherFate result{.possible = true, .why_not = {}, .seconds = realized.seconds};
  result.excess_bytes = least[kDevice] - problem.budget[kDevice];
  result.host_excess_bytes = least[kHost] - problem.budget[kHost];

  return result;
}

}  // namespace

Fate fate_of(const Problem& problem, const Plan& plan, ValueId value) {
  const Decisions decisions = decisions_in(problem, plan);
  const NodeId producer = problem.graph->value(value).producer;
  if (std::ranges::count(decisions.order, producer) > 1) return Fate::computed_again;
  const bool is_moved = decisions.swapped[static_cast<size_t>(value.index)] > 0;
  return is_moved ? Fate::moved : Fate::kept;
}

OtherFate with_fate(const Problem& problem, const Plan& plan, ValueId value, Fate fate) {
  const Graph& graph = *problem.graph;
  Decisions decisions = decisions_in(problem, plan);
  int64_t& swapped = decisions.swapped[static_cast<size_t>(value.index)];
  if (fate != fate_of(problem, plan, value)) {
    remove_reruns(graph.value(value).producer, decisions.order);
    swapped = fate == Fate::moved ? problem.padded_bytes(value) : 0;
    if (fate == Fate::moved && !has_links(problem)) {
      return {.why_not = "there is no link to another memory (memory.host_budget is 0)"};
    }
    if (fate == Fate::computed_again && !add_rerun(graph, value, decisions.order)) {
      return {.why_not = "nobody reads it after the forward pass"};
    }
  }
  try {
    return measure(problem, decisions);
  } catch (const Error&) {
    return {.why_not = "what it is made from is gone by then"};
  }
}

}  // namespace olm2
