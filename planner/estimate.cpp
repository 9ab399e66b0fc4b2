// The roofline (Williams et al. 2009): a kernel is bound by arithmetic or by traffic.
#include <algorithm>

#include "core/op.h"
#include "planner/planner.h"

namespace olm2 {

double estimate_seconds(const Graph& graph, const Node& node, const Roofline& roofline) {
  const Cost cost = cost_of(graph, node);
  return roofline.launch_s +
         std::max(cost.flops / roofline.flops_per_s, cost.bytes / roofline.bytes_per_s);
}

}  // namespace olm2
