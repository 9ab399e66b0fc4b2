// Which instructions of a schedule are finished before which others start, whatever the speed of
// the lanes: proven from lane order and waits alone, by vector clocks.
// Source: Mattern 1989, "Virtual time and global states of distributed systems".
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/schedule.h"

namespace olm2 {

// Per lane, how many of its instructions have finished.  The last entry counts the two acts of the
// world outside: filling memory before the step, and reading it afterwards.
inline constexpr size_t kClockCount = kLaneCount + 1;
using VectorClock = std::array<int32_t, kClockCount>;

// Moments are instructions by index; -1 is the start of the step, instructions.size() its end.
class HappensBefore {
 public:
  // Throws Error naming an instruction that waits for anything but an earlier one.
  explicit HappensBefore(const Schedule& schedule);

  int32_t start() const { return -1; }
  int32_t end() const { return static_cast<int32_t>(events_.size()) - 2; }
  // `a` has finished whenever `b` starts.  False for a == b.
  bool precedes(int32_t a, int32_t b) const {
    return event(a).position < event(b).before[event(a).lane];
  }

 private:
  friend class TimeSpan;
  struct Event {
    size_t lane = 0;
    int32_t position = 0;  // Within its lane.
    VectorClock before{};  // What has finished whenever it starts.
  };
  const Event& event(int32_t moment) const { return events_[static_cast<size_t>(moment + 1)]; }
  std::vector<Event> events_;
};

// All moments at which something is used.
class TimeSpan {
 public:
  void include(const HappensBefore& order, int32_t moment);
  // Every moment of this one precedes every moment of `other`.
  bool precedes(const TimeSpan& other) const;

 private:
  VectorClock needed_{};             // What must have finished for all of this to be over.
  VectorClock given_ = unreached();  // What has finished before any of this starts.
  static VectorClock unreached();
};

}  // namespace olm2
