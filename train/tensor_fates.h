// A plan with another decision about one tensor.
#pragma once

#include <optional>
#include <string>

#include "planner/planner.h"

namespace olm2 {

enum class Fate : uint8_t { kept, computed_again, moved };

// What the plan does with a value; a value that is made again counts as that.
Fate fate_of(const Problem& problem, const Plan& plan, ValueId value);

// The step if the value had another fate and all else stayed.
struct OtherFate {
  bool possible = false;
  std::string why_not = {};  // Where it is impossible.
  double seconds = 0;        // Simulated; with as much memory as it needs.
  // What it needs over the budgets, gaps between addresses left out; at most 0: it fits.
  int64_t excess_bytes = 0;
  int64_t host_excess_bytes = 0;
};
OtherFate with_fate(const Problem& problem, const Plan& plan, ValueId value, Fate fate);

}  // namespace olm2
