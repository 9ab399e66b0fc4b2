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
Realized realize(const Problem& problem, const Plan& plan, const PlaceOptions& options = {});

// The plan of `placed`, which exceeds the device's budget, again and again with bytes that are on
// their way given up earlier and taken later (relieve.h): the first that fits, or the smallest.
// Each plan keeps the addresses of the one before where it can.
Realized squeeze(const Problem& problem, const Realized& placed, const PlaceOptions& options = {});

// The same for a plan that fits but whose addresses take noticeably more than its bytes, as long as
// it gets smaller and takes no more than `seconds`, or no longer than before.
Realized trim(const Problem& problem, Realized placed, double seconds,
              const PlaceOptions& options = {});

// Bytes of the placed arenas, without waits and times.
BytesPerTier placed_bytes(const Problem& problem, const Plan& plan,
                          const PlaceOptions& options = {});

bool is_within(const BytesPerTier& bytes, const BytesPerTier& budget);

}  // namespace olm2
