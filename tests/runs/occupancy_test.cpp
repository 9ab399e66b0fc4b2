// What a step has in memory, counted from the addresses it hands out, is what its plan says: at
// every instruction, in every tier, under every policy.
#include "planner/occupancy.h"

#include <gtest/gtest.h>

#include "tests/runs/real_run.h"

namespace olm2 {
namespace {

TEST(Occupancy, MeasuredIsThePlannedOneUnderEveryPolicy) {
  MixedRun run(odd_gpt2());
  for (const Policy& policy : all_policies()) {
    PlanOptions options = plan_options_of(run.config);
    options.policy = policy.name;
    Budgets budgets = run.plan.budgets;
    for (Problem& problem : run.problems) {
      problem.budget = budgets.bytes;
      const int64_t least = find_minimum(problem, options).bytes;
      budgets.bytes[0] = std::max(budgets.bytes[0], least);
    }
    const RunPlan plan = plan_run(run.programs, run.problems, budgets, options);
    Executor executor(executable(plan), run.backend, {.trace = true});
    StepRunner runner(executor, run.config);
    runner.run(0, [&](int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) {
      fill_tokens(index, run.config.model.vocab_size, tokens, targets);
    });
    const Schedule& schedule = plan.programs.front().planned.schedule->schedule();
    EXPECT_EQ(executor.occupancy(), occupancy_per_instruction(schedule)) << policy.name;
  }
}

}  // namespace
}  // namespace olm2
