// Ctrl-C while olm2-plan and olm2-train plan: the best plan so far is taken.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A step whose best plan nobody proves in time.
const Sets kEndless = {"model.n_layer=24", "memory.device_budget=40%", "memory.host_budget=1 GiB",
                       "planner.gap=1e-9", "planner.time_limit_s=600"};

// Whether `process` has a child: its solver.
bool has_child(int process) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string text;
    if (!std::getline(stat, text)) continue;
    const size_t name_end = text.rfind(')');  // "id (name) state parent ..."
    if (name_end == std::string::npos || name_end + 4 > text.size()) continue;
    if (std::atoi(text.c_str() + name_end + 4) == process) return true;
  }
  return false;
}

// Until it is solving.
void wait_for_solver(Started& program) {
  while (program.is_running() && !has_child(program.process())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(InterruptedPlanningSlow, WritesTheBestPlanSoFar) {
  const ToyRun toy(kEndless);
  const std::string plan = (toy / "plan.json").string();
  Started program("olm2-plan", toy.command_line({"--out", plan}), toy / "");
  wait_for_solver(program);
  program.interrupt();
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("taking the best plan so far"));
  EXPECT_THAT(ended.out, HasSubstr("feasible (gap "));
  EXPECT_THAT(ended.out, HasSubstr("ended early: it was stopped"));
  EXPECT_EQ(nlohmann::json::parse(read_file(plan)).at("status"), "feasible");
}

TEST(InterruptedPlanningSlow, TrainsByTheBestPlanSoFar) {
  const ToyRun toy(kEndless);
  Started program = toy.start({"--set", "train.steps=1"});
  wait_for_solver(program);
  program.interrupt();
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("ended early: it was stopped"));
  EXPECT_EQ(toy.metrics().size(), 1U);
}

TEST(InterruptedPlanningSlow, EndsTablesWithWhatIsThere) {
  const ToyRun toy(kEndless);
  Started compare(
      "olm2-plan",
      toy.command_line({"--compare", "--policies", "olm2,none", "--budgets", "60%,40%"}), toy / "");
  wait_for_solver(compare);
  compare.interrupt();
  const Ended table = compare.wait();
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("olm2       60%        feasible"));
  EXPECT_THAT(table.out, HasSubstr("interrupted: "));
  EXPECT_THAT(table.out, Not(HasSubstr("none   ")));
}

TEST(InterruptedPlanningSlow, EndsTheProgramTheSecondTime) {
  const ToyRun toy(kEndless);
  Started program = toy.start();
  wait_for_solver(program);
  program.interrupt();
  // The first wish must have been heard, and planning be on its way to the end.
  while (read_file(toy / "stderr.txt").find("taking the best plan") == std::string::npos) {
    ASSERT_TRUE(program.is_running());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  program.interrupt();
  const int status = program.wait().status;
  EXPECT_TRUE(status == -SIGINT || status == 0) << status;  // 0: it was faster.
}

}  // namespace
}  // namespace olm2
