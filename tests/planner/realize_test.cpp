// Plans whose addresses do not fit are squeezed: bytes that are on their way give way.
#include "planner/realize.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "milp_graphs.h"
#include "planner/keep_all.h"
#include "planner/relieve.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);

// A small GPT-2 with links that hide most of what swapping it takes.
struct SwappedGpt {
  Program program = gpt_step({});
  Problem problem = problem_of(program, {.flops_per_s = 1e9, .bytes_per_s = 2e8, .launch_s = 1e-7});
  int64_t activations = 0;

  SwappedGpt() {
    add_links(problem, 3e8, 1.2, int64_t{1} << 40);
    activations = placed_bytes(problem, keep_all_plan(problem))[kDevice] - problem.state_bytes;
  }
  // The policy's plan at a share of the activations, placed.
  Realized at(double share) {
    device_budget(problem) =
        problem.state_bytes + static_cast<int64_t>(share * static_cast<double>(activations));
    return realize(problem, find_policy("swap").plan(problem, {.policy = "swap"}).plan);
  }
};

std::vector<Step> computes_of(const Plan& plan) {
  std::vector<Step> steps;
  std::ranges::copy_if(plan.steps, std::back_inserter(steps),
                       [](const Step& step) { return step.kind == Step::Kind::compute; });
  return steps;
}

bool moves_the_same(Plan a, Plan b) {
  const auto key = [](const Step& step) {
    return std::tuple(step.kind, step.node.index, step.value.index, step.range, step.from, step.to);
  };
  std::ranges::sort(a.steps, {}, key);
  std::ranges::sort(b.steps, {}, key);
  return a.steps == b.steps;
}

std::vector<int64_t> bytes_at_computes(const Problem& problem, const Plan& plan) {
  const Occupancy occupancy = replay(problem, plan);
  std::vector<int64_t> bytes;
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    if (plan.steps[k].kind != Step::Kind::compute) continue;
    bytes.push_back(occupancy.per_step[k][kDevice]);
  }
  return bytes;
}

TEST(Squeeze, MakesPlansFitWhoseAddressesDoNot) {
  SwappedGpt gpt;
  int too_large = 0;
  int fits = 0;
  for (double share = 0.25; share < 0.5; share += 0.01) {
    const Realized plain = gpt.at(share);
    const Realized squeezed = squeeze(gpt.problem, plain);
    if (is_within(plain.schedule.arena, gpt.problem.budget)) {
      EXPECT_EQ(squeezed.plan.steps, plain.plan.steps);
      continue;
    }
    ++too_large;
    EXPECT_LE(squeezed.schedule.arena[kDevice], plain.schedule.arena[kDevice]);
    EXPECT_EQ(computes_of(squeezed.plan), computes_of(plain.plan));
    EXPECT_TRUE(moves_the_same(squeezed.plan, plain.plan));
    if (!is_within(squeezed.schedule.arena, gpt.problem.budget)) continue;
    ++fits;
    EXPECT_NO_THROW(check(gpt.problem, squeezed.schedule));
  }
  EXPECT_GE(too_large, 2);
  EXPECT_GE(fits, too_large / 2);
}

TEST(Relieve, LowersTheBytesWhereAddressesReachTooHigh) {
  SwappedGpt gpt;
  const Realized plain = gpt.at(0.4);
  const int64_t limit = plain.schedule.arena[kDevice] * 9 / 10;
  const std::optional<Plan> relieved = relieve(gpt.problem, plain.plan, plain.schedule, limit);
  ASSERT_TRUE(relieved);
  EXPECT_TRUE(moves_the_same(*relieved, plain.plan));
  const std::vector<int64_t> before = bytes_at_computes(gpt.problem, plain.plan);
  const std::vector<int64_t> after = bytes_at_computes(gpt.problem, *relieved);
  ASSERT_EQ(after.size(), before.size());
  for (size_t k = 0; k < before.size(); ++k) EXPECT_LE(after[k], before[k]);
  EXPECT_NE(after, before);
  EXPECT_FALSE(relieve(gpt.problem, plain.plan, plain.schedule, plain.schedule.arena[kDevice]))
      << "nothing lies above its own height";
}

TEST(Relieve, HasNothingToOfferWithoutCopies) {
  const SwappedGpt gpt;
  const Realized kept = realize(gpt.problem, keep_all_plan(gpt.problem));
  EXPECT_FALSE(relieve(gpt.problem, kept.plan, kept.schedule, 0));
}

TEST(Trim, MakesArenasSmallerForNoMoreThanTheSecondsGiven) {
  SwappedGpt gpt;
  int smaller = 0;
  for (double share = 0.25; share < 0.5; share += 0.01) {
    const Realized plain = gpt.at(share);
    gpt.problem.budget[kDevice] = plain.schedule.arena[kDevice];
    for (const double seconds : {0.0, 2 * plain.seconds}) {
      const Realized trimmed = trim(gpt.problem, plain, seconds);
      EXPECT_LE(trimmed.seconds, std::max(seconds, plain.seconds));
      EXPECT_LE(trimmed.schedule.arena[kDevice], plain.schedule.arena[kDevice]);
      smaller += trimmed.schedule.arena[kDevice] < plain.schedule.arena[kDevice] ? 1 : 0;
      EXPECT_NO_THROW(check(gpt.problem, trimmed.schedule));
    }
  }
  EXPECT_GT(smaller, 0);
}

// GPT-2 124M, B=4, T=256, on a machine with a link of 5 GB/s.
TEST(AddressesSlow, StayWithinOnePercentOfTheLiveBytes) {
  const Program program = gpt_step(
      {.layers = 12, .heads = 12, .channels = 768, .vocabulary = 50257, .batch = 4, .tokens = 256});
  Problem problem = problem_of(program, {});
  add_links(problem, 5e9, 1.3, int64_t{1} << 40);
  const int64_t kept = placed_bytes(problem, keep_all_plan(problem))[kDevice];
  for (const std::string policy : {"chen", "recompute", "swap", "olm2"}) {
    for (const int percent : {80, 60, 40, 30}) {
      device_budget(problem) = problem.state_bytes + (kept - problem.state_bytes) * percent / 100;
      const Planned planned = plan_program(problem, {.policy = policy});
      ASSERT_TRUE(planned.schedule) << policy << " " << percent;
      const int64_t live = replay(problem, planned.plan).peak[kDevice] - problem.state_bytes;
      const int64_t arena = planned.certificate.peak[kDevice] - problem.state_bytes;
      EXPECT_LE(static_cast<double>(arena), 1.01 * static_cast<double>(live))
          << policy << " " << percent;
    }
  }
}

}  // namespace
}  // namespace olm2
