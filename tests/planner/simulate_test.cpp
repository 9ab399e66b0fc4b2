#include <algorithm>

#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/planner.h"
#include "planner/steps.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

// x -> a -> b -> c -> d(c, a), 64 bytes each, one second each; `a` travels while b and c run.
struct Travel {
  Graph graph;
  ValueId a, d;
  Problem problem;
  Travel() {
    const ValueId x = graph.add_source("x", {{16}}, Role::input);
    a = toy::add(graph, "a", {x}, 16);
    const ValueId b = toy::add(graph, "b", {a}, 16);
    const ValueId c = toy::add(graph, "c", {b}, 16);
    d = toy::add(graph, "d", {c, a}, 16);
    problem = toy::problem_of(graph, {d});
  }
  Simulation run() const {
    const Range all{0, 64};
    const Plan plan = with_earliest_drops(
        problem,
        {{compute_step(size_t{0}), compute_step(size_t{1}),
          copy_step(a, all, Tier::device, Tier::host), copy_step(a, all, Tier::host, Tier::device),
          compute_step(size_t{2}), compute_step(size_t{3})}});
    Schedule schedule = lower(problem, plan);
    place(problem, schedule);
    add_waits(problem, schedule);
    return simulate(problem, schedule);
  }
};

TEST(Simulate, HidesCopiesBehindComputing) {
  Travel travel;
  travel.problem.device_to_host.bytes_per_s = 64 / 0.25;
  travel.problem.host_to_device.bytes_per_s = 64 / 0.25;
  const Simulation simulation = travel.run();
  EXPECT_DOUBLE_EQ(simulation.seconds, 4.0);
  EXPECT_DOUBLE_EQ(simulation.stall_s, 0.0);
}

TEST(Simulate, StallsWhereACopyIsLateByLatencyAndBytes) {
  Travel travel;
  travel.problem.device_to_host = {.bytes_per_s = 64, .latency_s = 0.5, .compute_slowdown = 1};
  travel.problem.host_to_device = {.bytes_per_s = 32, .latency_s = 0, .compute_slowdown = 1};
  // a ends at 1 and leaves until 2.5, beside b; back until 4.5; d needs it then.
  const Simulation simulation = travel.run();
  EXPECT_DOUBLE_EQ(simulation.end_s[2], 2.5);
  EXPECT_DOUBLE_EQ(simulation.seconds, 5.5);
  EXPECT_DOUBLE_EQ(simulation.stall_s, 1.5);
  const auto stall = std::ranges::find(simulation.stalls, Lane::compute, &Stall::lane);
  ASSERT_NE(stall, simulation.stalls.end());
  EXPECT_EQ(stall->cause, StallCause::data) << "d reads a";
  EXPECT_EQ(stall->end_s - stall->begin_s, 1.5);
}

TEST(Simulate, SlowsComputingWhileACopyRuns) {
  Travel travel;
  travel.problem.device_to_host = {.bytes_per_s = 128, .latency_s = 0, .compute_slowdown = 2};
  travel.problem.host_to_device = {.bytes_per_s = 1e9, .latency_s = 0, .compute_slowdown = 1};
  // Half a second of copying: a quarter of a second of work is lost.
  const Simulation simulation = travel.run();
  EXPECT_NEAR(simulation.seconds, 4.25, 1e-6);
  EXPECT_NEAR(simulation.stall_s, 0.0, 1e-6) << "slower is not waiting";
}

TEST(Simulate, TakesRunsAfterTheFirstForSlower) {
  Travel travel;
  travel.problem.again_seconds = {7, 3, 7, 7};
  const Plan plan = with_earliest_drops(
      travel.problem,
      {{compute_step(size_t{0}), compute_step(size_t{1}), drop_step(ValueId{2}, {0, 64}),
        compute_step(size_t{1}), compute_step(size_t{2}), compute_step(size_t{3})}});
  Schedule schedule = lower(travel.problem, plan);
  place(travel.problem, schedule);
  add_waits(travel.problem, schedule);
  EXPECT_DOUBLE_EQ(simulate(travel.problem, schedule).seconds, 1 + 1 + 3 + 1 + 1);
}

TEST(Simulate, RefusesALinkThatDoesNotExist) {
  Travel travel;
  travel.problem.host_to_device = {};
  EXPECT_THROW(travel.run(), Error);
}

TEST(Estimate, TakesTheRoofThatIsLower) {
  Graph graph;
  const ValueId x = graph.add_source("x", {{16}}, Role::input);
  const ValueId y = toy::add(graph, "y", {x}, 16);  // 128 bytes, 16,000 FLOP
  const Node& node = graph.node(graph.value(y).producer);
  const Roofline busy{.flops_per_s = 16000, .bytes_per_s = 1e9, .launch_s = 0.5};
  const Roofline narrow{.flops_per_s = 1e9, .bytes_per_s = 64, .launch_s = 0};
  EXPECT_DOUBLE_EQ(estimate_seconds(graph, node, busy), 1.5);
  EXPECT_DOUBLE_EQ(estimate_seconds(graph, node, narrow), 2.0);
}

}  // namespace
}  // namespace olm2
