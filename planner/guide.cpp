#include "planner/guide.h"

#include <algorithm>
#include <cmath>

namespace olm2 {
namespace {

constexpr double kWhole = 1e-6;  // This close to yes or no is yes or no.

size_t at(NodeId node) {
  return static_cast<size_t>(node.index);
}

// Re-executions by the mandatory slot they precede.
using Placed = std::pair<int32_t, NodeId>;

std::vector<Placed> reexecutions(const Decisions& decisions) {
  std::vector<Placed> placed;
  int32_t next = 0;
  for (const NodeId node : decisions.order) {
    if (node.index == next) {
      ++next;
    } else {
      placed.emplace_back(next, node);
    }
  }
  return placed;  // Sorted.
}

}  // namespace

std::string GuidedSlots::key() const {
  std::string text;
  for (const Slot& slot : slots) {
    text += std::to_string(slot.node.index) + (slot.optional ? "?" : " ");
  }
  return text;
}

Guide::Guide(const Problem& problem, const TurnBound& bound)
    : problem_(problem), again_(bound.again), layers_(layers_of(*problem.graph)) {
  for (size_t n = 0; n < again_.size(); ++n) {
    if (again_[n] > kWhole && again_[n] < 1 - kWhole) broken_layers_.push_back(layers_.of_node[n]);
  }
  std::ranges::sort(broken_layers_);
  broken_layers_.erase(std::unique(broken_layers_.begin(), broken_layers_.end()),
                       broken_layers_.end());
}

bool Guide::is_open(NodeId node, int radius) const {
  if (radius == kEverything) return true;
  const double again = again_[at(node)];
  if (again > kWhole && again < 1 - kWhole) return true;
  return std::ranges::any_of(broken_layers_, [&](int32_t layer) {
    return std::abs(layers_.of_node[at(node)] - layer) < radius;
  });
}

GuidedSlots Guide::choose(const Stage& stage, bool may_recompute) const {
  const std::vector<Slot> all = slots_of(problem_, stage.space, may_recompute);
  std::vector<int> offers(again_.size(), 0);
  for (const Slot& slot : all) offers[at(slot.node)] += slot.optional ? 1 : 0;
  GuidedSlots guided;
  for (const Slot& slot : all) {
    const bool is_free = slot.optional && is_open(slot.node, stage.radius);
    if (slot.optional && !is_free) {
      if (again_[at(slot.node)] <= kWhole) continue;
      if (offers[at(slot.node)] == 1) {
        guided.slots.push_back({.node = slot.node, .optional = false});
        continue;
      }
      if (std::ranges::find(guided.at_least_once, slot.node) == guided.at_least_once.end()) {
        guided.at_least_once.push_back(slot.node);
      }
    }
    guided.slots.push_back(slot);
  }
  return guided;
}

void Guide::require(const GuidedSlots& guided, MilpModel& model) {
  for (const NodeId node : guided.at_least_once) {
    Row row{.terms = {}, .lower = 1, .upper = kUnbounded};
    for (size_t s = 0; s < model.slots.size(); ++s) {
      if (model.slots[s].node != node || model.run[s] < 0) continue;
      row.terms.push_back({.column = model.run[s], .factor = 1});
    }
    model.linear.rows.push_back(std::move(row));
  }
}

Row forbid(const MilpModel& model, std::span<const double> x) {
  Row row{.terms = {}, .lower = 1, .upper = kUnbounded};
  for (const int column : model.run) {
    if (column < 0) continue;
    const bool runs = x[static_cast<size_t>(column)] > 0.5;
    row.terms.push_back({.column = column, .factor = runs ? -1.0 : 1.0});
    if (runs) row.lower -= 1;
  }
  return row;
}

std::vector<double> start_of(const MilpModel& model, const Decisions& decisions) {
  const std::vector<Placed> placed = reexecutions(decisions);
  std::vector<double> start(model.linear.columns.size(), std::numeric_limits<double>::quiet_NaN());
  int32_t next = 0;
  for (size_t s = 0; s < model.slots.size(); ++s) {
    const Slot& slot = model.slots[s];
    if (slot.node.index == next && !slot.optional) {
      ++next;
      continue;
    }
    if (model.run[s] < 0) continue;
    const bool runs = std::ranges::binary_search(placed, Placed{next, slot.node});
    start[static_cast<size_t>(model.run[s])] = runs ? 1 : 0;
  }
  for (const Swap& swap : model.swaps) {
    if (!model.linear.columns[static_cast<size_t>(swap.sent)].integer) continue;
    const bool is_sent = decisions.swapped[static_cast<size_t>(swap.value.index)] > 0;
    start[static_cast<size_t>(swap.sent)] = is_sent ? 1 : 0;
  }
  return start;
}

}  // namespace olm2
