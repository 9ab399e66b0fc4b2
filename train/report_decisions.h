// What a plan does with the tensors of the forward pass, summed over those of a class.
#pragma once

#include <string>
#include <vector>

#include "planner/planner.h"

namespace olm2 {

struct ClassDecision {
  std::string name;
  int tensors = 0;
  int64_t bytes = 0;        // Of those that the backward pass or the optimizer reads ...
  int64_t kept_bytes = 0;   // ... what stays where it is until then,
  int64_t again_bytes = 0;  // ... what is made again,
  int64_t moved_bytes = 0;  // ... what waits in another tier.
  double again_s = 0;       // Computing it again.
  double copy_s = 0;        // Copying, both ways, beside the computing.
};

// Classes in the order of the graph; only what is read after the forward pass, and what is made
// again for its sake.
std::vector<ClassDecision> decisions_by_class(const Problem& problem, const Plan& plan);

}  // namespace olm2
