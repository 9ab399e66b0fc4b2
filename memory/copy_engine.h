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
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/tier.h"

namespace olm2 {

// "lane `lane` has finished its first `count` instructions of this step".
struct Event {
  Lane lane = Lane::compute;
  int32_t count = 0;
};

// Memory to be overwritten with 0xFF bytes (floating point NaN), for tests.
struct Poison {
  std::byte* target = nullptr;
  int64_t bytes = 0;
};
void apply(std::span<const Poison> poisons);

struct Copy {
  Lane lane = Lane::device_to_host;
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  int64_t bytes = 0;
  std::vector<Event> after;
  std::vector<Poison> poison_before;  // Between the waits and the copy.
  std::vector<Poison> poison_after;   // Between the copy and its announcement.
};

// When a copy moved its bytes, in seconds since its step began.
struct CopyTime {
  double start_s = 0;
  double end_s = 0;
};

struct CopyEngineOptions {
  // Bytes per second each lane is slowed down to; 0: as fast as it goes.
  std::array<double, kLaneCount> throttle{};
  // Waits a random 0..max before and after each copy, to bring out missing waits; 0: never.
  double max_delay_s = 0;
  uint64_t delay_seed = 1;
  // How a lane moves bytes; empty: memcpy.  What it throws, the step throws.
  std::array<std::function<void(const Copy&)>, kLaneCount> transfer{};
};

// Progress of all lanes within one step.  Every lane moves its own counter only; whoever fails
// opens all waits, so that nobody sleeps for ever.
class LaneProgress {
 public:
  void reset();
  // `lane` has finished `count` instructions.  Called by that lane alone, one after another.
  void announce(Lane lane, int32_t count);
  // Sleeps until the event has happened.  False if the step has failed.
  bool wait(const Event& event) const;
  void fail();
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  struct alignas(64) Counter {  // A cache line each.
    std::atomic<int32_t> count{0};
  };
  std::array<Counter, kLaneCount> counters_;
  std::atomic<bool> failed_{false};
};

// A step, on the thread that computes:
//
//   begin(program);  { wait(event) ... compute ... announce(k) } ...  finish();
//
// and abandon() instead of finish() if computing failed.  One thread uses an engine at a time.
class CopyEngine {
 public:
  using Program = std::vector<Copy>;  // The copies of one step, each lane's in order.

  // Starts one thread for every lane that copies.  The memory must outlive the engine.
  explicit CopyEngine(std::vector<Program> programs, CopyEngineOptions options = {});
  ~CopyEngine();
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  void begin(size_t program);
  // When the step began: what times() counts from.
  std::chrono::steady_clock::time_point begin_time() const { return begin_time_; }
  // The compute lane has finished its first `count` instructions.
  void announce(int32_t count) { progress_.announce(Lane::compute, count); }
  // Sleeps until all events have happened.  Throws what a lane threw.
  void wait(std::span<const Event> events);
  // Sleeps until every copy has been made.  Throws what a lane threw; the step is over either way.
  void finish();
  // Ends a step that cannot go on: lanes leave out their remaining copies.  Does nothing between
  // steps.
  void abandon() noexcept;

  // The copies of the last step of `program`, in the order of its list.
  std::span<const CopyTime> times(size_t program) const;

 private:
  struct LaneThread;
  void stop() noexcept;
  void work(LaneThread& lane);
  void run_step(LaneThread& lane);
  void run_copy(LaneThread& lane, size_t index);
  void delay(LaneThread& lane);
  void rethrow_failure();

  std::vector<Program> programs_;
  std::vector<std::vector<CopyTime>> times_;  // Per program and copy.
  CopyEngineOptions options_;
  LaneProgress progress_;
  std::vector<std::unique_ptr<LaneThread>> lanes_;

  size_t program_ = 0;
  bool in_step_ = false;
  std::chrono::steady_clock::time_point begin_time_;
  std::atomic<uint32_t> generation_{0};  // Moves when a step begins, or to stop.
  std::atomic<int32_t> busy_lanes_{0};
  std::atomic<bool> stopping_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;  // The first one of this step.
};

}  // namespace olm2
