#include "core/happens_before.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/error.h"

namespace olm2 {
namespace {

constexpr size_t kOutside = kLaneCount;

}  // namespace

HappensBefore::HappensBefore(const Schedule& schedule) {
  events_.reserve(schedule.instructions.size() + 2);
  events_.push_back({.lane = kOutside, .position = 0, .before = {}});

  std::array<VectorClock, kLaneCount> newest{};  // Per lane: what the next instruction can rely on.
  for (VectorClock& clock : newest) clock[kOutside] = 1;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    const size_t lane = index_of(instruction.lane);
    if (lane >= kLaneCount) {
      throw Error("check: instruction " + std::to_string(i) + ": there is no lane " +
                  std::to_string(lane));
    }
    VectorClock clock = newest[lane];
    for (const int32_t wait : instruction.waits) {
      if (wait < 0 || static_cast<size_t>(wait) >= i) {
        throw Error("check: instruction " + std::to_string(i) + " waits for instruction " +
                    std::to_string(wait) + ", expected an earlier one");
      }
      const Event& other = event(wait);
      for (size_t k = 0; k < kClockCount; ++k) clock[k] = std::max(clock[k], other.before[k]);
      clock[other.lane] = std::max(clock[other.lane], other.position + 1);
    }
    events_.push_back({.lane = lane, .position = clock[lane], .before = clock});
    newest[lane] = clock;
    ++newest[lane][lane];
  }

  VectorClock all{};
  for (size_t lane = 0; lane < kLaneCount; ++lane) all[lane] = newest[lane][lane];
  all[kOutside] = 1;
  events_.push_back({.lane = kOutside, .position = 1, .before = all});
}

VectorClock TimeSpan::unreached() {
  VectorClock clock{};
  clock.fill(std::numeric_limits<int32_t>::max());
  return clock;
}

void TimeSpan::include(const HappensBefore& order, int32_t moment) {
  const HappensBefore::Event& event = order.event(moment);
  needed_[event.lane] = std::max(needed_[event.lane], event.position + 1);
  for (size_t k = 0; k < kClockCount; ++k) given_[k] = std::min(given_[k], event.before[k]);
}

bool TimeSpan::precedes(const TimeSpan& other) const {
  for (size_t k = 0; k < kClockCount; ++k) {
    if (needed_[k] > other.given_[k]) return false;
  }
  return true;
}

}  // namespace olm2
