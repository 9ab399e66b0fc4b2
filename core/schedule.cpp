#include "core/schedule.h"

namespace olm2 {

bool Problem::lives_at_home(ValueId value) const {
  const Value& what = graph->value(value);
  if (!what.home.valid()) return false;
  const StateRest there = rest_of(what.home);
  if (!there.at_start) return value == what.home;
  return there.tier == Tier::device;
}

}  // namespace olm2
