// The lanes of a measured step as Chrome's trace format, for chrome://tracing or Perfetto.
#pragma once

#include <filesystem>
#include <span>

#include "core/schedule.h"
#include "train/executor.h"

namespace olm2 {

// Writes the step whose instructions ran at these times.  One row per lane; every instruction has
// its node or value, its bytes and what it waited for.
void write_trace(const std::filesystem::path& file, const Graph& graph, const Schedule& schedule,
                 std::span<const TraceEvent> events);

}  // namespace olm2
