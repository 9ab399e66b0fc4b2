// A training run killed at random moments while it saves a checkpoint after every step.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kSteps = 400;
constexpr int kKills = 8;

int64_t lines_of_log(const ToyRun& toy) {
  std::error_code error;
  if (!std::filesystem::exists(toy.folder() / "metrics.jsonl", error)) return 0;
  const std::string text = read_file(toy.folder() / "metrics.jsonl");
  return std::ranges::count(text, '\n');
}

// Folders of checkpoints/ newer than `step`: what a kill left unfinished.
std::vector<std::string> newer_than(const ToyRun& toy, int64_t step) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(toy.folder() / "checkpoints")) {
    const std::string name = entry.path().filename();
    if (std::stoll(name.substr(5)) > step) names.push_back(name);
  }
  return names;
}

// Waits until the run has made some steps since `begin`, and a random moment longer, and kills it.
void kill_while_it_saves(const ToyRun& toy, Started& process, int64_t begin, std::mt19937& random) {
  using std::chrono::microseconds;
  while (lines_of_log(toy) < begin + 2 && process.is_running()) {
    std::this_thread::sleep_for(microseconds(500));
  }
  std::this_thread::sleep_for(microseconds(random() % 20'000));
  process.kill();
}

// The step in "resuming from .../step_000012 at step 12".
int64_t resumed_at(const std::string& err) {
  const std::string_view mark = " at step ";
  const size_t found = err.find(mark);
  return found == std::string::npos ? -1 : std::stoll(err.substr(found + mark.size()));
}

TEST(KilledRunSlow, LosesAtMostOneStepAndNoBit) {
  const Sets sets = {"output.checkpoint_every=1", "output.log_every=100",
                     "train.steps=" + std::to_string(kSteps)};
  const ToyRun toy(sets);
  std::mt19937 random(20);
  std::vector<std::string> options;
  int64_t begin = 0;
  for (int kill = 0; kill < kKills && begin + 8 < kSteps; ++kill) {
    Started process = toy.start(options);
    kill_while_it_saves(toy, process, begin, random);
    ASSERT_EQ(process.wait().status, -SIGKILL) << "the run ended before it was killed";
    const int64_t made = lines_of_log(toy);

    options = {"--resume"};
    const Ended resumed = toy.run({"--resume", "--steps", "1"});
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    begin = resumed_at(resumed.err);
    EXPECT_GE(begin, made - 1) << "more than one step was lost";
    EXPECT_LE(begin, made);
    EXPECT_EQ(lines_of_log(toy), begin + 1);
    for (const std::string& name : newer_than(toy, begin + 1)) {
      EXPECT_THAT(resumed.err, HasSubstr("skipped " + name));
    }
    ++begin;
  }
  const Ended last = toy.run({"--resume"});
  ASSERT_EQ(last.status, 0) << last.err;

  const ToyRun undisturbed({"output.log_every=100", "train.steps=" + std::to_string(kSteps)});
  undisturbed.train();
  EXPECT_TRUE(checkpoint_bytes(toy.checkpoint(kSteps)) ==
              checkpoint_bytes(undisturbed.checkpoint(kSteps)));
  ASSERT_THAT(toy.metrics(), SizeIs(static_cast<size_t>(kSteps)));
  EXPECT_EQ(toy.column("loss"), undisturbed.column("loss"));
}

// Where a kill falls between the files of a checkpoint is a matter of luck above, not here.
TEST(Resume, SaysWhichUnfinishedCheckpointsItSkipped) {
  const ToyRun toy({"train.steps=3", "output.checkpoint_every=1"});
  TrainRequest two_steps;
  two_steps.steps = 2;
  toy.train({}, two_steps);
  std::filesystem::remove(toy.checkpoint(2) / "complete");
  std::filesystem::create_directory(toy.folder() / "checkpoints" / "step_000003.tmp");
  const Ended resumed = toy.run({"--resume"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed_at(resumed.err), 1);
  EXPECT_THAT(resumed.err, HasSubstr("skipped step_000003.tmp: it was being written"));
  EXPECT_THAT(resumed.err, HasSubstr("skipped step_000002: the marker 'complete' is missing"));
  EXPECT_THAT(toy.metrics(), SizeIs(3));
}

}  // namespace
}  // namespace olm2
