// How many bytes are in use while each instruction of a step runs, from the addresses that its
// kernels and copies are handed, and nothing else: no buffer, no life and no size of the schedule.
#pragma once

#include <span>
#include <vector>

#include "train/executor.h"
#include "train/executor_program.h"

namespace olm2 {

// A byte is in use from where it is written to where that content is read for the last time; what
// a caller is handed before and after the step is written and read there, and what he is handed at
// both ends (state) is his all the time.  Per instruction in list order; `ran` are those that did.
std::vector<BytesPerTier> measured_occupancy(const BoundProgram& program, const Arenas& arenas,
                                             std::span<const TraceEvent> ran);

}  // namespace olm2
