// Steps of a plan, spelled short.
#pragma once

#include "core/schedule.h"

namespace olm2 {

inline Step compute_step(NodeId node) {
  Step step;
  step.node = node;
  return step;
}
inline Step compute_step(size_t node) {
  return compute_step(NodeId{static_cast<int32_t>(node)});
}
inline Step copy_step(ValueId value, Range range, Tier from, Tier to) {
  return {Step::Kind::copy, {}, value, range, from, to};
}
inline Step drop_step(ValueId value, Range range, Tier from = Tier::device) {
  return {Step::Kind::drop, {}, value, range, from, Tier::device};
}

}  // namespace olm2
