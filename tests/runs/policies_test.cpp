// What policies and budgets change of a training run: memory and time, and no bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void expect_same_bits(const ToyRun& got, const ToyRun& expected, int64_t steps) {
  EXPECT_EQ(got.column("loss"), expected.column("loss"));
  EXPECT_EQ(got.column("grad_norm"), expected.column("grad_norm"));
  EXPECT_TRUE(got.weights(steps) == expected.weights(steps)) << "other final weights";
}

// Dropout is on: a mask that came out differently when it is recomputed would show.
TEST(Policies, TrainToTheSameBits) {
  const Sets sets = {"train.steps=10", "train.threads=2", "planner.profile=slow_link.json"};
  const ToyRun keep(sets);
  keep.train({"memory.policy=none"});

  const ToyRun segments(sets);
  segments.train({"memory.policy=chen", "memory.device_budget=60%"});
  EXPECT_GT(segments.plan()["recomputed_nodes"], 10);
  expect_same_bits(segments, keep, 10);

  const ToyRun mixed(sets);
  mixed.train({"memory.policy=olm2", "memory.device_budget=60%", "memory.host_budget=1 MiB"});
  EXPECT_GT(mixed.plan()["recomputed_nodes"], 0);
  EXPECT_GT(mixed.plan()["copied_bytes"], 0);
  expect_same_bits(mixed, keep, 10);
}

TEST(Budget, OfEverythingIsUsedToKeepEverything) {
  const Sets sets = {"train.steps=3", "memory.host_budget=1 MiB"};
  const ToyRun generous(sets);
  generous.train({"memory.device_budget=100%"});
  const nlohmann::json plan = generous.plan();
  EXPECT_EQ(plan["status"], "optimal");
  EXPECT_EQ(plan["recomputed_nodes"], 0);
  EXPECT_EQ(plan["copied_bytes"], 0);
  EXPECT_EQ(plan["objective_ms"], plan["baseline_ms"]);
  EXPECT_EQ(plan["gap"], 0.0);
  EXPECT_LT(plan["run"]["solve_seconds"], 1.0);
  const ToyRun keep(sets);
  keep.train({"memory.policy=none"});
  expect_same_bits(generous, keep, 3);
}

TEST(Budget, IsWhatIsPlannedAndMeasured) {
  const ToyRun toy({"train.steps=2", "memory.device_budget=60%", "memory.host_budget=1 MiB"});
  const TrainSummary summary = toy.train();
  EXPECT_EQ(summary.measured, summary.planned);
  EXPECT_GT(summary.planned[index_of(Tier::device)], 0);
  for (const nlohmann::json& line : toy.metrics()) {
    EXPECT_EQ(line["peak_device_bytes"], line["planned_device_bytes"]);
    EXPECT_EQ(line["peak_host_bytes"], line["planned_host_bytes"]);
  }
}

TEST(Budget, BelowTheMinimumIsRefusedBeforeAnythingRuns) {
  const ToyRun toy({"memory.device_budget=1%"});
  const std::string message = toy.refusal();
  EXPECT_THAT(message, AllOf(HasSubstr("memory.device_budget"), HasSubstr("binding moment: "),
                             HasSubstr("alive there: "), HasSubstr("Raise the budget")));
  EXPECT_THAT(toy.metrics(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(toy.folder() / "plan.json"));
  EXPECT_FALSE(std::filesystem::exists(toy.folder() / "checkpoints"));

  // What it names as the minimum is one.
  const std::string_view before = "smallest plan needs ";
  const size_t found = message.find(before);
  ASSERT_NE(found, std::string::npos) << message;
  const int64_t minimum = std::stoll(message.substr(found + before.size()));
  TrainRequest one_step;
  one_step.steps = 1;
  EXPECT_EQ(toy.train({"memory.device_budget=\"" + std::to_string(minimum) + " B\"",
                       "planner.time_limit_s=2"},
                      one_step)
                .last_step,
            1);
}

}  // namespace
}  // namespace olm2
