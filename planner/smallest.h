// The plan of a policy that needs the smallest device arena.
#pragma once

#include <optional>

#include "planner/planner.h"

namespace olm2 {

struct SmallestPlan {
  Plan plan;
  int64_t device_bytes = 0;  // Placed.
};

// Empty if none of the policy's smallest plans fits the other tiers.
std::optional<SmallestPlan> smallest_plan(const Problem& problem, const PlanOptions& options);

// Bytes, binding node and what is alive there.
Minimum describe_minimum(const Problem& problem, const SmallestPlan& smallest);

// No plan: says why, and what would do.  Fills in status and message.  `is_impossible`: it is
// proven that no plan of any kind fits.
void refuse(const Problem& problem, const std::optional<SmallestPlan>& smallest, bool is_impossible,
            Certificate& certificate);

}  // namespace olm2
