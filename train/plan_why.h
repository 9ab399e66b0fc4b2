// Why a plan treats a tensor as it does: its story in the plan, and what its other fates would
// cost.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "train/planning.h"

namespace olm2 {

// For people, line by line: where the tensor comes from, who reads it, what the plan does with it
// and at which addresses, and, for results of the forward pass that later nodes read, the step's
// time and memory with this one decision changed to keeping, computing again and moving, the rest
// of the plan staying as it is.

// Throws Error with near names if no program has such a tensor.
void check_tensor_name(std::span<const Problem> programs, std::string_view tensor);
std::string why(const PlannedProgram& program, std::string_view tensor);

}  // namespace olm2
