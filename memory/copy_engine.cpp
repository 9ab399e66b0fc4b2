#include "memory/copy_engine.h"

#include <cstring>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "core/error.h"

namespace olm2 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kOpen = std::numeric_limits<int32_t>::max();

// A wait that lasts less than a wake-up is cheaper spun; longer ones must leave the core to others.
constexpr int kSpins = 200;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Asks the scheduler for short turns that come soon: a lane that wakes beside computing on every
// core otherwise waits for the rest of a core's turn, some milliseconds.  Linux 6.12 and later know
// the request (sched_setattr(2): sched_runtime of ordinary threads); elsewhere nothing changes.
void ask_for_short_turns() {
#if defined(__linux__) && defined(SYS_sched_setattr)
  struct {
    uint32_t size = 48;
    uint32_t policy = SCHED_OTHER;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime_ns = 100'000;  // The shortest that is granted.
    uint64_t deadline_ns = 0;
    uint64_t period_ns = 0;
  } attributes;
  static_assert(sizeof(attributes) == 48);
  attributes.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
  syscall(SYS_sched_setattr, 0, &attributes, 0U);
#endif
}

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The next of a row of well-mixed numbers.  Source: Steele et al. 2014, SplitMix64.
uint64_t next_random(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

}  // namespace

void apply(std::span<const Poison> poisons) {
  for (const Poison& poison : poisons) {
    std::memset(poison.target, 0xff, static_cast<size_t>(poison.bytes));
  }
}

// --- LaneProgress ------------------------------------------------------------------------------

void LaneProgress::reset() {
  failed_.store(false, std::memory_order_relaxed);
  for (Counter& counter : counters_) counter.count.store(0, std::memory_order_relaxed);
}

void LaneProgress::announce(Lane lane, int32_t count) {
  std::atomic<int32_t>& counter = counters_[index_of(lane)].count;
  // Must not close again what fail() opened.
  int32_t before = count - 1;
  const bool moved = counter.compare_exchange_strong(before, count);
  ensure(moved || before == kOpen, "a lane announced out of order");
  counter.notify_all();
}

bool LaneProgress::wait(const Event& event) const {
  const std::atomic<int32_t>& counter = counters_[index_of(event.lane)].count;
  int32_t seen = counter.load(std::memory_order_acquire);
  for (int spin = 0; seen < event.count && spin < kSpins; ++spin) {
    pause();
    seen = counter.load(std::memory_order_acquire);
  }
  while (seen < event.count) {
    counter.wait(seen, std::memory_order_acquire);
    seen = counter.load(std::memory_order_acquire);
  }
  return !has_failed();
}

void LaneProgress::fail() {
  failed_.store(true, std::memory_order_release);
  for (Counter& counter : counters_) {
    counter.count.store(kOpen);
    counter.count.notify_all();
  }
}

// --- CopyEngine --------------------------------------------------------------------------------

struct CopyEngine::LaneThread {
  Lane lane = Lane::device_to_host;
  std::vector<std::vector<size_t>> copies;  // Per program: indices of this lane's.
  uint64_t random = 0;
  std::thread thread;
};

CopyEngine::CopyEngine(std::vector<Program> programs, CopyEngineOptions options)
    : programs_(std::move(programs)), options_(std::move(options)) {
  for (const Program& program : programs_) times_.emplace_back(program.size());
  for (size_t i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    auto thread = std::make_unique<LaneThread>();
    thread->lane = lane;
    thread->random = options_.delay_seed + i;
    bool is_used = false;
    for (const Program& program : programs_) {
      std::vector<size_t>& copies = thread->copies.emplace_back();
      for (size_t k = 0; k < program.size(); ++k) {
        if (program[k].lane == lane) copies.push_back(k);
      }
      is_used |= !copies.empty();
    }
    ensure(!is_used || lane != Lane::compute, "a copy on the compute lane");
    if (is_used) lanes_.push_back(std::move(thread));
  }
  try {
    for (const auto& lane : lanes_) {
      lane->thread = std::thread([this, thread = lane.get()] { work(*thread); });
    }
  } catch (const std::system_error& error) {
    stop();
    throw Error(std::string("copy engine: no thread for a lane: ") + error.what());
  }
}

CopyEngine::~CopyEngine() {
  abandon();
  stop();
}

void CopyEngine::stop() noexcept {
  stopping_ = true;
  ++generation_;
  generation_.notify_all();
  for (const auto& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
  }
}

void CopyEngine::begin(size_t program) {
  ensure(!in_step_, "a step began before the last one was over");
  ensure(program < programs_.size(), "a program the copy engine does not have");
  in_step_ = true;
  program_ = program;
  failure_ = nullptr;
  progress_.reset();
  begin_time_ = Clock::now();
  busy_lanes_ = static_cast<int32_t>(lanes_.size());
  ++generation_;  // Publishes all of the above.
  generation_.notify_all();
}

void CopyEngine::wait(std::span<const Event> events) {
  for (const Event& event : events) {
    if (!progress_.wait(event)) rethrow_failure();
  }
}

void CopyEngine::finish() {
  for (int32_t busy = busy_lanes_; busy != 0; busy = busy_lanes_) busy_lanes_.wait(busy);
  in_step_ = false;
  if (progress_.has_failed()) rethrow_failure();
}

void CopyEngine::abandon() noexcept {
  if (!in_step_) return;
  progress_.fail();
  for (int32_t busy = busy_lanes_; busy != 0; busy = busy_lanes_) busy_lanes_.wait(busy);
  in_step_ = false;
}

std::span<const CopyTime> CopyEngine::times(size_t program) const {
  return times_.at(program);
}

void CopyEngine::rethrow_failure() {
  const std::lock_guard lock(failure_mutex_);
  ensure(failure_ != nullptr, "a step failed without a reason");
  std::rethrow_exception(failure_);
}

void CopyEngine::work(LaneThread& lane) {
  ask_for_short_turns();
  for (uint32_t seen = 0;;) {
    generation_.wait(seen);
    seen = generation_;
    if (stopping_) return;
    try {
      run_step(lane);
    } catch (...) {
      {
        const std::lock_guard lock(failure_mutex_);
        if (failure_ == nullptr) failure_ = std::current_exception();
      }
      progress_.fail();
    }
    --busy_lanes_;
    busy_lanes_.notify_all();
  }
}

void CopyEngine::run_step(LaneThread& lane) {
  int32_t done = 0;
  for (const size_t index : lane.copies[program_]) {
    for (const Event& event : programs_[program_][index].after) {
      if (!progress_.wait(event)) return;
    }
    if (progress_.has_failed()) return;
    run_copy(lane, index);
    progress_.announce(lane.lane, ++done);
  }
}

void CopyEngine::run_copy(LaneThread& lane, size_t index) {
  const Copy& copy = programs_[program_][index];
  CopyTime& time = times_[program_][index];
  apply(copy.poison_before);
  delay(lane);
  const Clock::time_point start = Clock::now();
  time.start_s = seconds_since(begin_time_);
  if (const auto& transfer = options_.transfer[index_of(lane.lane)]) {
    transfer(copy);
  } else {
    std::memcpy(copy.target, copy.source, static_cast<size_t>(copy.bytes));
  }
  if (const double throttle = options_.throttle[index_of(lane.lane)]; throttle > 0) {
    std::this_thread::sleep_until(start + duration_of(static_cast<double>(copy.bytes) / throttle));
  }
  time.end_s = seconds_since(begin_time_);
  delay(lane);
  apply(copy.poison_after);
}

void CopyEngine::delay(LaneThread& lane) {
  if (options_.max_delay_s <= 0) return;
  const double fraction = static_cast<double>(next_random(lane.random) >> 11) * 0x1p-53;
  std::this_thread::sleep_for(duration_of(fraction * options_.max_delay_s));
}

}  // namespace olm2
