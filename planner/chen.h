// Policies `chen` and `chen-sqrt`: sublinear memory by segments (Chen et al. 2016, "Training Deep
// Nets with Sublinear Memory Cost", algorithm 1 and section 4.3).
//
// The forward pass is cut into segments.  What a segment hands on to later segments is kept; what
// only it and the backward pass read is forgotten after the forward pass and made again, in forward
// order, just before the first backward node that reads it.  The last segment is followed by its
// backward pass at once and is not made again.  A segment is a run of whole layers (Node::scope),
// or of about n/k nodes where a graph has no scopes.
#pragma once

#include "planner/planner.h"

namespace olm2 {

// The plan of `segments` segments (1: keep everything).
Plan chen_plan(const Problem& problem, int segments);

// Tries every number of segments up to 64, sqrt(n) and one per layer among them; the fastest plan
// whose placed arena fits wins.
PolicyResult plan_chen(const Problem& problem, const PlanOptions& options);
// All plans tried.
std::vector<Plan> smallest_chen(const Problem& problem, const PlanOptions& options);

// The paper's rule of thumb alone: sqrt(n) segments of n layers, whatever the budget.
PolicyResult plan_chen_sqrt(const Problem& problem, const PlanOptions& options);
std::vector<Plan> smallest_chen_sqrt(const Problem& problem, const PlanOptions& options);

}  // namespace olm2
