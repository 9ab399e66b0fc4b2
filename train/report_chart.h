// Drawings of one program's plan over the time of a step: bytes in use, and who works when.
#pragma once

#include <string>
#include <vector>

#include "planner/occupancy.h"
#include "train/planning.h"

namespace olm2 {

// A program with everything that is drawn of it.
struct ProgramStory {
  const Graph* graph = nullptr;
  const Problem* problem = nullptr;
  const Schedule* schedule = nullptr;
  Simulation simulation;
  std::vector<BufferSpan> spans;
};
ProgramStory story_of(const Problem& problem, const Schedule& schedule);

// What an instruction of the compute lane does in the step.
enum class Work : uint8_t { forward, again, backward, update };
// Per instruction; `again`: its node has run before.  Copies count as forward.
std::vector<Work> work_of(const ProgramStory& story);

// The x axis that the drawings share.
struct TimeAxis {
  double seconds = 0;
  double left = 64;
  double width = 880;
  double right() const { return left + width; }
  double x(double time_s) const { return seconds > 0 ? left + width * time_s / seconds : left; }
};

// Bytes in use in `tier` over time, stacked by tensor class, with the budget as a line; what is
// there all the time is a strip at the bottom whose height says nothing.  HTML with legend.
std::string memory_chart(const ProgramStory& story, Tier tier);

// One row per lane, with what it does and where it waits.  HTML with legend.
std::string lane_chart(const ProgramStory& story);

}  // namespace olm2
