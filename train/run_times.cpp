#include "train/run_times.h"

#include <algorithm>
#include <set>

#include "core/op.h"

namespace olm2 {
namespace {

constexpr double kLowPercentile = 0.1;
constexpr double kBeside = 0.5;  // Of a kernel's time, to count as slowed down by a copy.

double at_percentile(std::vector<double> numbers, double percentile) {
  std::ranges::sort(numbers);
  const auto last = static_cast<double>(numbers.size() - 1);
  return numbers[static_cast<size_t>(percentile * last)];
}

double median(std::vector<double> numbers) {
  return at_percentile(std::move(numbers), 0.5);
}

struct Interval {
  double begin = 0;
  double end = 0;
};

// Seconds that `what` shares with sorted intervals that do not overlap.
double shared_seconds(const Interval& what, const std::vector<Interval>& others) {
  double seconds = 0;
  auto other = std::ranges::lower_bound(others, what.begin, {}, &Interval::end);
  for (; other != others.end() && other->begin < what.end; ++other) {
    seconds += std::min(what.end, other->end) - std::max(what.begin, other->begin);
  }
  return seconds;
}

}  // namespace

void RunTimes::add(const Graph& graph, const Schedule& schedule,
                   std::span<const TraceEvent> events) {
  std::array<std::vector<Interval>, kLaneCount> copies;
  const auto instruction_of = [&](const TraceEvent& event) -> const Instruction& {
    return schedule.instructions.at(static_cast<size_t>(event.instruction));
  };
  for (const TraceEvent& event : events) {
    const Instruction& instruction = instruction_of(event);
    if (instruction.kind != Instruction::Kind::copy) continue;
    copies[index_of(instruction.lane)].push_back({event.start_s, event.end_s});
    const auto bytes = static_cast<double>(instruction.reads.at(0).pieces.at(0).range.bytes());
    const double seconds = event.end_s - event.start_s;
    if (seconds > 0) rates_[index_of(instruction.lane)].push_back(bytes / seconds);
  }
  std::set<NodeId> ran;
  for (std::vector<Interval>& lane : copies) std::ranges::sort(lane, {}, &Interval::begin);
  for (const TraceEvent& event : events) {
    const Instruction& instruction = instruction_of(event);
    if (instruction.kind != Instruction::Kind::compute) continue;
    const Interval time{event.start_s, event.end_s};
    const double seconds = time.end - time.begin;
    KernelRun run{.seconds = seconds, .is_again = !ran.insert(instruction.node).second};
    if (seconds > 0) {
      run.beside_out = shared_seconds(time, copies[index_of(Lane::device_to_host)]) / seconds;
      run.beside_in = shared_seconds(time, copies[index_of(Lane::host_to_device)]) / seconds;
    }
    kernels_[signature(graph, graph.node(instruction.node))].push_back(run);
  }
}

Profile RunTimes::profile(Profile estimate) const {
  estimate.source = "measured";
  for (const auto& [key, runs] : kernels_) {
    KernelProfile& kernel = estimate.kernels[key];
    const double ratio = kernel.seconds > 0 ? kernel.cold_seconds / kernel.seconds : 1;
    kernel.seconds = usual_seconds(runs, false, kernel.seconds);
    const double again = usual_seconds(runs, true, kernel.seconds * ratio);
    kernel.cold_seconds = std::max(kernel.seconds, again);
  }
  fill_link(Lane::device_to_host, estimate.device_to_host);
  fill_link(Lane::host_to_device, estimate.host_to_device);
  return estimate;
}

double RunTimes::usual_seconds(std::span<const KernelRun> runs, bool is_again, double otherwise) {
  std::vector<double> alone;
  std::vector<double> all;
  for (const KernelRun& run : runs) {
    if (run.is_again != is_again) continue;
    all.push_back(run.seconds);
    if (run.beside_out + run.beside_in == 0) alone.push_back(run.seconds);
  }
  if (all.empty()) return otherwise;
  return median(alone.empty() ? all : alone);
}

void RunTimes::fill_link(Lane lane, LinkProfile& link) const {
  const std::vector<double>& rates = rates_[index_of(lane)];
  if (rates.empty()) {
    link = {};
    return;
  }
  link = {.bytes_per_s = at_percentile(rates, kLowPercentile),
          .latency_s = link.latency_s,
          .compute_slowdown = slowdown(lane, link.compute_slowdown)};
}

double RunTimes::slowdown(Lane lane, double otherwise) const {
  std::vector<double> factors;
  for (const auto& [key, runs] : kernels_) {
    std::array<std::vector<double>, 2> alone;  // First runs, and those again.
    for (const KernelRun& run : runs) {
      if (run.beside_out + run.beside_in == 0) alone[run.is_again].push_back(run.seconds);
    }
    for (const KernelRun& run : runs) {
      if (alone[run.is_again].empty()) continue;
      const double usual = median(alone[run.is_again]);
      const bool is_out = lane == Lane::device_to_host;
      const double mine = is_out ? run.beside_out : run.beside_in;
      const double other = is_out ? run.beside_in : run.beside_out;
      if (mine >= kBeside && other == 0 && usual > 0) factors.push_back(run.seconds / usual);
    }
  }
  return factors.empty() ? otherwise : std::max(1.0, median(factors));
}

}  // namespace olm2
