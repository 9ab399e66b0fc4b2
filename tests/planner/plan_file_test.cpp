#include "planner/plan_file.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Two programs planned by chen below what keeping everything takes.
struct ToyRun {
  toy::Training first = toy::training(5, 1);
  toy::Training second = toy::training(4, 2);
  Problem first_problem = toy::problem_of(first.graph, first.results);
  Problem second_problem = toy::problem_of(second.graph, second.results);
  PlanOptions options;
  Planned first_planned;
  Planned second_planned;

  ToyRun() {
    options.policy = "chen";
    for (Problem* problem : {&first_problem, &second_problem}) {
      problem->budget[0] = find_minimum(*problem, options).bytes;
    }
    first_planned = plan_program(first_problem, options);
    second_planned = plan_program(second_problem, options);
  }
  std::vector<NamedProblem> problems() const {
    return {{"first", &first_problem}, {"last", &second_problem}};
  }
  std::vector<ProgramPlan> plans() const {
    return {{"first", &first_problem, &first_planned}, {"last", &second_problem, &second_planned}};
  }
  std::string text() const { return print_plan_file(plans(), options, "today"); }
};

TEST(PlanFile, ReadsWhatItWrote) {
  ToyRun run;
  run.second_planned.certificate.ended_early = "time is up";
  const std::vector<Planned> plans =
      parse_plan_file(run.text(), "plan.json", run.problems(), run.options);
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(to_string(run.first.graph, plans[0].schedule->schedule()),
            to_string(run.first.graph, run.first_planned.schedule->schedule()));
  EXPECT_EQ(plans[0].plan.steps, run.first_planned.plan.steps);
  EXPECT_EQ(plans[1].certificate.peak, run.second_planned.certificate.peak);
  EXPECT_EQ(plans[1].certificate.status, Status::feasible);
  EXPECT_EQ(plans[1].certificate.recomputed, run.second_planned.certificate.recomputed);
  EXPECT_GT(plans[1].certificate.recomputed, 0);
  EXPECT_DOUBLE_EQ(plans[1].certificate.objective_s, run.second_planned.certificate.objective_s);
  EXPECT_EQ(plans[0].certificate.ended_early, "");
  EXPECT_EQ(plans[1].certificate.ended_early, "time is up");
}

// The fields at the top are what people read first.
TEST(PlanFile, SaysAtTheTopWhyAnyProgramEndedEarly) {
  for (const bool is_first : {true, false}) {
    ToyRun run;
    (is_first ? run.first_planned : run.second_planned).certificate.ended_early = "time is up";
    const std::string text = run.text();
    EXPECT_LT(text.find("\"ended_early\": \"time is up\""), text.find("\"programs\"")) << is_first;
  }
}

TEST(PlanFile, IsTheSameForTheSameInputsButForItsRun) {
  const ToyRun run;
  const ToyRun again;
  std::string other = print_plan_file(again.plans(), again.options, "tomorrow");
  const std::string text = run.text();
  const size_t at = text.find("\"run\"");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(text.substr(0, at), other.substr(0, at));
  parse_plan_file(other, "plan.json", run.problems(), run.options);
}

TEST(PlanFile, NamesWhatItWasNotMadeFor) {
  const std::string text = ToyRun().text();
  const auto read_with = [&](const auto& change) {
    ToyRun run;
    change(run);
    parse_plan_file(text, "plan.json", run.problems(), run.options);
  };
  EXPECT_NO_THROW(read_with([](ToyRun&) {}));
  const auto refuses = [&](const auto& change, const std::string& part) {
    EXPECT_THAT([&] { read_with(change); },
                ThrowsMessage<Error>(AllOf(HasSubstr("plan.json was made for other " + part),
                                           HasSubstr("plan again"))));
  };
  refuses([](ToyRun& run) { toy::add(run.first.graph, "more", {}, 1); }, "graph");
  refuses([](ToyRun& run) { run.second_problem.results.clear(); }, "graph");
  refuses([](ToyRun& run) { run.second_problem.seconds[0] *= 1.0000001; }, "profile");
  refuses([](ToyRun& run) { run.first_problem.workspace[1] = 1; }, "profile");
  refuses([](ToyRun& run) { run.first_problem.host_to_device.bytes_per_s += 1; }, "profile");
  refuses([](ToyRun& run) { run.first_problem.budget[1] -= 1; }, "budgets");
  refuses([](ToyRun& run) { run.options.gap = 0.01; }, "options");
  refuses([](ToyRun& run) { run.options.place_effort = 2; }, "options");
  refuses([](ToyRun& run) { run.options.policy = "none"; }, "options");
}

TEST(PlanFile, RefusesEditedCutAndForeignText) {
  const ToyRun run;
  const std::string text = run.text();
  const auto read = [&](const std::string& bad) {
    parse_plan_file(bad, "plan.json", run.problems(), run.options);
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string edited = text;
    const size_t at = edited.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return edited.replace(at, from.size(), to);
  };
  EXPECT_THAT([&] { read(replaced("offset 64", "offset 0")); },
              ThrowsMessage<Error>(HasSubstr("was changed")));
  EXPECT_THAT([&] { read(replaced("\"feasible\"", "\"optimal\"")); },
              ThrowsMessage<Error>(HasSubstr("was changed")));
  EXPECT_THAT([&] { read(replaced("\"ended_early\": \"\"", "\"ended_early\": \"it is late\"")); },
              ThrowsMessage<Error>(HasSubstr("was changed")));
  EXPECT_THAT([&] { read(replaced("\"version\": 2", "\"version\": 99")); },
              ThrowsMessage<Error>(HasSubstr("version 99")));
  EXPECT_THAT([&] { read(replaced("\"digest\"", "\"dogest\"")); },
              ThrowsMessage<Error>(HasSubstr("plan.json is no plan")));
  for (const size_t length : {size_t{0}, size_t{1}, text.size() / 2, text.size() - 3}) {
    EXPECT_THAT([&] { read(text.substr(0, length)); },
                ThrowsMessage<Error>(HasSubstr("cut short")));
  }
  EXPECT_THROW(read("[1, 2]"), Error);
  EXPECT_THROW(read("{}"), Error);
  EXPECT_NO_THROW(read(replaced("\"today\"", "\"some day\""))) << "the run is nobody's business";
}

TEST(PlanFile, LeavesNothingBehindWhereItCannotBeWritten) {
  const ToyRun run;
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "olm2_plan_file_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / "plan.json";
  write_plan_file(path, run.plans(), run.options, "today");
  EXPECT_EQ(read_plan_file(path, run.problems(), run.options).size(), 2U);
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(folder), {}); };
  EXPECT_EQ(files(), 1);
  EXPECT_THROW(write_plan_file(folder / "no" / "plan.json", run.plans(), run.options, ""), Error);
  EXPECT_THROW(read_plan_file(folder / "none.json", run.problems(), run.options), Error);
  std::filesystem::create_directories(folder / "taken.json" / "inside");
  EXPECT_THROW(write_plan_file(folder / "taken.json", run.plans(), run.options, ""), Error);
  EXPECT_EQ(files(), 2);
  std::filesystem::remove_all(folder);
}

TEST(PlanFile, HashesAsPublished) {
  EXPECT_EQ(hash_text(""), "cbf29ce484222325");
  EXPECT_EQ(hash_text("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(hash_text("foobar"), "85944171f73967e8");
}

}  // namespace
}  // namespace olm2
