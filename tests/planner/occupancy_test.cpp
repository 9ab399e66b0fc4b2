#include "planner/occupancy.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "planner/steps.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

struct Case {
  toy::Training toy;
  Problem problem;
  Schedule schedule;
  explicit Case(uint64_t seed)
      : toy(toy::training(3, seed)), problem(toy::problem_of(toy.graph, toy.results)) {
    problem.device_to_host.compute_slowdown = problem.host_to_device.compute_slowdown = 1.25;
    schedule = lower(problem, with_earliest_drops(problem, toy::random_plan(problem, seed)));
    place(problem, schedule);
    add_waits(problem, schedule);
  }
};

BytesPerTier peak_of(const std::vector<OccupancyChange>& changes) {
  BytesPerTier peak{};
  for (const OccupancyChange& change : changes) {
    for (size_t t = 0; t < kTierCount; ++t) peak[t] = std::max(peak[t], change.bytes[t]);
  }
  return peak;
}

TEST(Occupancy, NeverExceedsTheArenasAndUsesThemAll) {
  int64_t most_host = 0;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const Case c(seed);
    const Simulation simulation = simulate(c.problem, c.schedule);
    const std::vector<BufferSpan> spans =
        buffer_spans(c.schedule, simulation.start_s, simulation.end_s, simulation.seconds);
    const BytesPerTier peak = peak_of(occupancy_over_time(c.schedule, spans));
    for (size_t t = 0; t < kTierCount; ++t) EXPECT_LE(peak[t], c.schedule.arena[t]) << seed;
    EXPECT_GE(peak[0], c.problem.state_bytes);
    most_host = std::max(most_host, peak[index_of(Tier::host)]);
  }
  EXPECT_GT(most_host, 0);
}

TEST(Occupancy, IsNothingBeforeAndAfterAndChangesOnlyForward) {
  const Case c(3);
  const Simulation simulation = simulate(c.problem, c.schedule);
  const std::vector<OccupancyChange> changes = occupancy_over_time(
      c.schedule,
      buffer_spans(c.schedule, simulation.start_s, simulation.end_s, simulation.seconds));
  EXPECT_EQ(changes.front().time_s, 0);
  EXPECT_EQ(changes.back().time_s, simulation.seconds);
  EXPECT_EQ(changes.back().bytes, BytesPerTier{}) << "the span of everything ends with the step";
  EXPECT_TRUE(std::ranges::is_sorted(changes, std::ranges::less_equal{}, &OccupancyChange::time_s));
}

// One instruction after another: then the two ways of counting are one.
TEST(Occupancy, OverTimeAgreesWithTheOnePerInstruction) {
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const Case c(seed);
    std::vector<double> start(c.schedule.instructions.size());
    std::iota(start.begin(), start.end(), 1.0);
    std::vector<double> end = start;
    for (double& moment : end) moment += 0.5;
    const std::vector<OccupancyChange> changes = occupancy_over_time(
        c.schedule, buffer_spans(c.schedule, start, end, static_cast<double>(start.size() + 1)));
    const std::vector<BytesPerTier> per_instruction = occupancy_per_instruction(c.schedule);
    ASSERT_EQ(per_instruction.size(), start.size());
    for (size_t i = 0; i < start.size(); ++i) {
      const auto next = std::ranges::upper_bound(changes, start[i], {}, &OccupancyChange::time_s);
      EXPECT_EQ(std::prev(next)->bytes, per_instruction[i]) << seed << " " << i;
    }
  }
}

TEST(Simulate, AccountsForEverySecondOfTheComputeLane) {
  int data = 0;
  int space = 0;
  int end = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Case c(seed);
    const Simulation s = simulate(c.problem, c.schedule);
    double total = s.busy_s[index_of(Lane::compute)];
    double before_instructions = 0;
    for (const Stall& stall : s.stalls) {
      EXPECT_LT(stall.begin_s, stall.end_s);
      EXPECT_DOUBLE_EQ(s.end_s.at(static_cast<size_t>(stall.blocker)), stall.end_s);
      if (stall.instruction >= 0) {
        EXPECT_EQ(s.start_s[static_cast<size_t>(stall.instruction)], stall.end_s);
      }
      if (stall.lane != Lane::compute) continue;
      total += stall.end_s - stall.begin_s;
      if (stall.instruction >= 0) before_instructions += stall.end_s - stall.begin_s;
      data += stall.cause == StallCause::data ? 1 : 0;
      space += stall.cause == StallCause::space ? 1 : 0;
      end += stall.cause == StallCause::end ? 1 : 0;
    }
    EXPECT_NEAR(total, s.seconds, 1e-9 * s.seconds) << seed;
    EXPECT_NEAR(before_instructions, s.stall_s, 1e-9 * s.seconds) << seed;
  }
  EXPECT_GT(data, 0);
  EXPECT_GT(space, 0);
  EXPECT_GT(end, 0);
}

}  // namespace
}  // namespace olm2
