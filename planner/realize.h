// A plan with addresses: what it really takes and how long it lasts.
#pragma once

#include "planner/planner.h"

namespace olm2 {

struct Realized {
  Plan plan;
  Schedule schedule;   // Placed, with waits; not checked.
  double seconds = 0;  // Simulated.
};

// lower, place, add_waits, simulate.
Realized realize(const Problem& problem, const Plan& plan);

// Bytes of the placed arenas, without waits and times.
BytesPerTier placed_bytes(const Problem& problem, const Plan& plan);

bool is_within(const BytesPerTier& bytes, const BytesPerTier& budget);

}  // namespace olm2
