// Appends AdamW to a graph: global norm, then one node per parameter.
#pragma once

#include <span>
#include <string>

#include "core/graph.h"
#include "models/model.h"
#include "ops/ops.h"

namespace olm2 {

// Names of the state that belongs to a parameter.
std::string gradient_name(std::string_view parameter);       // "wte.weight.grad"
std::string first_moment_name(std::string_view parameter);   // "wte.weight.m"
std::string second_moment_name(std::string_view parameter);  // "wte.weight.v"

// Declares the gradient source of every parameter (what differentiate stores gradients at).
void declare_gradients(Graph& graph, std::span<const Parameter> parameters);

// Declares the moments and appends the update, reading each gradient's newest version and the
// input "rates" f32 (3) = {learning rate, 1 - beta1^t, 1 - beta2^t}.  Weight decay touches only
// parameters of two or more dimensions.  Returns the gradients' global norm, before clipping.
ValueId add_optimizer(Graph& graph, std::span<const Parameter> parameters, const AdamW& options);

}  // namespace olm2
