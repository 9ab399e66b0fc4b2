#include "memory/probe.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "memory/arena.h"
#include "memory/copy_engine.h"

namespace olm2 {
namespace {

using Clock = std::chrono::steady_clock;

// Copies that outlast any run of `compute`; those that are left are abandoned.
constexpr int kEndless = 4096;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double seconds_of(const std::function<void()>& work) {
  const Clock::time_point start = Clock::now();
  work();
  return seconds_since(start);
}

// The smallest number that at least `fraction` of the numbers do not exceed.
double percentile(std::vector<double> numbers, double fraction) {
  std::ranges::sort(numbers);
  const auto last = static_cast<double>(numbers.size() - 1);
  return numbers[static_cast<size_t>(std::clamp(fraction, 0.0, 1.0) * last)];
}
double median(const std::vector<double>& numbers) {
  return percentile(numbers, 0.5);
}

std::vector<double> seconds_of_runs(const std::function<void()>& compute, int runs) {
  compute();  // Warms caches and threads up.
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) seconds.push_back(seconds_of(compute));
  return seconds;
}

// Copies that follow each other without a pause.
CopyEngine::Program row_of_copies(Lane lane, const Arena& from, const Arena& to, int count) {
  const Copy copy{.lane = lane,
                  .source = from.at(0),
                  .target = to.at(0),
                  .bytes = from.bytes(),
                  .after = {},
                  .poison_before = {},
                  .poison_after = {}};
  return CopyEngine::Program(static_cast<size_t>(count), copy);
}

void append_bandwidths(std::span<const CopyTime> times, int64_t bytes, std::vector<double>& found) {
  for (const CopyTime& time : times) {
    if (time.end_s > time.start_s) {
      found.push_back(static_cast<double>(bytes) / (time.end_s - time.start_s));
    }
  }
}

// Computing goes on meanwhile, on all cores, as it does in a step: what a copy waits for most is a
// core.
double measure_latency(Lane lane, const std::function<void()>& compute, const Arena& from,
                       const Arena& to) {
  constexpr int kRepeats = 31;
  CopyEngine::Program one = row_of_copies(lane, from, to, 1);
  one[0].bytes = std::min<int64_t>(64, from.bytes());
  one[0].after = {{.lane = Lane::compute, .count = 1}};
  CopyEngine engine({one});
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    engine.begin(0);
    // Gives the lane the time to fall asleep, as it would beside a long instruction.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const double announced_s = seconds_since(engine.begin_time());
    engine.announce(1);
    compute();
    engine.finish();
    seconds.push_back(engine.times(0)[0].end_s - announced_s);
  }
  return median(seconds);
}

}  // namespace

LinkProfile probe_link(Lane lane, const std::function<void()>& compute,
                       const ProbeOptions& options) {
  if (options.bytes < 1 || options.copies < 1) {
    throw Error("probe: got " + std::to_string(options.copies) + " copies of " +
                std::to_string(options.bytes) + " bytes, expected at least one of each");
  }
  const Arena from(options.bytes);
  const Arena to(options.bytes);
  std::vector<double> bandwidths;

  enum : size_t { kWarmUp, kAlone, kBeside };
  CopyEngine engine({row_of_copies(lane, from, to, 2),
                     row_of_copies(lane, from, to, options.copies),
                     row_of_copies(lane, from, to, kEndless)});
  for (const size_t program : {kWarmUp, kAlone}) {
    engine.begin(program);
    engine.finish();
  }
  append_bandwidths(engine.times(kAlone), options.bytes, bandwidths);

  const double alone = median(seconds_of_runs(compute, options.copies));
  std::vector<double> beside;
  while (beside.size() < static_cast<size_t>(options.copies)) {
    engine.begin(kBeside);
    beside.push_back(seconds_of(compute));
    engine.abandon();
  }
  append_bandwidths(engine.times(kBeside), options.bytes, bandwidths);
  return {.bytes_per_s = percentile(bandwidths, options.percentile),
          .latency_s = measure_latency(lane, compute, from, to),
          .compute_slowdown = std::max(1.0, median(beside) / alone)};
}

}  // namespace olm2
