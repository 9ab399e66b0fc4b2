// Copies between tiers, side by side with computing: one thread per lane, no allocation while a
// step runs.
//
// The list of copies is given once per program; a step replays it.  Each lane works through its
// copies in order: it waits until everything a copy depends on has finished, copies, and announces
// that it is done.  Progress is a counter per instruction lane (how many instructions of that lane
// have finished in this step), so that waiting for an instruction is waiting for a number.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/tier.h"

namespace olm2 {

// "lane `lane` has finished its first `count` instructions of this step".
struct Event {
  Lane lane = Lane::compute;
  int32_t count = 0;
};

struct Copy {
  Lane lane = Lane::device_to_host;
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  int64_t bytes = 0;
  std::vector<Event> after;
};

struct CopyEngineOptions {
  // Bytes per second each lane is slowed down to; 0: as fast as it goes.
  std::array<double, kLaneCount> throttle{};
  // Waits a random 0..max before and after each copy, to bring out missing waits; 0: never.
  double max_delay_s = 0;
  uint64_t delay_seed = 1;
};

}  // namespace olm2
