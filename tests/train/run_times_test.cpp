// What is learned from traces that are written by hand.
#include "train/run_times.h"

#include <gtest/gtest.h>

#include "core/op.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

// Two equal kernels, another one, and a copy out of 1000 bytes and back.
struct Traced {
  Graph graph;
  Schedule schedule;
  std::string gelu_key;
  std::string add_key;
  Traced() {
    const ValueId x = graph.add_source("x", {{250}}, Role::input);
    const ValueId a = gelu(graph, "a", x);
    const ValueId b = gelu(graph, "b", a);
    add(graph, "c", a, b);
    for (int32_t n = 0; n < 3; ++n) {
      Instruction compute;
      compute.node = {n};
      schedule.instructions.push_back(compute);
    }
    Operand piece;
    piece.value = a;
    piece.pieces = {{.buffer = {0}, .range = {0, 1000}}};
    for (const Lane lane : {Lane::device_to_host, Lane::host_to_device}) {
      Instruction copy;
      copy.kind = Instruction::Kind::copy;
      copy.lane = lane;
      copy.reads = copy.writes = {piece};
      schedule.instructions.push_back(copy);
    }
    gelu_key = signature(graph, graph.nodes()[0]);
    add_key = signature(graph, graph.nodes()[2]);
  }
};

Profile estimate() {
  Profile profile;
  profile.source = "estimated";
  profile.kernels["never run"] = {7, 70};
  profile.device_to_host =
      profile.host_to_device = {.bytes_per_s = 5, .latency_s = 0.25, .compute_slowdown = 1.5};
  return profile;
}

TEST(RunTimes, AreMediansOfRunsWithoutCopiesBeside) {
  const Traced traced;
  RunTimes times;
  // a takes 2 s alone; b takes 3 s beside the copy out; c takes 1 s; the copy in is beside nothing.
  const std::vector<TraceEvent> events = {{0, 0, 2}, {1, 2, 5}, {2, 5, 6}, {3, 2, 6}, {4, 6, 8}};
  for (int i = 0; i < 3; ++i) times.add(traced.graph, traced.schedule, events);
  const Profile profile = times.profile(estimate());
  EXPECT_EQ(profile.source, "measured");
  EXPECT_EQ(profile.kernels.at(traced.gelu_key).seconds, 2);
  EXPECT_EQ(profile.kernels.at(traced.add_key).seconds, 1);
  EXPECT_EQ(profile.kernels.at("never run").seconds, 7);
  EXPECT_EQ(profile.kernels.at("never run").workspace_bytes, 70);
  EXPECT_EQ(profile.device_to_host.bytes_per_s, 250);
  EXPECT_EQ(profile.device_to_host.compute_slowdown, 1.5);  // 3 s over 2 s.
  EXPECT_EQ(profile.host_to_device.bytes_per_s, 500);
  EXPECT_EQ(profile.host_to_device.latency_s, 0.25);
}

TEST(RunTimes, TellRunsAgainFromFirstOnes) {
  Traced traced;
  traced.schedule.instructions.push_back(traced.schedule.instructions[0]);
  Profile before = estimate();
  before.kernels[traced.gelu_key] = {.seconds = 1, .workspace_bytes = 0, .cold_seconds = 1.5};
  before.kernels[traced.add_key] = {.seconds = 2, .workspace_bytes = 0, .cold_seconds = 3};
  RunTimes times;
  // a and b take 2 s, a again 5 s; c takes 1 s and never runs again.
  times.add(traced.graph, traced.schedule,
            std::vector<TraceEvent>{{0, 0, 2}, {1, 2, 4}, {2, 4, 5}, {5, 5, 10}});
  const Profile profile = times.profile(before);
  EXPECT_EQ(profile.kernels.at(traced.gelu_key).seconds, 2);
  EXPECT_EQ(profile.kernels.at(traced.gelu_key).cold_seconds, 5);
  EXPECT_EQ(profile.kernels.at(traced.add_key).seconds, 1);
  EXPECT_EQ(profile.kernels.at(traced.add_key).cold_seconds, 1.5);
}

TEST(RunTimes, SlowdownIsThatOfTheLinkThatWasBusy) {
  const Traced traced;
  RunTimes times;
  // b beside the copy in takes thrice a's time; the copy out is beside nothing: as estimated.
  times.add(traced.graph, traced.schedule,
            std::vector<TraceEvent>{{0, 0, 2}, {1, 2, 8}, {2, 8, 9}, {3, 9, 10}, {4, 2, 8}});
  Profile other = estimate();
  other.device_to_host.compute_slowdown = 1.25;
  const Profile profile = times.profile(other);
  EXPECT_EQ(profile.host_to_device.compute_slowdown, 3);
  EXPECT_EQ(profile.device_to_host.compute_slowdown, 1.25);
}

TEST(RunTimes, ALinkWithoutCopiesIsNotKnown) {
  const Traced traced;
  RunTimes times;
  times.add(traced.graph, traced.schedule,
            std::vector<TraceEvent>{{0, 0, 2}, {1, 2, 3}, {2, 3, 4}});
  const Profile profile = times.profile(estimate());
  EXPECT_EQ(profile.device_to_host.bytes_per_s, 0);
  EXPECT_EQ(profile.host_to_device.bytes_per_s, 0);
}

}  // namespace
}  // namespace olm2
