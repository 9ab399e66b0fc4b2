// Twenty-five budgets from the minimum to keeping everything, planned as one family and run.
#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "tests/promises/tiny_run.h"
#include "train/plan_sweep.h"

namespace olm2 {
namespace {

constexpr int kBudgets = 25;
constexpr size_t kDevice = index_of(Tier::device);

std::vector<Budgets> ladder(const Budgets& all, int64_t minimum, int64_t host_bytes) {
  std::vector<Budgets> budgets;
  for (int64_t i = 0; i < kBudgets; ++i) {
    budgets.push_back(all);
    budgets.back().bytes = {minimum + (all.keep_all_bytes - minimum) * i / (kBudgets - 1),
                            host_bytes, 0};
  }
  return budgets;
}

class SweepSlow : public testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(SweepSlow, NeverRisesAndKeepsBitsAndPeaks) {
  const auto& [policy, planned_state] = GetParam();
  TinyRun run(tiny_gpt2());
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  const RunPlan keep = plan_run(run.programs, run.problems, all, options_for("none"));
  const Outcome expected = run_steps(run, executable(keep), 1);

  const int64_t host = find_policy(policy).copies ? int64_t{1} << 30 : 0;
  const PlanOptions options = options_for(policy);
  const std::vector<Budgets> budgets = ladder(all, minimum_of(run, options, host), host);
  const std::vector<StateSearch> found =
      sweep_budgets(run.programs, run.problems, budgets, options, planned_state);
  double seconds_before = 1e30;
  int64_t peak_before = 0;
  for (size_t i = 0; i < budgets.size(); ++i) {
    const std::string where = policy + " at " + std::to_string(budgets[i].bytes[kDevice]);
    ASSERT_TRUE(found[i].plan.has_value()) << where;
    const RunPlan& plan = *found[i].plan;
    const double seconds = step_time(plan, run.programs.grad_accumulation).planned_s;
    EXPECT_LE(seconds, seconds_before) << where << ": slower than with less";
    EXPECT_GE(plan.peak[kDevice], peak_before) << where << ": with less the peak was higher";
    seconds_before = seconds;
    peak_before = plan.peak[kDevice];

    const Outcome outcome = run_steps(run, executable(plan), 1);
    EXPECT_TRUE(outcome == expected) << where << ": other bits";
    EXPECT_EQ(outcome.peak, plan.peak) << where << ": measured peak differs from the planned one";
    for (size_t t = 0; t < kTierCount; ++t) EXPECT_LE(outcome.peak[t], budgets[i].bytes[t]);
  }
  EXPECT_EQ(step_time(*found.back().plan, run.programs.grad_accumulation).planned_s,
            step_time(*found.back().plan, run.programs.grad_accumulation).keep_all_s);
}

std::string case_name(const testing::TestParamInfo<SweepSlow::ParamType>& info) {
  return test_name(std::get<0>(info.param)) + (std::get<1>(info.param) ? "PlannedState" : "");
}

INSTANTIATE_TEST_SUITE_P(Policies, SweepSlow,
                         testing::Values(std::tuple("chen", false), std::tuple("recompute", false),
                                         std::tuple("swap", false), std::tuple("olm2", false),
                                         std::tuple("dtr", false), std::tuple("olm2", true)),
                         case_name);

// --- the exchange, of plans that different policies made -----------------------------------------

Budgets with_bytes(Budgets budgets, int64_t bytes, int64_t host_bytes) {
  budgets.bytes = {bytes, host_bytes, 0};
  return budgets;
}

StateSearch found_by(const TinyRun& run, std::string_view policy, const Budgets& budgets,
                     bool planned_state = false) {
  return search_state(run.programs, run.problems, budgets, options_for(policy), planned_state);
}

double seconds_of(const StateSearch& found) {
  return step_time(*found.plan, 3).planned_s;
}

TEST(Sweep, GivesALargerBudgetTheFasterPlanOfASmallerOneWithItsOwnBound) {
  TinyRun run(tiny_mlp());
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  const std::vector<Budgets> budgets = {with_bytes(all, all.keep_all_bytes - 64, 0),
                                        with_bytes(all, all.keep_all_bytes - 128, 0)};
  const std::vector<StateSearch> found = {found_by(run, "chen-sqrt", budgets[0]),
                                          found_by(run, "recompute", budgets[1])};
  ASSERT_TRUE(found[0].plan && found[1].plan);
  ASSERT_LT(seconds_of(found[1]), seconds_of(found[0])) << "nothing to exchange";
  const std::vector<StateSearch> swept = exchange_plans(run.programs, budgets, found);
  EXPECT_EQ(seconds_of(swept[0]), seconds_of(found[1]));
  EXPECT_EQ(swept[0].plan->peak, found[1].plan->peak);
  EXPECT_EQ(swept[0].plan->budgets.bytes, budgets[0].bytes);
  EXPECT_EQ(swept[0].solve_seconds, found[0].solve_seconds);
  for (size_t i = 0; i < run.problems.size(); ++i) {
    const Certificate& certificate = swept[0].certificates[i];
    EXPECT_LE(certificate.bound_s, found[0].certificates[i].bound_s);
    EXPECT_EQ(certificate.gap, 1 - certificate.bound_s / certificate.objective_s);
    EXPECT_NE(certificate.space.find(std::to_string(budgets[1].bytes[0])), std::string::npos);
    EXPECT_EQ(swept[0].plan->programs[i].problem.budget, budgets[0].bytes);
  }
  // What was best already stays as it was found.
  EXPECT_EQ(swept[1].certificates[0].space, found[1].certificates[0].space);
  const RunPlan keep = plan_run(run.programs, run.problems, all, options_for("none"));
  EXPECT_TRUE(run_steps(run, executable(*swept[0].plan), 1) == run_steps(run, executable(keep), 1));
}

TEST(Sweep, GivesASmallerBudgetThePlanOfALargerOneThatFitsIt) {
  const TinyRun run(tiny_mlp());
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  const int64_t least = minimum_of(run, options_for("chen"), 0);
  const Budgets small = with_bytes(all, (least + all.keep_all_bytes) / 2, 0);
  const std::vector<Budgets> budgets = {small, with_bytes(all, all.keep_all_bytes - 64, 0)};
  // None: where nothing was found, too.
  for (const bool is_empty : {false, true}) {
    const std::vector<StateSearch> found = {
        is_empty ? StateSearch{} : found_by(run, "chen-sqrt", budgets[0]),
        found_by(run, "recompute", small)};
    const std::vector<StateSearch> swept = exchange_plans(run.programs, budgets, found);
    ASSERT_TRUE(swept[0].plan.has_value());
    EXPECT_EQ(seconds_of(swept[0]), seconds_of(found[1]));
    EXPECT_LE(swept[0].plan->peak[kDevice], swept[1].plan->peak[kDevice]);
    EXPECT_EQ(swept[0].certificates.size(), run.problems.size());
  }
}

TEST(Sweep, NeverGivesABudgetWhatDoesNotFitIt) {
  const TinyRun run(tiny_mlp());
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  const int64_t least = minimum_of(run, options_for("chen"), 0);
  const std::vector<Budgets> budgets = {with_bytes(all, least - 64, 0), all};
  const std::vector<StateSearch> found = {StateSearch{}, found_by(run, "chen", budgets[1])};
  EXPECT_FALSE(exchange_plans(run.programs, budgets, found)[0].plan.has_value());
}

// With state elsewhere the bound of the budget's own plan says nothing.
TEST(Sweep, FallsBackToKeepingEverythingAsBoundWhereStateRestsElsewhere) {
  const TinyRun run(tiny_mlp());
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  const int64_t least = minimum_of(run, options_for("chen"), 0);
  const int64_t bytes = (least + all.keep_all_bytes) / 2;
  const std::vector<Budgets> budgets = {with_bytes(all, bytes, int64_t{1} << 30),
                                        with_bytes(all, bytes - 64, int64_t{1} << 30)};
  const std::vector<StateSearch> found = {found_by(run, "chen-sqrt", budgets[0]),
                                          found_by(run, "recompute", budgets[1], true)};
  ASSERT_TRUE(found[0].plan && found[1].plan);
  ASSERT_LT(seconds_of(found[1]), seconds_of(found[0])) << "nothing to exchange";
  ASSERT_GT(found[0].certificates.back().bound_s, found[0].certificates.back().baseline_s);
  const std::vector<StateSearch> swept = exchange_plans(run.programs, budgets, found);
  EXPECT_EQ(seconds_of(swept[0]), seconds_of(found[1]));
  for (const Certificate& certificate : swept[0].certificates) {
    EXPECT_EQ(certificate.bound_s, std::min(certificate.baseline_s, certificate.objective_s));
  }
}

}  // namespace
}  // namespace olm2
