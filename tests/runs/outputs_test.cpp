// What a run writes besides its metrics and checkpoints, and what it does with bad numbers.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Sets kExploding = {"train.steps=4", "optimizer.lr=1e30", "optimizer.warmup_steps=0",
                         "optimizer.schedule=constant"};

TEST(NonfiniteGradient, StopsTheRunWithTheLastFiniteStateSaved) {
  const ToyRun toy(kExploding);
  EXPECT_THAT(toy.refusal(), AllOf(HasSubstr("step 2:"), HasSubstr("those of step 1, saved"),
                                   HasSubstr("optimizer.lr")));
  EXPECT_THAT(toy.metrics(), SizeIs(1));
  EXPECT_TRUE(std::filesystem::exists(toy.checkpoint(1) / "complete"));
  for (const auto& [name, numbers] : toy.weights(1)) {
    for (const float number : numbers) ASSERT_TRUE(std::isfinite(number)) << name;
  }
}

TEST(NonfiniteGradient, IsSkippedWhereAskedForAndChangesNothing) {
  const ToyRun stopped(kExploding);
  stopped.refusal();
  const ToyRun toy(kExploding);
  EXPECT_EQ(toy.train({"train.on_nonfinite=skip"}).skipped_steps, 3);
  ASSERT_THAT(toy.metrics(), SizeIs(4));
  EXPECT_TRUE(toy.metrics()[3]["grad_norm"].is_null());
  EXPECT_TRUE(toy.weights(4) == stopped.weights(1));
}

TEST(Samples, AreWrittenAsOftenAsAskedFor) {
  const ToyRun toy({"train.steps=5", "output.sample_every=2"});
  toy.train();
  const std::string text = read_file(toy.folder() / "samples.txt");
  for (const char* step : {"--- step 2\n", "--- step 4\n", "--- step 5\n"}) {
    EXPECT_THAT(text, HasSubstr(step));
  }
  EXPECT_THAT(text, ::testing::Not(HasSubstr("--- step 1\n")));
  EXPECT_GT(text.size(), 200U);
  // Sampling between steps changes no step.
  const ToyRun silent({"train.steps=5"});
  silent.train();
  EXPECT_EQ(toy.column("loss"), silent.column("loss"));
}

// With an evaluation after the last step, whose lanes are not the ones asked for.
TEST(Trace, HoldsEveryInstructionOfTheLastStep) {
  const ToyRun toy({"train.steps=2", "output.eval_every=1", "output.sample_every=1",
                    "memory.device_budget=60%", "memory.host_budget=1 MiB"});
  const std::filesystem::path file = toy / "trace.json";
  const Ended ended = toy.run({"--trace", file.string()});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const nlohmann::json trace = nlohmann::json::parse(read_file(file));
  size_t updates = 0;
  size_t copies = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("dur").get<double>(), 0);
    updates += event.at("args").value("op", "") == "adamw" ? 1 : 0;
    copies += event.at("args").contains("bytes") ? 1 : 0;
  }
  EXPECT_EQ(updates, toy.weights(2).size());
  EXPECT_GT(copies, 0U);
}

}  // namespace
}  // namespace olm2
