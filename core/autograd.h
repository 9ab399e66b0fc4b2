// Reverse-mode differentiation: graph in, longer graph out.
#pragma once

#include <span>
#include <vector>

#include "core/graph.h"

namespace olm2 {

// One value to differentiate by.
struct GradTarget {
  ValueId value = {};
  ValueId home = {};        // State source the gradient is stored at; invalid: an ordinary value.
  bool accumulate = false;  // Add to what `home` holds (a later micro batch) instead of writing it.
};

// Appends the nodes that compute seed * d(loss)/d(value) for every target, and returns those
// gradients in the same order.  Contributions of several readers are summed in the reverse order
// of the readers, each added in place where its op can.  Every partial sum of a gradient with a
// home is a version of that home.  A loss whose op makes its gradients along with it
// (OpDef::grad_with_loss) is replaced by that: it keeps its value, name and phase.
// Throws Error if the loss is not a single element, or does not depend on a target, or if an op on
// the way has no gradient.  Source: Griewank and Walther 2008, chapter 3.
std::vector<ValueId> differentiate(Graph& graph, ValueId loss, std::span<const GradTarget> targets,
                                   double seed = 1.0);

}  // namespace olm2
