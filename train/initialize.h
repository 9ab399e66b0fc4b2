// How parameters start: a function of (seed, parameter name, element), whatever the plan.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "models/model.h"

namespace olm2 {

// Normal numbers by the Box-Muller transform of counter-based uniforms, two per counter.
// Source: Box and Muller 1958.
void initialize(std::span<float> parameter, const ParameterInit& init, uint64_t seed,
                std::string_view name);

}  // namespace olm2
