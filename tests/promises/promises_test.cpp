// The four promises, over every policy, three models and a ladder of budgets.
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/promises/tiny_run.h"

namespace olm2 {
namespace {

constexpr int kBudgets = 12;

class PromisesSlow : public testing::TestWithParam<std::tuple<std::string, Config (*)()>> {};

TEST_P(PromisesSlow, SameBitsAndSamePeakFromTheMinimumUp) {
  const auto& [policy, make_config] = GetParam();
  TinyRun run(make_config());
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  RunPlan keep = plan_run(run.programs, run.problems, all, options_for("none"));
  const Outcome expected = run_steps(run, executable(keep), 2);
  ASSERT_EQ(expected.peak[0], keep.peak[0]);

  const int64_t host = find_policy(policy).copies ? int64_t{1} << 30 : 0;
  const PlanOptions options = options_for(policy);
  const int64_t minimum = minimum_of(run, options, host);
  ASSERT_GT(minimum, run.programs.state_bytes);
  ASSERT_LE(minimum, all.keep_all_bytes);
  for (int i = 0; i < kBudgets; ++i) {
    Budgets budgets = all;
    budgets.bytes = {minimum + (all.keep_all_bytes - minimum) * i / (kBudgets - 1), host, 0};
    RunPlan plan = plan_run(run.programs, run.problems, budgets, options);
    const Outcome outcome = run_steps(run, executable(plan), 2);
    const std::string where = policy + " at " + std::to_string(budgets.bytes[0]) + " bytes";
    EXPECT_TRUE(outcome == expected) << where << ": other bits";
    EXPECT_EQ(outcome.peak, plan.peak) << where << ": measured peak differs from the planned one";
    EXPECT_LE(outcome.peak[0], budgets.bytes[0]) << where;
    EXPECT_LE(outcome.peak[1], budgets.bytes[1]) << where;
  }
}

TEST_P(PromisesSlow, BelowTheMinimumIsRefusedWithItsReason) {
  const auto& [policy, make_config] = GetParam();
  const TinyRun run(make_config());
  const PlanOptions options = options_for(policy);
  Problem problem = run.problems.back();
  const Minimum minimum = find_minimum(problem, options);
  problem.budget = {minimum.bytes - run.backend.alignment(), 0, 0};
  const Planned planned = plan_program(problem, options);
  if (planned.schedule) {
    // A policy may do better than its own promise, never worse.
    EXPECT_LE(planned.certificate.peak[0], problem.budget[0]);
    return;
  }
  EXPECT_NE(planned.certificate.status, Status::optimal);
  EXPECT_NE(planned.certificate.status, Status::feasible);
  EXPECT_NE(planned.certificate.message.find(std::to_string(minimum.bytes)), std::string::npos)
      << planned.certificate.message;
  EXPECT_NE(planned.certificate.message.find(minimum.moment), std::string::npos);
  EXPECT_FALSE(minimum.alive.empty());

  problem.budget[0] = minimum.proven_bytes - 1;
  EXPECT_EQ(plan_program(problem, options).certificate.status, Status::infeasible);
}

TEST_P(PromisesSlow, AllOfTheBudgetMeansNoRecomputeAndNoCopies) {
  const auto& [policy, make_config] = GetParam();
  const TinyRun run(make_config());
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  for (Problem problem : run.problems) {
    problem.budget = all.bytes;
    const Planned planned = plan_program(problem, options_for(policy));
    EXPECT_EQ(planned.certificate.status, Status::optimal);
    EXPECT_EQ(planned.certificate.recomputed, 0);
    EXPECT_EQ(planned.certificate.copied_bytes, 0);
    EXPECT_EQ(planned.certificate.objective_s, planned.certificate.baseline_s);
    EXPECT_LT(planned.certificate.solve_seconds, 1.0);
  }
}

TEST_P(PromisesSlow, PoisonDelaysAndOtherAddressesChangeNoBit) {
  const auto& [policy, make_config] = GetParam();
  TinyRun run(make_config());
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  RunPlan keep = plan_run(run.programs, run.problems, all, options_for("none"));
  const Outcome expected = run_steps(run, executable(keep), 2);

  const int64_t host = find_policy(policy).copies ? int64_t{1} << 30 : 0;
  const PlanOptions options = options_for(policy);
  Budgets budgets = all;
  budgets.bytes = {(minimum_of(run, options, host) + all.keep_all_bytes) / 2, host, 0};
  RunPlan plan = plan_run(run.programs, run.problems, budgets, options);
  EXPECT_TRUE(run_steps(run, executable(plan), 2, {.poison = true, .max_copy_delay_s = 0.002}) ==
              expected);

  std::vector<ExecutableProgram> moved;
  for (size_t i = 0; i < run.problems.size(); ++i) {
    Problem problem = run.problems[i];
    Schedule schedule = lower(problem, plan.programs[i].planned.plan);
    place(problem, schedule, {.random_seed = 7 + i});
    add_waits(problem, schedule);
    problem.budget = {int64_t{1} << 40, int64_t{1} << 40, 0};
    moved.push_back({run.programs.programs[i].name, problem, check(problem, std::move(schedule))});
  }
  EXPECT_TRUE(run_steps(run, std::move(moved), 2, {.poison = true}) == expected);
}

std::string case_name(const testing::TestParamInfo<PromisesSlow::ParamType>& info) {
  constexpr std::array<const char*, 3> kModels = {"Mlp", "Gpt2", "Gpt2Wide"};
  return test_name(std::get<0>(info.param)) + kModels.at(info.index % kModels.size());
}

INSTANTIATE_TEST_SUITE_P(EveryPolicyAndModel, PromisesSlow,
                         testing::Combine(testing::ValuesIn(policy_names()),
                                          testing::Values(&tiny_mlp, &tiny_gpt2, &tiny_gpt2_wide)),
                         case_name);

// Deep enough that one operation's operands are less than 35 % of the activations.
Config deep_mlp() {
  Config config = tiny_mlp();
  config.model.n_layer = 24;
  return config;
}
Config toy_gpt2() {
  return tiny_config({.type = "gpt2",
                      .n_layer = 2,
                      .n_head = 2,
                      .n_embd = 64,
                      .vocab_size = 97,
                      .context_length = 32,
                      .dropout = 0.1},
                     8, 32, 2);
}

TEST(ToysSlow, Olm2WithAHostBudgetRunsTheToysAt35Percent) {
  for (const auto& make_config : {&deep_mlp, &toy_gpt2}) {
    TinyRun run(make_config());
    const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
    RunPlan keep = plan_run(run.programs, run.problems, all, options_for("none"));
    const Budgets budgets =
        resolve_budgets({.bytes = 0, .percent = 35}, {.bytes = int64_t{1} << 30}, run.problems);
    RunPlan plan = plan_run(run.programs, run.problems, budgets, options_for("olm2"));
    EXPECT_LE(plan.peak[0], budgets.bytes[0]);
    EXPECT_TRUE(run_steps(run, executable(plan), 1) == run_steps(run, executable(keep), 1));
  }
}

}  // namespace
}  // namespace olm2
