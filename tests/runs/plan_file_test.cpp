// plan.json between runs: reproducible, and only for what it was made for.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

const Sets kMixed = {"planner.profile=slow_link.json", "memory.device_budget=60%",
                     "memory.host_budget=1 MiB", "train.steps=3"};

void dry_run(const ToyRun& toy, const Sets& sets = {}) {
  TrainRequest request;
  request.dry_run = true;
  toy.train(sets, request);
}

// The text up to the field `run`, which is the last one.
std::string reproducible_part(const ToyRun& toy) {
  const std::string text = read_file(toy.folder() / "plan.json");
  const size_t run = text.find("\n \"run\": {");
  EXPECT_NE(run, std::string::npos);
  return text.substr(0, run);
}

// Of the planner's process.  train.threads is the kernels' and an input of the plan: each of them
// has scratch of its own.
TEST(PlanFile, IsByteEqualWithOneAndWithEightThreads) {
  std::vector<std::string> texts;
  for (const char* threads : {"1", "8"}) {
    const ToyRun toy(kMixed);
    ::setenv("OMP_NUM_THREADS", threads, 1);
    const Ended ended = toy.run({"--dry-run"});
    ::unsetenv("OMP_NUM_THREADS");
    ASSERT_EQ(ended.status, 0) << ended.err;
    texts.push_back(reproducible_part(toy));
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(PlanFile, OfTheSameConfigurationIsRunAsItStands) {
  const ToyRun planner(kMixed);
  dry_run(planner);
  const ToyRun toy(kMixed);
  const Ended ended = toy.run({"--plan", (planner.folder() / "plan.json").string()});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(reproducible_part(toy), reproducible_part(planner));
  const ToyRun usual(kMixed);
  usual.train();
  EXPECT_EQ(toy.column("loss"), usual.column("loss"));
}

// Symptom: with measured times, a plan of olm2-plan was never the one olm2-train would accept.
TEST(PlanFile, OfOlm2PlanIsRunByOlm2TrainWithTheTimesItWasMadeFor) {
  const ToyRun toy({"planner.profile=measure", "memory.policy=recompute",
                    "memory.device_budget=80%", "train.steps=2"});
  const std::string plan = (toy / "plans.json").string();
  const Ended planned = Started("olm2-plan", toy.command_line({"--out", plan}), toy / "").wait();
  ASSERT_EQ(planned.status, 0) << planned.err;
  const Ended ended = toy.run({"--plan", plan});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(toy.metrics(), SizeIs(2));
}

void expect_refused(const ToyRun& toy, const std::filesystem::path& plan,
                    const std::string& reason) {
  const Ended ended = toy.run({"--plan", plan.string()});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr(plan.string()));
  EXPECT_THAT(ended.err, HasSubstr(reason));
  EXPECT_THAT(toy.metrics(), SizeIs(0));
}

TEST(PlanFile, OfAnotherRunIsRefusedByItsHashes) {
  Sets sets = kMixed;
  sets[0] = "planner.profile=estimate";  // Also for other sizes.
  sets.push_back("planner.gap=0.1");
  const ToyRun toy(sets);
  const std::vector<std::pair<std::string, std::string>> others = {
      {"train.batch_size=2", "other graph"},
      {"model.n_layer=2", "other graph"},
      {"planner.profile=slow_link.json", "other profile"},
      {"memory.device_budget=80%", "other budgets"},
      {"memory.partial_swap=false", "other options"}};
  for (const auto& [set, reason] : others) {
    const ToyRun foreign(sets);
    dry_run(foreign, {set});
    expect_refused(toy, foreign.folder() / "plan.json", reason);
  }
}

TEST(PlanFile, EditedByHandIsRefusedByItsDigest) {
  const ToyRun planner(kMixed);
  dry_run(planner);
  const std::filesystem::path plan = planner.folder() / "plan.json";
  std::string text = read_file(plan);
  const size_t digit = text.find("\"objective_ms\": ") + 16;
  text[digit] = text[digit] == '1' ? '2' : '1';
  write_file(plan, text);
  expect_refused(ToyRun(kMixed), plan, "was changed after it was written");
}

}  // namespace
}  // namespace olm2
