// The lanes of a step, planned or measured, as Chrome's trace format, for chrome://tracing or
// Perfetto, with the bytes in use of every tier as counters.
// Source: "Trace Event Format", the Chromium project.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/schedule.h"
#include "train/executor.h"

namespace olm2 {

// The step whose instructions ran at these times; one process per program, one thread per lane.
// Every instruction has its node or value, its bytes and what it waited for.
struct TracedProgram {
  std::string name;
  const Graph* graph = nullptr;
  const Schedule* schedule = nullptr;
  std::vector<TraceEvent> events;
  double seconds = 0;
};
std::string trace_text(std::span<const TracedProgram> programs);

// As a plan says it will be.
TracedProgram planned_trace(const std::string& name, const Problem& problem,
                            const Schedule& schedule);

}  // namespace olm2
