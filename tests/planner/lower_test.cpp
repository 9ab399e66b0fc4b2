// replay, with_earliest_drops, lower and the in-place rule.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/in_place.h"
#include "planner/keep_all.h"
#include "planner/planner.h"
#include "planner/steps.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// x -> a -> b -> c, each of 16 floats (64 bytes); c is the result.
struct Chain {
  Graph graph;
  ValueId x, a, b, c;
  Problem problem;
  explicit Chain(bool in_place = false) {
    x = graph.add_source("x", {{16}}, Role::input);
    a = toy::add(graph, "a", {x}, 16, in_place);
    b = toy::add(graph, "b", {a}, 16, in_place);
    c = toy::add(graph, "c", {b}, 16, in_place);
    problem = toy::problem_of(graph, {c});
  }
};

int64_t device_peak(const Problem& problem, const Plan& plan) {
  return replay(problem, plan).peak[index_of(Tier::device)];
}

int64_t max_live_of(const Schedule& schedule, Tier tier) {
  int64_t peak = 0;
  const auto end = static_cast<int32_t>(schedule.instructions.size());
  for (int32_t i = -1; i <= end; ++i) {
    int64_t live = 0;
    for (const Buffer& buffer : schedule.buffers) {
      if (buffer.tier == tier && buffer.first <= i && i <= buffer.last) live += buffer.bytes;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

TEST(Replay, CountsWhatIsAliveAtEachStep) {
  const Chain chain;
  const Plan plan = keep_all_plan(chain.problem);
  const Occupancy occupancy = replay(chain.problem, plan);
  // compute a, drop x, compute b, drop a, compute c, drop b.
  std::vector<int64_t> device;
  for (const BytesPerTier& bytes : occupancy.per_step) device.push_back(bytes[0]);
  EXPECT_THAT(device, testing::ElementsAre(128, 64, 128, 64, 128, 64));
  EXPECT_EQ(occupancy.peak_step, 0);
}

TEST(Replay, CountsWorkspaceOnlyWhileItsNodeRuns) {
  Chain chain;
  chain.problem.workspace[1] = 65;
  const Occupancy occupancy = replay(chain.problem, keep_all_plan(chain.problem));
  EXPECT_EQ(occupancy.per_step[2][0], 128 + 128);
  EXPECT_EQ(occupancy.per_step[3][0], 64);
  EXPECT_EQ(occupancy.peak_step, 2);
}

TEST(Replay, CountsStateOnceHoweverManyVersionsItHas) {
  Graph graph;
  const ValueId w = graph.add_source("w", {{17}}, Role::parameter);
  const ValueId w1 = toy::add(graph, "w1", {w}, 17, true);
  graph.set_home(w1, w);
  const ValueId w2 = toy::add(graph, "w2", {w1}, 17, true);
  graph.set_home(w2, w);
  const Problem problem = toy::problem_of(graph, {});
  EXPECT_EQ(device_peak(problem, keep_all_plan(problem)), 128);
}

TEST(Replay, ChargesCopyTargetFromItsStepAndSourceUntilItsDrop) {
  const Chain chain;
  const Range all{0, 64};
  const Plan plan{{compute_step(size_t{0}), drop_step(chain.x, all),
                   copy_step(chain.a, all, Tier::device, Tier::host), drop_step(chain.a, all),
                   copy_step(chain.a, all, Tier::host, Tier::device),
                   drop_step(chain.a, all, Tier::host), compute_step(size_t{1}),
                   compute_step(size_t{2})}};
  const Occupancy occupancy = replay(chain.problem, plan);
  EXPECT_EQ(occupancy.per_step[2], (BytesPerTier{64, 64, 0}));
  EXPECT_EQ(occupancy.per_step[3], (BytesPerTier{0, 64, 0}));
  EXPECT_EQ(occupancy.per_step[4], (BytesPerTier{64, 64, 0}));
  EXPECT_EQ(occupancy.per_step[5], (BytesPerTier{64, 0, 0}));
}

TEST(Replay, NamesStepAndValueOfTheFirstBrokenRead) {
  const Chain chain;
  const Range all{0, 64};
  const Step a = compute_step(size_t{0});
  const Step b = compute_step(size_t{1});
  const auto run = [&](std::vector<Step> steps) { replay(chain.problem, {std::move(steps)}); };
  EXPECT_THAT([&] { run({b}); },
              ThrowsMessage<Error>(HasSubstr("step 0, compute b: needs a, which is not")));
  EXPECT_THAT(
      [&] {
        run({a, drop_step(chain.a, all), b});
      },
      ThrowsMessage<Error>(HasSubstr("step 2, compute b: needs a")));
  EXPECT_THAT([&] { run({a, a}); }, ThrowsMessage<Error>(HasSubstr("makes a, which is on the")));
  EXPECT_THAT(
      [&] {
        run({a, copy_step(chain.a, all, Tier::host, Tier::device)});
      },
      ThrowsMessage<Error>(HasSubstr("not on the host")));
  EXPECT_THAT(
      [&] {
        run({a, b});
      },
      ThrowsMessage<Error>(HasSubstr("at its end: needs c, which is not")));
  EXPECT_THAT([&] { run({drop_step(chain.b, all)}); },
              ThrowsMessage<Error>(HasSubstr("step 0, drop of b: b is not on the device")));
  EXPECT_THAT(
      [&] {
        run({a, drop_step(chain.a, {0, 32})});
      },
      ThrowsMessage<Error>(HasSubstr("multiples of 64")));
  EXPECT_THAT(
      [&] {
        run({a, copy_step(chain.a, all, Tier::device, Tier::disk)});
      },
      ThrowsMessage<Error>(HasSubstr("no link")));
}

TEST(Replay, RefusesReadOfAVersionThatWasReplaced) {
  Graph graph;
  const ValueId w = graph.add_source("w", {{1}}, Role::parameter);
  const ValueId w1 = toy::add(graph, "w1", {w}, 1, true);
  graph.set_home(w1, w);
  const ValueId late = toy::add(graph, "late", {w}, 1);
  const Problem problem = toy::problem_of(graph, {late});
  EXPECT_THAT([&] { replay(problem, keep_all_plan(problem)); },
              ThrowsMessage<Error>(HasSubstr("needs w, but w holds w1")));
}

TEST(InPlace, NeedsTheInputDroppedDirectlyAfterAndNeverSent) {
  const Chain chain(true);
  const Range all{0, 64};
  const Plan dropped = keep_all_plan(chain.problem);
  const auto choices = in_place_choices(chain.problem, dropped);
  EXPECT_TRUE(choices[0].empty()) << "an input of the graph is never written over";
  ASSERT_EQ(choices[2].size(), 1U);
  EXPECT_EQ(device_peak(chain.problem, dropped), 128);

  const Step a = compute_step(size_t{0});
  const Step b = compute_step(size_t{1});
  const Step c = compute_step(size_t{2});
  const auto used = [&](std::vector<Step> steps) {
    const Plan plan{std::move(steps)};
    size_t count = 0;
    for (const auto& pairs : in_place_choices(chain.problem, plan)) count += pairs.size();
    return count;
  };
  EXPECT_EQ(used({a, b, drop_step(chain.a, all), c}), 1U);
  EXPECT_EQ(used({a, b, c, drop_step(chain.a, all)}), 0U) << "dropped too late";
  EXPECT_EQ(
      used({a, copy_step(chain.a, all, Tier::device, Tier::host), b, drop_step(chain.a, all), c}),
      0U)
      << "a copy may still read it";
  EXPECT_EQ(
      used({a, copy_step(chain.a, all, Tier::device, Tier::host), drop_step(chain.a, all),
            copy_step(chain.a, all, Tier::host, Tier::device), b, drop_step(chain.a, all), c}),
      1U)
      << "back again, it is its own";
}

TEST(InPlace, TakesTheFirstListedPairAndEachInputOnce) {
  Graph graph;
  const ValueId x = graph.add_source("x", {{16}}, Role::input);
  const ValueId a = toy::add(graph, "a", {x}, 16);
  const ValueId b = toy::add(graph, "b", {x}, 16);
  const NodeId sum = toy::add_node(graph, "sum", {a, b}, {16}, true);
  const NodeId twice = toy::add_node(graph, "twice", {a, a}, {16}, true);
  const Problem problem = toy::problem_of(graph, {});
  const auto all_free = [](ValueId) { return true; };
  const auto chosen = choose_in_place(problem, graph.node(sum), all_free);
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_EQ(chosen[0].input, 0);
  const auto second =
      choose_in_place(problem, graph.node(sum), [&](ValueId value) { return value == b; });
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].input, 1);
  EXPECT_TRUE(choose_in_place(problem, graph.node(twice), all_free).empty());
}

TEST(Lower, PrintsAsWritten) {
  Chain chain(true);
  chain.problem.workspace[1] = 100;
  const Range all{0, 64};
  const Plan plan = with_earliest_drops(
      chain.problem, {{compute_step(size_t{0}), copy_step(chain.a, all, Tier::device, Tier::host),
                       copy_step(chain.a, all, Tier::host, Tier::device), compute_step(size_t{1}),
                       compute_step(size_t{2})}});
  EXPECT_EQ(to_string(chain.graph, plan), R"(plan
compute a
drop x [0,64) device
copy a [0,64) device host
drop a [0,64) device
copy a [0,64) host device
drop a [0,64) host
compute b
drop a [0,64) device
compute c
drop b [0,64) device
)");
  Schedule schedule = lower(chain.problem, plan);
  place(chain.problem, schedule);
  add_waits(chain.problem, schedule);
  EXPECT_EQ(to_string(chain.graph, schedule), R"(schedule
arena device 192 host 64 disk 0
buffer 0 device offset 0 bytes 64 used -1 0 : x
buffer 1 device offset 64 bytes 64 used 0 1 : a
buffer 2 host offset 0 bytes 64 used 1 2 : a
buffer 3 device offset 0 bytes 64 used 2 4 : a
buffer 4 device offset 64 bytes 128 used 3 3 : workspace of b
buffer 5 device offset 64 bytes 64 used 4 5 : c
start x=0[0,64)
0 compute run a reads x=0[0,64) writes a=1[0,64)
1 device-to-host copy reads a=1[0,64) writes a=2[0,64) waits 0
2 host-to-device copy reads a=2[0,64) writes a=3[0,64) waits 1
3 compute run b reads a=3[0,64) writes b=3[0,64) workspace 4 waits 2
4 compute run c reads b=3[0,64) writes c=5[0,64)
end c=5[0,64)
)");
}

TEST(Lower, KeepsThePlaceOfAPieceThatComesBack) {
  Graph graph;
  const ValueId x = graph.add_source("x", {{64}}, Role::input);
  const ValueId a = toy::add(graph, "a", {x}, 64);  // 256 bytes
  const ValueId b = toy::add(graph, "b", {a}, 64);
  const ValueId c = toy::add(graph, "c", {b}, 64);
  const ValueId d = toy::add(graph, "d", {c, a}, 64);
  Problem problem = toy::problem_of(graph, {d});
  const Range part{64, 256};
  const Plan plan = with_earliest_drops(
      problem, {{compute_step(size_t{0}), compute_step(size_t{1}),
                 copy_step(a, part, Tier::device, Tier::host), compute_step(size_t{2}),
                 copy_step(a, part, Tier::host, Tier::device), compute_step(size_t{3})}});
  Schedule schedule = lower(problem, plan);
  place(problem, schedule);
  add_waits(problem, schedule);
  const Operand& before = schedule.instructions[1].reads[0];
  const Operand& after = schedule.instructions[5].reads[1];
  ASSERT_EQ(before.pieces.size(), 2U);
  ASSERT_EQ(after.pieces.size(), 2U);
  EXPECT_EQ(before.pieces[0].buffer, after.pieces[0].buffer) << "the kept piece stays";
  EXPECT_NE(before.pieces[1].buffer, after.pieces[1].buffer) << "the other has two lives";
  const auto offset = [&](const Piece& piece) {
    return schedule.buffers[static_cast<size_t>(piece.buffer.index)].offset;
  };
  EXPECT_EQ(offset(before.pieces[1]), offset(before.pieces[0]) + 64);
  EXPECT_EQ(offset(after.pieces[1]), offset(before.pieces[1]));
  EXPECT_EQ(schedule.arena[0], device_peak(problem, plan));
  check(problem, schedule);
}

class RandomPlans : public testing::TestWithParam<int> {};

TEST_P(RandomPlans, LiveBytesAreTheReplayedOnesAndEveryPlacementPasses) {
  const auto seed = static_cast<uint64_t>(GetParam());
  const toy::Training toy = toy::training(1 + GetParam() % 5, seed);
  Problem problem = toy::problem_of(toy.graph, toy.results);
  for (size_t n = 0; n < problem.workspace.size(); n += 3) problem.workspace[n] = 100;
  const Plan drawn = toy::random_plan(problem, seed);
  for (const Plan& plan : {drawn, with_earliest_drops(problem, drawn)}) {
    const Occupancy occupancy = replay(problem, plan);
    const Schedule lowered = lower(problem, plan);
    for (const uint64_t placement : {uint64_t{0}, seed + 1, seed + 1000}) {
      Schedule schedule = lowered;
      place(problem, schedule, {.random_seed = placement});
      for (const Tier tier : kTiers) {
        EXPECT_EQ(max_live_of(schedule, tier), occupancy.peak[index_of(tier)]);
        EXPECT_GE(schedule.arena[index_of(tier)], occupancy.peak[index_of(tier)]);
      }
      add_waits(problem, schedule);
      EXPECT_GT(simulate(problem, schedule).seconds, 0);
      check(problem, std::move(schedule));
    }
  }
  EXPECT_LE(device_peak(problem, with_earliest_drops(problem, drawn)), device_peak(problem, drawn));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, testing::Range(0, 150));

}  // namespace
}  // namespace olm2
