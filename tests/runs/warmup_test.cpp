// A run that begins with one plan, measures its own steps and goes on with another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/runs/real_run.h"
#include "tests/runs/toy_run.h"
#include "train/measure.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;

const Sets kWarm = {"planner.profile=measure",  "train.steps=8",
                    "train.threads=1",          "memory.policy=warmup",
                    "memory.device_budget=60%", "memory.host_budget=1 MiB"};

std::vector<std::string> policies_of(const ToyRun& run) {
  std::vector<std::string> names;
  for (const nlohmann::json& line : run.metrics()) names.push_back(line.at("policy"));
  return names;
}

std::vector<std::string> times(std::initializer_list<std::pair<size_t, const char*>> parts) {
  std::vector<std::string> names;
  for (const auto& [count, name] : parts) names.insert(names.end(), count, name);
  return names;
}

TEST(WarmupSlow, ChangesThePlanOnceAndNoBit) {
  const ToyRun warm(kWarm);
  const TrainSummary summary = warm.train();
  EXPECT_EQ(policies_of(warm), times({{5, "lru"}, {3, "warmup"}}));
  EXPECT_EQ(warm.plan()["policy"], "warmup");
  const std::string profile = read_file(warm.folder() / "plan.profile.json");
  EXPECT_EQ(parse_profile(profile, "plan.profile.json").source, "measured");
  EXPECT_EQ(summary.measured, summary.planned);
  for (const nlohmann::json& line : warm.metrics()) {
    EXPECT_EQ(line["peak_device_bytes"], line["planned_device_bytes"]);
    EXPECT_EQ(line["peak_host_bytes"], line["planned_host_bytes"]);
  }

  const ToyRun keep(kWarm);
  keep.train({"memory.policy=none", "memory.device_budget=100%"});
  EXPECT_EQ(warm.column("loss"), keep.column("loss"));
  EXPECT_EQ(warm.column("grad_norm"), keep.column("grad_norm"));
  EXPECT_TRUE(warm.weights(8) == keep.weights(8));
}

TEST(WarmupSlow, MovesStateThatRestsElsewhereAfterwards) {
  const Sets away = {"memory.state=planned", "planner.time_limit_s=3", "memory.device_budget=30%",
                     "memory.host_budget=4 MiB"};
  const ToyRun warm(kWarm);
  const TrainSummary summary = warm.train(away);
  EXPECT_EQ(summary.measured, summary.planned);
  const ToyRun keep(kWarm);
  keep.train({"memory.policy=none", "memory.device_budget=100%"});
  EXPECT_EQ(warm.column("loss"), keep.column("loss"));
  EXPECT_TRUE(warm.weights(8) == keep.weights(8));
}

TEST(WarmupSlow, AResumedRunKnowsItsTimes) {
  const ToyRun warm(kWarm);
  TrainRequest six;
  six.steps = 6;
  warm.train({}, six);
  warm.resume();
  EXPECT_EQ(policies_of(warm), times({{5, "lru"}, {3, "warmup"}}));
}

TEST(WarmupSlow, ARunStoppedBeforeItLearnedBeginsToLearnAgain) {
  const ToyRun warm(kWarm);
  TrainRequest two;
  two.steps = 2;
  warm.train({}, two);
  EXPECT_FALSE(std::filesystem::exists(warm.folder() / "plan.profile.json"));
  EXPECT_EQ(warm.plan()["policy"], "lru");
  warm.resume();
  EXPECT_EQ(policies_of(warm), times({{7, "lru"}, {1, "warmup"}}));
}

TEST(WarmupSlow, WithGivenTimesThereIsNothingToLearn) {
  const ToyRun given(kWarm);
  given.train({"planner.profile=slow_link.json", "train.steps=6"});
  EXPECT_EQ(policies_of(given), times({{6, "warmup"}}));
}

std::vector<ExecutableProgram> kept(const MixedRun& run) {
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  PlanOptions options;
  options.policy = "none";
  return executable(plan_run(run.programs, run.problems, all, options));
}

TEST(Exchange, KeepsStateAndMemory) {
  MixedRun run(odd_gpt2());
  const Outcome expected = run_steps(run, kept(run), 4);

  std::vector<ExecutableProgram> first = kept(run);
  ExecutorOptions options;
  for (const ExecutableProgram& program : first) {
    options.least_arena = program.schedule.schedule().arena;
  }
  options.least_arena[index_of(Tier::host)] = run.config.memory.host_budget.bytes;
  Executor executor(std::move(first), run.backend, options);
  const BytesPerTier arena = executor.arena_bytes();
  start_state(run, executor);
  StepRunner runner(executor, run.config);
  const auto fill = [&](int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) {
    fill_tokens(index, run.config.model.vocab_size, tokens, targets);
  };
  std::vector<double> losses;
  for (int64_t step = 0; step < 4; ++step) {
    if (step == 2) executor.exchange(executable(run.plan));
    const StepResult result = runner.run(step, fill);
    losses.push_back(result.loss);
    const bool exchanged = step >= 2;
    EXPECT_EQ(result.report.peak == run.plan.peak, exchanged);
    EXPECT_EQ(result.report.copied_bytes > 0, exchanged);
  }
  EXPECT_EQ(losses, expected.losses);
  EXPECT_EQ(executor.arena_bytes(), arena);
}

TEST(Exchange, RefusesWhatDoesNotFit) {
  MixedRun run(odd_gpt2());
  Executor executor(executable(run.plan), run.backend);
  try {
    executor.exchange(kept(run));
    FAIL() << "larger than what was allocated";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("allocated were"));
  }
  start_state(run, executor);
  StepRunner runner(executor, run.config);  // Still runs what it had.
  const StepResult result =
      runner.run(0, [&](int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) {
        fill_tokens(index, run.config.model.vocab_size, tokens, targets);
      });
  EXPECT_EQ(result.report.peak, run.plan.peak);
}

}  // namespace
}  // namespace olm2
