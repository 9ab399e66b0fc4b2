#include "planner/milp.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <set>

#include "core/error.h"
#include "gtest/gtest.h"
#include "milp_graphs.h"
#include "planner/arrange.h"
#include "planner/milp_slots.h"
#include "planner/realize.h"
#include "planner/solver.h"

namespace olm2 {
namespace {

// Balanced so that operations take from 0.1 to 10 us at these sizes.
constexpr Roofline kToyMachine{.flops_per_s = 1e9, .bytes_per_s = 2e8, .launch_s = 1e-7};

PlanOptions within(double seconds, double gap = 0) {
  PlanOptions options;
  options.gap = gap;
  options.time_limit_s = seconds;
  return options;
}
PlanOptions exact() {
  return within(0.5);
}

void set_device_budget(Problem& problem, double fraction) {
  const auto bytes = static_cast<double>(activation_bytes(problem)) * fraction;
  device_budget(problem) = problem.state_bytes + static_cast<int64_t>(bytes);
}

// Order in which the mandatory and the chosen optional slots run.
Decisions run(const Problem& problem, const std::vector<Slot>& slots, uint32_t chosen) {
  Decisions decisions = keep_everything(*problem.graph);
  decisions.order.clear();
  int k = 0;
  for (const Slot& slot : slots) {
    if (!slot.optional || (chosen >> k & 1U) != 0) decisions.order.push_back(slot.node);
    if (slot.optional) ++k;
  }
  return decisions;
}

double seconds_of(const Problem& problem, const Decisions& decisions) {
  double seconds = 0;
  for (const NodeId node : decisions.order) {
    seconds += problem.seconds[static_cast<size_t>(node.index)];
  }
  return seconds;
}

struct Trial {
  int64_t device_bytes = 0;  // With addresses.
  int64_t least_bytes = 0;   // Without.
  double seconds = 0;
};

// Every subset of the optional slots.
std::vector<Trial> try_all_subsets(const Problem& problem) {
  const std::vector<Slot> slots = slots_of(problem, "single0", true);
  const auto optional = std::ranges::count(slots, true, &Slot::optional);
  EXPECT_LE(optional, 11);
  constexpr size_t kDevice = index_of(Tier::device);
  Problem roomy = problem;
  roomy.budget[kDevice] = int64_t{1} << 40;
  std::vector<Trial> trials;
  for (uint32_t chosen = 0; chosen < (1U << optional); ++chosen) {
    const Decisions decisions = run(problem, slots, chosen);
    trials.push_back({placed_bytes(problem, arrange(roomy, decisions).plan)[kDevice],
                      least_bytes(problem, decisions)[kDevice], seconds_of(problem, decisions)});
  }
  return trials;
}

void expect_equals_exhaustive_search(const Program& program) {
  Problem problem = problem_of(program, kToyMachine);
  for (size_t n = 0; n < problem.workspace.size(); n += 3) problem.workspace[n] = 100;
  const std::vector<Trial> trials = try_all_subsets(problem);
  std::set<int64_t> budgets;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Trial& trial : trials) {
    budgets.insert(trial.device_bytes);
    least = std::min(least, trial.least_bytes);
  }
  ASSERT_GE(budgets.size(), 3U) << "recomputing changes nothing here";
  PlanOptions options = exact();
  options.space = "single0";
  options.time_limit_s = 60;
  for (const int64_t budget : budgets) {
    device_budget(problem) = budget;
    double best = kUnbounded;
    for (const Trial& trial : trials) {
      if (trial.device_bytes <= budget) best = std::min(best, trial.seconds);
    }
    const PolicyResult result = plan_by_milp(problem, options, true, false);
    ASSERT_NE(result.status, Status::unknown) << "budget " << budget;
    EXPECT_NEAR(computing_seconds(problem, result.plan), best, 1e-9 * best) << "budget " << budget;
    EXPECT_LE(result.bound_s, best * (1 + 1e-9)) << "budget " << budget;
    EXPECT_LE(replay(problem, result.plan).peak[index_of(Tier::device)], budget);
  }
  device_budget(problem) = least - 64;
  EXPECT_EQ(plan_by_milp(problem, options, true, false).status, Status::unknown);

  const auto smallest = minimum_by_milp(problem, options, true, false);
  ASSERT_TRUE(smallest);
  EXPECT_EQ(replay(problem, smallest->plan).peak[index_of(Tier::device)], least);
  const auto wider = minimum_by_milp(problem, exact(), true, false);
  ASSERT_TRUE(wider);
  EXPECT_LE(replay(problem, wider->plan).peak[index_of(Tier::device)], least);
}

TEST(Milp, RecomputingOneLayerOfGptEqualsExhaustiveSearch) {
  GptSizes sizes;
  sizes.layers = 1;
  expect_equals_exhaustive_search(gpt_step(sizes));
}

TEST(Milp, RecomputingWithOddBytesEqualsExhaustiveSearch) {
  GptSizes sizes{.layers = 1, .heads = 1, .channels = 7, .vocabulary = 5, .batch = 1, .tokens = 11};
  expect_equals_exhaustive_search(gpt_step(sizes));
}

TEST(Milp, RecomputingAChainWithoutScopesEqualsExhaustiveSearch) {
  expect_equals_exhaustive_search(mlp_step(5, {3, 40, 11, 90, 8, 64, 17, 4}));
}

struct Case {
  const char* name;
  bool may_recompute;
  bool may_swap;
};
constexpr Case kCases[] = {{"recompute", true, false}, {"swap", false, true}, {"olm2", true, true}};

void expect_within_budgets(const Program& program, PlanOptions options) {
  options.time_limit_s = 0.5;
  Problem problem = problem_of(program, kToyMachine);
  for (size_t n = 0; n < problem.workspace.size(); n += 2) problem.workspace[n] = 1000;
  add_links(problem, 4e8, 1.3, int64_t{1} << 16);
  for (const Case& c : kCases) {
    double slower_than = kUnbounded;
    for (double fraction = 0.3; fraction <= 1.0001; fraction += 0.1) {
      set_device_budget(problem, fraction);
      const PolicyResult result = plan_by_milp(problem, options, c.may_recompute, c.may_swap);
      const std::string which = std::string(c.name) + " at " + std::to_string(fraction);
      if (result.status == Status::unknown) {
        EXPECT_LT(fraction, 0.7) << which;
        continue;
      }
      EXPECT_LE(result.bound_s, slower_than * (1 + options.gap)) << which;
      slower_than = result.bound_s;
      const BytesPerTier peak = replay(problem, result.plan).peak;
      EXPECT_LE(peak[index_of(Tier::device)], device_budget(problem)) << which;
      EXPECT_LE(peak[index_of(Tier::host)], problem.budget[index_of(Tier::host)]) << which;
    }
  }
}

TEST(Milp, PlansReplayWithinEveryBudget) {
  expect_within_budgets(gpt_step({.layers = 3}), PlanOptions{});
}

TEST(Milp, PlansWithDropoutAndOddSizesReplayWithinEveryBudget) {
  const GptSizes sizes{.layers = 2,
                       .heads = 3,
                       .channels = 15,
                       .vocabulary = 29,
                       .batch = 1,
                       .tokens = 13,
                       .dropout = 0.1};
  expect_within_budgets(gpt_step(sizes), PlanOptions{});
}

TEST(Milp, PlansOfWholeTensorsReplayWithinEveryBudget) {
  PlanOptions options;
  options.partial_swap = false;
  expect_within_budgets(gpt_step({.layers = 2}), options);
}

TEST(Milp, WithoutPartialSwapEveryCopiedValueIsCopiedWhole) {
  const Program program = gpt_step({.layers = 2});
  Problem problem = problem_of(program, kToyMachine);
  add_links(problem, 4e8, 1.0, int64_t{1} << 30);
  set_device_budget(problem, 0.6);
  PlanOptions options;
  options.partial_swap = false;
  const PolicyResult result = plan_by_milp(problem, options, false, true);
  ASSERT_NE(result.status, Status::unknown);
  std::map<int32_t, int64_t> copied;
  for (const Step& step : result.plan.steps) {
    if (step.kind == Step::Kind::copy && step.from == Tier::device) {
      copied[step.value.index] += step.range.bytes();
    }
  }
  EXPECT_FALSE(copied.empty());
  for (const auto& [value, bytes] : copied) {
    EXPECT_EQ(bytes, program.graph.type({value}).bytes()) << program.graph.value({value}).name;
  }
}

TEST(Milp, PartialSwapMovesPartsWithoutABoundAboveThatOfWholes) {
  const Program program = gpt_step({.layers = 2});
  Problem problem = problem_of(program, kToyMachine);
  add_links(problem, 4e8, 1.0, int64_t{1} << 30);
  set_device_budget(problem, 0.6);
  PlanOptions parts;
  PlanOptions whole;
  whole.partial_swap = false;
  const PolicyResult in_parts = plan_by_milp(problem, parts, false, true);
  const PolicyResult as_wholes = plan_by_milp(problem, whole, false, true);
  ASSERT_NE(in_parts.status, Status::unknown);
  std::map<int32_t, int64_t> copied;
  for (const Step& step : in_parts.plan.steps) {
    if (step.kind == Step::Kind::copy && step.from == Tier::device) {
      copied[step.value.index] += step.range.bytes();
    }
  }
  EXPECT_TRUE(std::ranges::any_of(copied, [&](const auto& entry) {
    return entry.second < program.graph.type({entry.first}).bytes();
  }));
  EXPECT_LE(in_parts.bound_s, as_wholes.bound_s * (1 + 1e-9));
}

// Pieces that must return to their place beside the rest pack badly.
TEST(Milp, CutsOneOfTheValuesThatItSends) {
  const Program program = gpt_step({.layers = 6});
  Problem problem = problem_of(program, kToyMachine);
  add_links(problem, 3e8, 1.0, int64_t{1} << 40);
  for (const double fraction : {0.8, 0.7, 0.6}) {
    set_device_budget(problem, fraction);
    const PolicyResult result = plan_by_milp(problem, within(20, 0.01), true, true);
    std::map<int32_t, int64_t> sent;
    for (const Step& step : result.plan.steps) {
      if (step.kind != Step::Kind::copy || step.from != Tier::device) continue;
      sent[step.value.index] += padded(step.range.bytes(), problem.alignment);
    }
    const auto cut = std::ranges::count_if(
        sent, [&](const auto& part) { return part.second < problem.padded_bytes({part.first}); });
    EXPECT_GT(sent.size(), 2U);
    EXPECT_LE(cut, 1) << fraction << " of " << sent.size();
  }
}

TEST(Milp, TheMixIsStrictlyFasterThanEachAlone) {
  const Program program = gpt_step({.layers = 4});
  Problem problem = problem_of(program, kToyMachine);
  add_links(problem, 1.5e7, 1.0, int64_t{1} << 30);
  set_device_budget(problem, 0.5);
  const PolicyResult recompute = plan_by_milp(problem, within(4, 0.005), true, false);
  const PolicyResult swap = plan_by_milp(problem, within(4, 0.005), false, true);
  const PolicyResult mix = plan_by_milp(problem, within(4, 0.005), true, true);
  ASSERT_NE(recompute.status, Status::unknown);
  ASSERT_NE(swap.status, Status::unknown);
  ASSERT_NE(mix.status, Status::unknown);
  EXPECT_LE(mix.bound_s, recompute.bound_s * (1 + 1e-9));
  EXPECT_LE(mix.bound_s, swap.bound_s * (1 + 1e-9));
  const double mix_s = realize(problem, mix.plan).seconds;
  EXPECT_LT(mix_s, 0.999 * realize(problem, recompute.plan).seconds);
  EXPECT_LT(mix_s, 0.999 * realize(problem, swap.plan).seconds);
  EXPECT_GT(computing_seconds(problem, mix.plan),
            seconds_of(problem, keep_everything(program.graph)));
  EXPECT_TRUE(std::ranges::any_of(mix.plan.steps,
                                  [](const Step& step) { return step.kind == Step::Kind::copy; }));
}

TEST(Milp, NoSimulatedPlanIsFasterThanItsBound) {
  int compared = 0;
  const Program program = gpt_step({.layers = 3});
  Problem problem = problem_of(program, kToyMachine);
  for (const double bytes_per_s : {2e7, 1e8, 1e9}) {
    add_links(problem, bytes_per_s, 1.2, int64_t{1} << 30);
    for (const double fraction : {0.4, 0.55, 0.7, 0.85}) {
      set_device_budget(problem, fraction);
      for (const Case& c : kCases) {
        const PolicyResult result =
            plan_by_milp(problem, within(0.3, 0.02), c.may_recompute, c.may_swap);
        if (result.status == Status::unknown) continue;
        const Realized plan = realize(problem, result.plan);
        if (plan.schedule.arena[index_of(Tier::device)] > device_budget(problem)) continue;
        ++compared;
        EXPECT_GE(plan.seconds, result.bound_s * (1 - 1e-6))
            << c.name << " at " << fraction << " over " << bytes_per_s;
      }
    }
  }
  EXPECT_GE(compared, 12);
}

// Seen: where no rounding was feasible the search ended without a plan, and the greedy one was
// taken.
TEST(Milp, RecomputingIsNearTheBoundOfAllPlans) {
  const Program program = gpt_step({.layers = 4, .channels = 32, .tokens = 16});
  Problem problem = problem_of(program, kToyMachine);
  PlanOptions options = within(2, 0.01);
  options.policy = "recompute";
  for (const double fraction : {0.35, 0.45, 0.6, 0.9}) {
    set_device_budget(problem, fraction);
    const Certificate certificate = plan_program(problem, options).certificate;
    ASSERT_EQ(certificate.status, Status::feasible) << fraction;
    // One node that runs again is half a percent here: the bound, which may break it, is not met.
    EXPECT_LE(certificate.gap, fraction < 0.4 ? 0.03 : 0.011) << fraction;
  }
}

TEST(Milp, ASmallHostBudgetIsKeptAndLeavesLessToSwap) {
  const Program program = gpt_step({.layers = 3});
  Problem problem = problem_of(program, kToyMachine);
  set_device_budget(problem, 0.7);
  double slower_than = 0;
  for (const int64_t host : {int64_t{1} << 20, int64_t{4096}, int64_t{1000}, int64_t{0}}) {
    add_links(problem, 4e8, 1.0, host);
    const PolicyResult result = plan_by_milp(problem, exact(), true, true);
    ASSERT_NE(result.status, Status::unknown);
    EXPECT_LE(replay(problem, result.plan).peak[index_of(Tier::host)], host);
    EXPECT_GE(result.bound_s, slower_than);
    slower_than = result.bound_s;
  }
}

TEST(Milp, WithoutALinkNothingIsCopied) {
  const Program program = gpt_step({.layers = 2});
  Problem problem = problem_of(program, kToyMachine);
  problem.budget[index_of(Tier::host)] = int64_t{1} << 30;
  set_device_budget(problem, 0.6);
  const PolicyResult result = plan_by_milp(problem, exact(), true, true);
  ASSERT_NE(result.status, Status::unknown);
  EXPECT_EQ(replay(problem, result.plan).peak[index_of(Tier::host)], 0);
  EXPECT_EQ(plan_by_milp(problem, exact(), false, true).status, Status::unknown);
}

TEST(Milp, AFullBudgetKeepsEverythingAndIsOptimal) {
  const Program program = gpt_step({.layers = 3});
  Problem problem = problem_of(program, kToyMachine);
  add_links(problem, 4e8, 1.0, int64_t{1} << 30);
  set_device_budget(problem, 1.0);
  for (const Case& c : kCases) {
    const PolicyResult result = plan_by_milp(problem, {}, c.may_recompute, c.may_swap);
    EXPECT_EQ(result.status, Status::optimal);
    EXPECT_EQ(std::ranges::count(result.plan.steps, Step::Kind::compute, &Step::kind),
              static_cast<int64_t>(program.graph.nodes().size()));
    EXPECT_EQ(std::ranges::count(result.plan.steps, Step::Kind::copy, &Step::kind), 0);
  }
}

TEST(Milp, TheMinimumCanBePlannedForAndIsSmallerForTheMix) {
  const Program program = gpt_step({.layers = 3});
  Problem problem = problem_of(program, kToyMachine);
  add_links(problem, 4e8, 1.0, int64_t{1} << 30);
  std::vector<int64_t> minima;
  for (const Case& c : kCases) {
    const auto smallest = minimum_by_milp(problem, exact(), c.may_recompute, c.may_swap);
    ASSERT_TRUE(smallest) << c.name;
    minima.push_back(replay(problem, smallest->plan).peak[index_of(Tier::device)]);
    device_budget(problem) = minima.back();
    const PolicyResult result = plan_by_milp(problem, {}, c.may_recompute, c.may_swap);
    ASSERT_NE(result.status, Status::unknown) << c.name;
    EXPECT_LE(replay(problem, result.plan).peak[index_of(Tier::device)], minima.back());
    device_budget(problem) = minima.back() - 64;
    EXPECT_EQ(plan_by_milp(problem, {}, c.may_recompute, c.may_swap).status, Status::unknown)
        << c.name;
  }
  EXPECT_LE(minima[2], minima[0]);
  EXPECT_LE(minima[2], minima[1]);
}

TEST(Milp, WithoutTimeItIsHonestAndQuick) {
  const Program program = gpt_step({.layers = 12, .channels = 32});
  Problem problem = problem_of(program, kToyMachine);
  add_links(problem, 4e8, 1.0, int64_t{1} << 30);
  set_device_budget(problem, 0.5);
  for (const double seconds : {0.0, 0.001}) {
    PlanOptions options = exact();
    options.time_limit_s = seconds;
    const auto start = std::chrono::steady_clock::now();
    const PolicyResult result = plan_by_milp(problem, options, true, true);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    EXPECT_LT(passed.count(), 5.0);
    EXPECT_NE(result.status, Status::optimal);
    EXPECT_NE(result.status, Status::infeasible);
    if (result.status == Status::feasible) {
      EXPECT_LE(replay(problem, result.plan).peak[index_of(Tier::device)], device_budget(problem));
    }
  }
}

TEST(Milp, PlansAreTheSameEachTimeAndNothingIsPrinted) {
  const Program program = gpt_step({.layers = 3});
  Problem problem = problem_of(program, kToyMachine);
  add_links(problem, 4e8, 1.0, int64_t{1} << 30);
  set_device_budget(problem, 0.5);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const PolicyResult first = plan_by_milp(problem, {}, true, true);
  const PolicyResult second = plan_by_milp(problem, {}, true, true);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(to_string(program.graph, first.plan), to_string(program.graph, second.plan));
}

TEST(Milp, ReportsProgressWithItsLastGap) {
  const Program program = gpt_step({.layers = 3});
  Problem problem = problem_of(program, kToyMachine);
  set_device_budget(problem, 0.5);
  PlanOptions options;
  double last_seconds = -1;
  double last_gap = 7;
  options.progress = [&](double seconds, double gap) {
    EXPECT_GE(seconds, last_seconds);
    last_seconds = seconds;
    last_gap = gap;
  };
  ASSERT_NE(plan_by_milp(problem, options, true, false).status, Status::unknown);
  EXPECT_GE(last_gap, 0);
  EXPECT_LE(last_gap, options.gap);
}

TEST(Milp, RefusesAnUnknownSpace) {
  const Program program = gpt_step({.layers = 1});
  const Problem problem = problem_of(program, kToyMachine);
  PlanOptions options;
  options.space = "everything";
  EXPECT_THROW(plan_by_milp(problem, options, true, true), Error);
}

}  // namespace
}  // namespace olm2
