// olm2-train as it is typed: exit statuses, messages, and what a refusal leaves behind.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/version.h"
#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

Ended olm2_train(const std::vector<std::string>& arguments) {
  const ScratchFolder scratch;
  return Started("olm2-train", arguments, scratch.path()).wait();
}

TEST(CommandLine, ThatIsWrongEndsWithTwo) {
  const ToyRun toy;
  EXPECT_EQ(olm2_train({}).status, 2);
  EXPECT_EQ(toy.run({"--no-such-option"}).status, 2);
  EXPECT_EQ(toy.run({"--steps", "0"}).status, 2);
  EXPECT_EQ(toy.run({"--steps", "many"}).status, 2);
  EXPECT_EQ(toy.run({"one-too-many.toml"}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(toy.folder()));
}

TEST(CommandLine, HelpAndVersionEndWithZero) {
  const Ended help = olm2_train({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("Example: olm2-train"));
  const Ended version = olm2_train({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, HasSubstr(version_text()));
}

void expect_refused(const ToyRun& toy, const std::vector<std::string>& options,
                    const ::testing::Matcher<const std::string&>& message) {
  const Ended ended = toy.run(options);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out, IsEmpty());
  EXPECT_THAT(ended.err, AllOf(StartsWith("olm2-train: "), message));
  EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(toy.folder())) << "something was left behind";
}

TEST(CommandLine, ThatAsksForTheImpossibleEndsWithOneAndOneMessage) {
  const ToyRun toy;
  expect_refused(toy, {"--set", "optimizer.learnig_rate=1e-3"},
                 AllOf(HasSubstr("optimizer.learnig_rate"), HasSubstr("did you mean")));
  expect_refused(toy, {"--set", "memory.device_budget=4096"}, HasSubstr("unit"));
  expect_refused(toy, {"--set", "data.train=[\"nothing_*.bin\"]"}, HasSubstr("matches no file"));
  const Ended missing = olm2_train({"/nonexistent/toy.toml"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("/nonexistent/toy.toml"));
}

TEST(CommandLine, NamesTheLineOfAnUnknownKey) {
  const ToyRun toy;
  const std::string text = read_file(toy.config_file());
  const std::string with_typo = text + "log_evry = 5\n";
  const int64_t line = std::ranges::count(with_typo, '\n');
  write_file(toy.config_file(), with_typo);
  expect_refused(toy, {},
                 AllOf(HasSubstr("line " + std::to_string(line) + ":"), HasSubstr("log_evry"),
                       HasSubstr("did you mean output.log_every?")));
}

TEST(CommandLine, RefusesATotalBatchThatMicroBatchesCannotMake) {
  const ToyRun toy;
  const std::string config = read_file(toy.config_file());
  const std::string accumulation = "grad_accumulation = 2\n";
  std::string without = config;
  without.erase(without.find(accumulation), accumulation.size());
  write_file(toy.config_file(), without);
  expect_refused(toy, {"--set", "train.total_batch_tokens=1000"},
                 AllOf(HasSubstr("960"), HasSubstr("1024")));
  for (const char* total : {"63", "0", "-64"}) {
    expect_refused(toy, {"--set", std::string("train.total_batch_tokens=") + total},
                   HasSubstr("nearest: 64"));
  }
}

TEST(CommandLine, OfARunSpeaksOnStderrAndSumsUpOnStdout) {
  const ToyRun toy({"train.steps=2"});
  const Ended ended = toy.run();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("device peak: planned"), HasSubstr("measured"),
                               HasSubstr("metrics.jsonl"), HasSubstr("plan.json")));
  EXPECT_THAT(ended.err, AllOf(HasSubstr("plan for"), HasSubstr("training data")));
  for (const char* name : {"config.toml", "plan.json", "metrics.jsonl", "checkpoints"}) {
    EXPECT_TRUE(std::filesystem::exists(toy.folder() / name)) << name;
  }
}

TEST(DryRun, PlansWithoutDataAndTrainsNothing) {
  const ToyRun toy;
  std::filesystem::remove(toy / "toy_train_000000.bin");
  const Ended ended = toy.run({"--dry-run"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("plan for"));
  EXPECT_TRUE(std::filesystem::exists(toy.folder() / "plan.json"));
  EXPECT_THAT(toy.metrics(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(toy.folder() / "checkpoints"));
}

}  // namespace
}  // namespace olm2
