// Going on with a run: bit for bit, under another budget, and only with what fits.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Sets kMixed = {"planner.profile=slow_link.json", "memory.device_budget=60%",
                     "memory.host_budget=1 MiB", "output.eval_every=5"};

// Everything of two runs but what the clock decides.
void expect_same_run(const ToyRun& got, const ToyRun& expected, int64_t steps,
                     nlohmann::json (*comparable)(nlohmann::json)) {
  ASSERT_THAT(got.metrics(), SizeIs(static_cast<size_t>(steps)));
  ASSERT_THAT(expected.metrics(), SizeIs(static_cast<size_t>(steps)));
  for (size_t i = 0; i < static_cast<size_t>(steps); ++i) {
    EXPECT_EQ(comparable(got.metrics()[i]), comparable(expected.metrics()[i]));
  }
  EXPECT_TRUE(checkpoint_bytes(got.checkpoint(steps)) ==
              checkpoint_bytes(expected.checkpoint(steps)))
      << "the final checkpoints differ";
}

TEST(Resume, InANewProcessGivesTheRunThatWasNeverInterrupted) {
  const ToyRun whole(kMixed);
  const Ended at_once = whole.run();
  ASSERT_EQ(at_once.status, 0) << at_once.err;

  const ToyRun halves(kMixed);
  const Ended first = halves.run({"--steps", "10"});
  ASSERT_EQ(first.status, 0) << first.err;
  ASSERT_THAT(halves.metrics(), SizeIs(10));
  const std::string log = read_file(halves.folder() / "metrics.jsonl");
  const Ended second = halves.run({"--resume"});
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("at step 10"));

  expect_same_run(halves, whole, 20, without_times);
  EXPECT_EQ(read_file(halves.folder() / "metrics.jsonl").substr(0, log.size()), log)
      << "the first lines of the log are not as they were";
  EXPECT_TRUE(halves.metrics()[14].contains("val_loss"));
}

TEST(Resume, OfAFinishedRunChangesNothing) {
  const ToyRun toy({"train.steps=2"});
  toy.train();
  const auto before = checkpoint_bytes(toy.checkpoint(2));
  EXPECT_EQ(toy.resume().last_step, 2);
  EXPECT_THAT(toy.metrics(), SizeIs(2));
  EXPECT_TRUE(checkpoint_bytes(toy.checkpoint(2)) == before);
}

TEST(Resume, WithLessOrMoreMemoryChangesThePlanAndNoBit) {
  const Sets keep = {"memory.policy=none", "output.eval_every=5"};
  const ToyRun whole(keep);
  whole.train();
  const std::vector<Sets> others = {
      {"memory.policy=olm2", "memory.device_budget=60%", "memory.host_budget=1 MiB"},
      {"memory.policy=recompute", "memory.device_budget=60%"},
      {"memory.policy=recompute", "memory.device_budget=60%", "memory.state=resident"},
      {"memory.policy=olm2", "memory.device_budget=650 KiB", "memory.host_budget=4 MiB"},
      {"memory.policy=olm2", "memory.device_budget=200%"},
      {"memory.policy=olm2", "memory.device_budget=64 MiB"}};
  for (const Sets& other : others) {
    SCOPED_TRACE(other[0] + " " + other[1]);
    const ToyRun toy(keep);
    TrainRequest request;
    request.steps = 10;
    toy.train({}, request);
    const auto peak = toy.metrics()[9].at("planned_device_bytes").get<int64_t>();
    toy.resume(other);
    const auto new_peak = toy.metrics()[10].at("planned_device_bytes").get<int64_t>();
    if (other[1].ends_with("60%") || other[1].ends_with("KiB")) {  // Below the state: 733 KiB.
      EXPECT_LT(new_peak, peak) << "the plan did not change";
    } else {
      EXPECT_EQ(new_peak, peak);
    }
    expect_same_run(toy, whole, 20, without_memory);
  }
}

TEST(Resume, WithAnotherNumberOfHeadChunksGoesOnFromTheSameState) {
  const Sets one = {"train.steps=6", "train.head_chunks=1"};
  const ToyRun whole(one);
  whole.train();
  const ToyRun toy(one);
  TrainRequest request;
  request.steps = 3;
  toy.train({}, request);
  toy.resume({"train.head_chunks=5"});
  const std::vector<double> losses = toy.column("loss");
  const std::vector<double> expected = whole.column("loss");
  ASSERT_THAT(losses, SizeIs(6));
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(losses[i], expected[i], i < 3 ? 0 : 1e-3) << i;
  // The first loss after the checkpoint is that of the same weights: only its last bits may differ.
  EXPECT_NEAR(losses[3], expected[3], 1e-5);
}

std::string resume_refusal(const ToyRun& toy, const Sets& sets) {
  TrainRequest request;
  request.resume = true;
  return toy.refusal(sets, request);
}

TEST(Resume, OfAnotherModelIsRefusedNamingEveryFieldAndTouchingNothing) {
  const ToyRun toy({"train.steps=1"});
  toy.train();
  const auto before = checkpoint_bytes(toy.checkpoint(1));
  const std::string config = read_file(toy.folder() / "config.toml");
  const std::string plan = read_file(toy.folder() / "plan.json");
  EXPECT_THAT(
      resume_refusal(toy, {"model.n_layer=2", "train.sequence_length=4", "model.vocab_size=300"}),
      AllOf(HasSubstr("model.n_layer: found 3 in the checkpoint, expected 2"),
            HasSubstr("train.sequence_length: found 16 in the checkpoint, expected 4"),
            HasSubstr("model.vocab_size: found 257 in the checkpoint, expected 300")));
  EXPECT_TRUE(checkpoint_bytes(toy.checkpoint(1)) == before);
  EXPECT_EQ(read_file(toy.folder() / "config.toml"), config);
  EXPECT_EQ(read_file(toy.folder() / "plan.json"), plan);
  EXPECT_THAT(toy.metrics(), SizeIs(1));
}

TEST(Resume, WithAnotherBatchIsRefusedForItsPositionInTheData) {
  const ToyRun toy({"train.steps=2"});
  toy.train();
  EXPECT_THAT(resume_refusal(toy, {"train.batch_size=8"}),
              AllOf(HasSubstr("had read 16 sequences"), HasSubstr("would have read 32")));
}

TEST(Resume, OfWeightsOnlyAsksForAFreshOptimizer) {
  const ToyRun toy({"train.steps=4"});
  TrainRequest request;
  request.steps = 2;
  toy.train({}, request);
  std::filesystem::remove(toy.checkpoint(2) / "optimizer.safetensors");
  EXPECT_THAT(resume_refusal(toy, {}), HasSubstr("train.fresh_optimizer = true"));
  EXPECT_EQ(toy.resume({"train.fresh_optimizer=true"}).last_step, 4);
}

// Symptom: with every checkpoint damaged, the run began anew and its log and checkpoints were lost.
TEST(Resume, OfDamagedCheckpointsIsRefusedAndLosesNothing) {
  const ToyRun toy({"train.steps=3"});
  TrainRequest request;
  request.steps = 2;
  toy.train({}, request);
  const std::filesystem::path model = toy.checkpoint(2) / "model.safetensors";
  std::filesystem::resize_file(model, std::filesystem::file_size(model) - 1);
  EXPECT_THAT(resume_refusal(toy, {}), HasSubstr("no checkpoint in"));
  EXPECT_THAT(toy.metrics(), SizeIs(2));
  EXPECT_TRUE(std::filesystem::exists(model));
}

TEST(Resume, WithOtherDataSaysSo) {
  const ToyRun toy({"train.steps=3"});
  TrainRequest request;
  request.steps = 2;
  toy.train({}, request);
  testing::internal::CaptureStderr();
  toy.resume({"data.shuffle=false"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("training data are not those the run was started with"));
}

TEST(Resume, OfNothingIsRefusedAndMakesNoFolder) {
  const ToyRun toy;
  EXPECT_THAT(resume_refusal(toy, {}), HasSubstr("holds no run"));
  EXPECT_FALSE(std::filesystem::exists(toy.folder()));
}

TEST(Resume, OfARunThatDiedBeforeItsFirstCheckpointBeginsAnew) {
  const ToyRun toy({"train.steps=3"});
  toy.train();
  const std::vector<double> losses = toy.column("loss");
  std::filesystem::remove_all(toy.folder() / "checkpoints");
  const TrainSummary summary = toy.resume();
  EXPECT_EQ(summary.first_step, 0);
  EXPECT_EQ(toy.column("loss"), losses);
}

TEST(Resume, IsNeededToGoOnInAFolderThatHoldsARun) {
  const ToyRun toy({"train.steps=1"});
  toy.train();
  EXPECT_THAT(toy.refusal(), AllOf(HasSubstr("holds a run already"), HasSubstr("--resume")));
  EXPECT_THAT(toy.metrics(), SizeIs(1));
}

}  // namespace
}  // namespace olm2
