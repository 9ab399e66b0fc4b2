// How many bytes of every tier are in use when.
//
// A buffer is in use from the start of the first instruction that touches it to the end of the
// last one; what is there before the step or after it touches its buffer then, too, so state is in
// use all the time.  The same is counted from addresses while a step runs (train/executor.h), and
// must agree.
#pragma once

#include <span>
#include <vector>

#include "planner/planner.h"

namespace olm2 {

// Instructions [first, last], in list order, that touch a buffer; -1: before the step;
// instructions.size(): after it.
struct BufferUse {
  int32_t first = -1;
  int32_t last = -1;
  bool is_used = false;
};
std::vector<BufferUse> uses_of_buffers(const Schedule& schedule);

// Per instruction, in list order: the bytes in use while it runs.
std::vector<BytesPerTier> occupancy_per_instruction(const Schedule& schedule);

// When a buffer is in use, in seconds since the step began.
struct BufferSpan {
  BufferId buffer;
  double begin_s = 0;
  double end_s = 0;
};

// In the order of the buffers, those that are never touched left out.  `start_s` and `end_s` are
// per instruction: simulated or measured.
std::vector<BufferSpan> buffer_spans(const Schedule& schedule, std::span<const double> start_s,
                                     std::span<const double> end_s, double seconds);

// Bytes in use from `time_s` until the next entry.
struct OccupancyChange {
  double time_s = 0;
  BytesPerTier bytes{};
};

// In the order of time, one entry per moment at which anything changes.  Never more than the
// arenas: buffers that share bytes are never in use at the same time.
std::vector<OccupancyChange> occupancy_over_time(const Schedule& schedule,
                                                 std::span<const BufferSpan> spans);

}  // namespace olm2
