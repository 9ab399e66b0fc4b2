// Which slots of a candidate set the turn's bound leaves open.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "planner/arrange.h"
#include "planner/bound.h"
#include "planner/milp_model.h"
#include "planner/milp_slots.h"

namespace olm2 {

inline constexpr int kEverything = std::numeric_limits<int>::max();

// Nodes that the bound broke are open, with all nodes of layers closer than `radius` to theirs.
struct Stage {
  std::string_view space;
  int radius = 0;  // kEverything: the bound guides nothing.
};

struct GuidedSlots {
  std::vector<Slot> slots;
  std::vector<NodeId> at_least_once;  // More often than the mandatory slot, in several open slots.
  std::string key() const;            // Equal for equal slots.
};

class Guide {
 public:
  Guide(const Problem& problem, const TurnBound& bound);

  GuidedSlots choose(const Stage& stage, bool may_recompute) const;
  // Adds the rows of `at_least_once`.
  static void require(const GuidedSlots& guided, MilpModel& model);

 private:
  bool is_open(NodeId node, int radius) const;

  const Problem& problem_;
  std::vector<double> again_;  // Per node.
  Layers layers_;
  std::vector<int32_t> broken_layers_;
};

// Some slot must be decided otherwise than in `x`.
Row forbid(const MilpModel& model, std::span<const double> x);

// Decisions as a start for the solver: r of the slots they use, and no number for the rest.
std::vector<double> start_of(const MilpModel& model, const Decisions& decisions);

}  // namespace olm2
