// Tensors that play the same part in different layers, under one name: "h.*.mlp.c_fc" for
// h.0.mlp.c_fc to h.11.mlp.c_fc.  What reports are arranged by.
#pragma once

#include <string>
#include <string_view>

#include "core/schedule.h"

namespace olm2 {

// Numbers between dots become "*".
std::string class_of_name(std::string_view name);

// What a buffer of a schedule is for: "parameters", "gradients", "optimizer moments", "inputs",
// "scratch of kernels", "gradients of activations", or the class of an activation of the forward
// pass.
std::string class_of_buffer(const Graph& graph, const Buffer& buffer);

}  // namespace olm2
