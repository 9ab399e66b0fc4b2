#include "planner/arrange.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "milp_graphs.h"
#include "planner/milp_slots.h"

namespace olm2 {
namespace {

constexpr Roofline kToyMachine{.flops_per_s = 1e9, .bytes_per_s = 2e8, .launch_s = 1e-7};
constexpr size_t kDevice = index_of(Tier::device);
constexpr size_t kHost = index_of(Tier::host);

Problem roomy_problem(const Program& program) {
  Problem problem = problem_of(program, kToyMachine);
  add_links(problem, 1e8, 1.0, int64_t{1} << 40);
  device_budget(problem) = int64_t{1} << 40;
  return problem;
}

// A fixed sequence of numbers below `limit`.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  int64_t below(int64_t limit) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((state_ >> 33U) % static_cast<uint64_t>(limit));
  }

 private:
  uint64_t state_;
};

// Some optional slots run, and some bytes of some activations are swapped.
Decisions random_decisions(const Problem& problem, Numbers& numbers) {
  Decisions decisions = keep_everything(*problem.graph);
  decisions.order.clear();
  for (const Slot& slot : slots_of(problem, "single0", true)) {
    if (!slot.optional || numbers.below(2) == 0) decisions.order.push_back(slot.node);
  }
  for (size_t v = 0; v < decisions.swapped.size(); ++v) {
    const Value& value = problem.graph->values()[v];
    if (value.role != Role::activation || numbers.below(3) != 0) continue;
    const int64_t whole = problem.padded_bytes({static_cast<int32_t>(v)});
    const int64_t part = padded(numbers.below(whole + 1), problem.alignment);
    decisions.swapped[v] = numbers.below(2) == 0 ? whole : part;
  }
  return decisions;
}

TEST(Arrange, FitsInExactlyTheLeastBytes) {
  const GptSizes odd{.layers = 2,
                     .heads = 3,
                     .channels = 15,
                     .vocabulary = 29,
                     .batch = 1,
                     .tokens = 13,
                     .dropout = 0.1};
  for (const GptSizes& sizes : {GptSizes{}, odd}) {
    const Program program = gpt_step(sizes);
    Problem problem = roomy_problem(program);
    for (size_t n = 0; n < problem.workspace.size(); n += 4) problem.workspace[n] = 777;
    Numbers numbers(5);
    for (int trial = 0; trial < 40; ++trial) {
      const Decisions decisions = random_decisions(problem, numbers);
      problem.budget = least_bytes(problem, decisions);
      const Arrangement arrangement = arrange(problem, decisions);
      ASSERT_TRUE(arrangement.fits(problem.budget));
      const BytesPerTier peak = replay(problem, arrangement.plan).peak;
      EXPECT_EQ(peak[kDevice], problem.budget[kDevice]) << trial;
      EXPECT_EQ(peak[kHost], problem.budget[kHost]) << trial;
      EXPECT_NEAR(computing_seconds(problem, arrangement.plan),
                  computing_seconds(problem, arrange(roomy_problem(program), decisions).plan),
                  1e-12);
    }
  }
}

TEST(Arrange, GivesNoPlanForOneByteLess) {
  const Program program = gpt_step({});
  Problem problem = roomy_problem(program);
  Numbers numbers(9);
  const Decisions decisions = random_decisions(problem, numbers);
  const BytesPerTier least = least_bytes(problem, decisions);
  ASSERT_GT(least[kHost], 0);
  for (const size_t tier : {kDevice, kHost}) {
    problem.budget = least;
    --problem.budget[tier];
    const Arrangement arrangement = arrange(problem, decisions);
    EXPECT_FALSE(arrangement.fits(problem.budget));
    EXPECT_TRUE(arrangement.plan.steps.empty());
    EXPECT_EQ(arrangement.least, least);
  }
}

// A linear layer's output, swapped whole.
struct OneSwap {
  Program program = mlp_step(64, {64, 512, 64, 64, 64, 64, 64, 64, 4});
  Problem problem = roomy_problem(program);
  Decisions decisions = keep_everything(program.graph);
  ValueId value = program.graph.find("l1");

  OneSwap() { decisions.swapped[static_cast<size_t>(value.index)] = problem.padded_bytes(value); }
};

std::vector<size_t> positions(const Plan& plan, Step::Kind kind, ValueId value, Tier from) {
  std::vector<size_t> result;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const Step& step = plan.steps[k];
    if (step.kind == kind && step.value == value && step.from == from) result.push_back(k);
  }
  return result;
}

TEST(Arrange, KeepsBytesOnTheDeviceUntilTheirCopyIsDone) {
  OneSwap swap;
  const Plan plan = arrange(swap.problem, swap.decisions).plan;
  const size_t copy = positions(plan, Step::Kind::copy, swap.value, Tier::device).at(0);
  const size_t drop = positions(plan, Step::Kind::drop, swap.value, Tier::device).at(0);
  double computed = 0;
  for (size_t k = copy; k < drop; ++k) {
    if (plan.steps[k].kind != Step::Kind::compute) continue;
    computed += swap.problem.seconds[static_cast<size_t>(plan.steps[k].node.index)];
  }
  const double bytes = static_cast<double>(swap.program.graph.type(swap.value).bytes());
  EXPECT_GE(computed, bytes / swap.problem.device_to_host.bytes_per_s);
}

TEST(Arrange, GivesBytesUpEarlierWhereMemoryIsTight) {
  OneSwap swap;
  const Plan easy = arrange(swap.problem, swap.decisions).plan;
  swap.problem.budget = least_bytes(swap.problem, swap.decisions);
  const Plan tight = arrange(swap.problem, swap.decisions).plan;
  const auto first_drop = [&](const Plan& plan) {
    return positions(plan, Step::Kind::drop, swap.value, Tier::device).at(0);
  };
  EXPECT_LE(first_drop(tight), first_drop(easy));
  EXPECT_LE(replay(swap.problem, tight).peak[kDevice], swap.problem.budget[kDevice]);
}

TEST(Arrange, BringsBytesBackInTimeAndNotMuchEarlier) {
  OneSwap swap;
  const Plan plan = arrange(swap.problem, swap.decisions).plan;
  const size_t copy = positions(plan, Step::Kind::copy, swap.value, Tier::host).at(0);
  double until_read = 0;
  double longest = 0;
  for (size_t k = copy; k < plan.steps.size(); ++k) {
    if (plan.steps[k].kind != Step::Kind::compute) continue;
    const Node& node = swap.program.graph.node(plan.steps[k].node);
    if (std::ranges::find(node.inputs, swap.value) != node.inputs.end()) break;
    const double seconds = swap.problem.seconds[static_cast<size_t>(plan.steps[k].node.index)];
    until_read += seconds;
    longest = std::max(longest, seconds);
  }
  const double bytes = static_cast<double>(swap.program.graph.type(swap.value).bytes());
  const double copying = bytes / swap.problem.host_to_device.bytes_per_s;
  EXPECT_GE(until_read, copying);
  EXPECT_LE(until_read, 1.25 * copying + longest);
}

TEST(Arrange, CutsLargeTensorsIntoAlignedChunks) {
  const Program program = mlp_step(1031, {3, 1031, 5, 4});  // l1 is 4,251,844 bytes.
  const Problem problem = roomy_problem(program);
  const ValueId value = program.graph.find("l1");
  Decisions decisions = keep_everything(program.graph);
  decisions.swapped[static_cast<size_t>(value.index)] = problem.padded_bytes(value);
  const Plan plan = arrange(problem, decisions).plan;
  int64_t next = 0;
  for (const size_t k : positions(plan, Step::Kind::copy, value, Tier::device)) {
    const Range range = plan.steps[k].range;
    EXPECT_EQ(range.begin, next);
    EXPECT_EQ(range.begin % problem.alignment, 0);
    next = range.end;
  }
  EXPECT_EQ(next, program.graph.type(value).bytes());
  EXPECT_GT(positions(plan, Step::Kind::copy, value, Tier::device).size(), 1U);
}

// 8 MB that are nearly all there is: as many chunks as allowed, or as few as their fixed cost
// wants.
TEST(Arrange, CutsNoFinerThanTheFixedCostOfACopyAllows) {
  const Program program = mlp_step(2048, {3, 1024, 5, 4});
  Problem problem = roomy_problem(program);
  const ValueId value = program.graph.find("l1");
  Decisions decisions = keep_everything(program.graph);
  decisions.swapped[static_cast<size_t>(value.index)] = problem.padded_bytes(value);
  const auto chunks = [&] {
    const Plan plan = arrange(problem, decisions).plan;
    return positions(plan, Step::Kind::copy, value, Tier::device).size();
  };
  EXPECT_EQ(chunks(), 8U);
  problem.device_to_host.latency_s = 1e-3;  // 20 times that at 1e8 bytes/s: 2 MB.
  EXPECT_EQ(chunks(), 4U);
  problem.host_to_device.latency_s = 1;
  EXPECT_EQ(chunks(), 1U);
}

TEST(Arrange, SchedulesOfItsPlansPassTheCheck) {
  const Program program = gpt_step({.layers = 2, .dropout = 0.1});
  Problem problem = roomy_problem(program);
  Numbers numbers(3);
  for (int trial = 0; trial < 10; ++trial) {
    const Arrangement arrangement = arrange(problem, random_decisions(problem, numbers));
    Schedule schedule = lower(problem, arrangement.plan);
    place(problem, schedule);
    add_waits(problem, schedule);
    EXPECT_NO_THROW(check(problem, std::move(schedule))) << trial;
  }
}

}  // namespace
}  // namespace olm2
