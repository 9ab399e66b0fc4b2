// What olm2-plan answers besides a plan: why, the largest batch, the model for other solvers.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/model_file.h"
#include "tests/runs/real_run.h"
#include "tests/runs/toy_run.h"
#include "train/plan_largest.h"
#include "train/plan_why.h"
#include "train/tensor_fates.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The largest tensor that the backward pass reads and that has this fate.
std::string tensor_with(const PlannedProgram& entry, Fate fate) {
  const Graph& graph = *entry.problem.graph;
  std::string name;
  int64_t most = 0;
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    const ValueId id{static_cast<int32_t>(v)};
    if (value.role != Role::activation || !value.producer.valid() || value.home.valid()) continue;
    if (graph.node(value.producer).phase != Phase::forward) continue;
    const bool is_read_later = std::ranges::any_of(graph.nodes(), [&](const Node& node) {
      return node.phase != Phase::forward && std::ranges::count(node.inputs, id) > 0;
    });
    if (!is_read_later || fate_of(entry.problem, entry.planned.plan, id) != fate) continue;
    if (value.type.bytes() <= most) continue;
    most = value.type.bytes();
    name = value.name;
  }
  return name;
}

TEST(Why, ExplainsKeptRecomputedAndMovedTensors) {
  const MixedRun run(odd_gpt2());
  const PlannedProgram& entry = run.plan.programs.front();
  const std::string kept = why(entry, tensor_with(entry, Fate::kept));
  EXPECT_THAT(kept, AllOf(HasSubstr("born     forward pass"), HasSubstr("  computed: device bytes"),
                          HasSubstr("read by"), HasSubstr("The plan keeps it."),
                          HasSubstr("  computed again "), HasSubstr("  moved ")));
  EXPECT_THAT(kept, Not(HasSubstr("copied,")));
  const std::string again = why(entry, tensor_with(entry, Fate::computed_again));
  EXPECT_THAT(again, AllOf(HasSubstr("  computed again: device bytes"),
                           HasSubstr("The plan computes it again."), HasSubstr("  kept ")));
  const std::string moved = why(entry, tensor_with(entry, Fate::moved));
  EXPECT_THAT(moved, AllOf(HasSubstr(" -> host bytes"), HasSubstr(" -> device bytes"),
                           HasSubstr("The plan moves it to the host and back."),
                           HasSubstr("all free: host bytes")));
}

TEST(Why, SaysWhereThereIsNothingToDecide) {
  const MixedRun run(odd_gpt2());
  const PlannedProgram& entry = run.plan.programs.front();
  EXPECT_THAT(why(entry, "tokens"),
              AllOf(HasSubstr("before the step: input"), HasSubstr("Nothing to decide")));
  EXPECT_THAT(why(entry, "wte.weight"), HasSubstr("Nothing to decide"));
  EXPECT_THAT(why(entry, "loss"), HasSubstr("whoever runs the step"));
}

TEST(Why, RefusesANameWithNearOnes) {
  const MixedRun run(odd_gpt2());
  EXPECT_NO_THROW(check_tensor_name(run.problems, "h.1.mlp.c_fc"));
  try {
    check_tensor_name(run.problems, "h.1.mlp.cfc");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("near names: h.1.mlp.c_fc, "));
  }
}

// Keeping what was moved or made again saves work, never costs any; the plan as it is costs
// nothing.
TEST(OtherFate, OfKeepingIsNeverSlowerAndNeedsMemory) {
  const MixedRun run(odd_gpt2());
  const PlannedProgram& entry = run.plan.programs.front();
  for (const Fate fate : {Fate::computed_again, Fate::moved}) {
    const ValueId id = entry.problem.graph->find(tensor_with(entry, fate));
    const OtherFate same = with_fate(entry.problem, entry.planned.plan, id, fate);
    const OtherFate kept = with_fate(entry.problem, entry.planned.plan, id, Fate::kept);
    ASSERT_TRUE(same.possible && kept.possible);
    EXPECT_NEAR(same.seconds, entry.planned.certificate.objective_s, 0.02 * same.seconds);
    EXPECT_LE(kept.seconds, same.seconds * 1.001);
    EXPECT_LE(same.excess_bytes, 0);
    EXPECT_GE(kept.excess_bytes, same.excess_bytes);
  }
}

TEST(LargestBatch, OfAnyThresholdIsThatOfALinearScan) {
  for (int64_t most = 1; most <= 20; ++most) {
    for (int64_t threshold = 0; threshold <= most + 1; ++threshold) {
      int asked = 0;
      const int64_t found = largest_that_fits(most, [&](int64_t batch) {
        EXPECT_GE(batch, 1);
        EXPECT_LE(batch, most);
        ++asked;
        return batch <= threshold;
      });
      EXPECT_EQ(found, std::min(threshold, most));
      EXPECT_LE(asked, 10);
    }
  }
}

TEST(LargestBatch, RefusesTimesThatHoldOneBatchAlone) {
  CpuBackend backend({.threads = 1});
  Config config = tiny_gpt2();
  const RunPrograms programs = programs_of(config, backend.alignment());
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "olm2_one_batch.json";
  std::ofstream(file) << to_json(profile_of(config, programs, backend, {}));
  config.planner.profile = file.string();
  config.memory.device_budget = {.bytes = int64_t{1} << 30};
  try {
    find_largest_batch(config, backend, [](const std::string&) {});
    ADD_FAILURE() << "found a batch without its times";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("train.batch_size = 1"), HasSubstr("planner.profile=estimate")));
  }
  std::filesystem::remove(file);
}

TEST(LargestBatch, IsTheLastOneThatCanBePlanned) {
  CpuBackend backend({.threads = 1});
  Config config = tiny_gpt2();
  config.memory.policy = "recompute";
  const auto least_bytes = [&](int64_t batch) {
    Config asked = config;
    asked.train.batch_size = batch;
    const RunPrograms programs = programs_of(asked, backend.alignment());
    const Profile profile = profile_of(asked, programs, backend, {});
    int64_t most = 0;
    for (Problem& problem : problems_of(programs, profile, backend.alignment())) {
      most = std::max(most, find_minimum(problem, plan_options_of(asked)).bytes);
    }
    return most;
  };
  config.memory.device_budget = {.bytes = least_bytes(5) + 64};
  int64_t expected = 0;
  while (least_bytes(expected + 1) <= config.memory.device_budget.bytes) ++expected;
  std::vector<std::string> lines;
  const LargestBatch found =
      find_largest_batch(config, backend, [&](const std::string& line) { lines.push_back(line); });
  EXPECT_EQ(found.batch_size, expected);
  EXPECT_EQ(found.bytes, least_bytes(expected));
  EXPECT_EQ(found.next_bytes, least_bytes(expected + 1));
  EXPECT_NE(found.next_moment, "");
  EXPECT_GE(lines.size(), 3U);
  config.memory.device_budget = {.bytes = 4096};
  EXPECT_EQ(find_largest_batch(config, backend, [](const std::string&) {}).batch_size, 0);
}

// --- as it is typed ----------------------------------------------------------------------------

Ended olm2_plan(const ToyRun& toy, const std::vector<std::string>& options) {
  return Started("olm2-plan", toy.command_line(options), toy / "").wait();
}

const Sets kMixed = {"planner.profile=slow_link.json", "memory.device_budget=60%",
                     "memory.host_budget=1 MiB"};

TEST(PlanQuestions, AboutOnePlanAreAnsweredTogether) {
  const ToyRun toy(kMixed);
  const std::string page = (toy / "page.html").string();
  const std::string trace = (toy / "trace.json").string();
  const std::string plan = (toy / "plan.json").string();
  const Ended ended =
      olm2_plan(toy, {"--report", page, "--trace", trace, "--out", plan, "--why", "h.1.mlp.c_fc"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("The plan "), HasSubstr(page), HasSubstr(trace)));
  EXPECT_THAT(read_file(page), HasSubstr("What more memory would buy"));
  EXPECT_FALSE(nlohmann::json::parse(read_file(trace)).at("traceEvents").empty());
  EXPECT_TRUE(nlohmann::json::parse(read_file(plan)).contains("digest"));
}

TEST(PlanQuestions, ThatDoNotGoTogetherEndWithTwo) {
  const ToyRun toy(kMixed);
  const std::vector<std::vector<std::string>> wrong = {
      {"--compare", "--minimum"},           {"--compare", "--trace", "x"},
      {"--minimum", "--report", "x"},       {"--largest-batch", "--out", "x"},
      {"--write-mps", "x", "--why", "y"},   {"--csv", "x"},
      {"--compare", "--read-solution", "x"}};
  for (const std::vector<std::string>& options : wrong) {
    const Ended ended = olm2_plan(toy, options);
    EXPECT_EQ(ended.status, 2) << options[0] << ": " << ended.out;
  }
}

TEST(PlanQuestions, ThatCannotBeAnsweredEndWithOneMessage) {
  const ToyRun toy(kMixed);
  const std::string page = (toy / "page.html").string();
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--why", "h.1.mlp.cfc", "--report", page}, "near names: h.1.mlp.c_fc"},
      {{"--largest-batch"}, "give bytes"},
      {{"--largest-batch", "--budget", "4 KiB", "--set", "planner.profile=estimate"},
       "not even one sequence fits"},
      {{"--policy", "chen", "--write-mps", page}, "policy chen is no mixed-integer program"},
      {{"--read-solution", "/nonexistent", "--report", page}, "/nonexistent"}};
  for (const auto& [options, message] : wrong) {
    const Ended ended = olm2_plan(toy, options);
    EXPECT_EQ(ended.status, 1) << ended.out;
    EXPECT_THAT(ended.out, IsEmpty());
    EXPECT_THAT(ended.err, HasSubstr("olm2-plan: "));
    EXPECT_THAT(ended.err, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(page)) << message;
  }
}

TEST(PlanQuestions, LargestBatchSaysWhatBindsNext) {
  const ToyRun toy(kMixed);
  const Ended ended = olm2_plan(toy, {"--largest-batch", "--budget", "2 MiB", "--policy", "swap",
                                      "--set", "planner.profile=estimate"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("largest train.batch_size within 2097152 bytes"),
                               HasSubstr("tokens per second"), HasSubstr("One sequence more")));
  EXPECT_THAT(ended.err, HasSubstr("batch 1 needs"));
}

struct ComparedRow {
  std::string policy;
  int percent = 0;
  std::optional<double> overhead;
  int64_t device_peak = 0;
};

std::vector<ComparedRow> read_compared(const std::filesystem::path& csv) {
  std::vector<ComparedRow> rows;
  std::istringstream lines(read_file(csv));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::vector<std::string> fields;
    std::istringstream text(line);
    for (std::string field; std::getline(text, field, ',');) fields.push_back(field);
    ComparedRow row{.policy = fields.at(0), .percent = std::stoi(fields.at(1)), .overhead = {}};
    if (!fields.at(3).empty()) row.overhead = std::stod(fields.at(3));
    if (row.overhead) row.device_peak = std::stoll(fields.at(5));
    rows.push_back(row);
  }
  return rows;
}

TEST(PlanQuestions, ComparedCurvesNeverRiseWithTheBudget) {
  const ToyRun toy(kMixed);
  const std::string csv = (toy / "table.csv").string();
  const Ended ended = olm2_plan(
      toy, {"--compare", "--policies", "lru,dtr,recompute", "--budgets",
            "90%,55%,60%,75%,65%,70%,85%,80%", "--csv", csv, "--set", "memory.state=resident"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  std::vector<ComparedRow> rows = read_compared(csv);
  ASSERT_EQ(rows.size(), 24U);
  EXPECT_EQ(rows[1].percent, 55) << "rows come in the order asked for";
  std::ranges::stable_sort(rows, {}, &ComparedRow::percent);
  std::ranges::stable_sort(rows, {}, &ComparedRow::policy);
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].policy != rows[i - 1].policy || !rows[i - 1].overhead) continue;
    const std::string where = rows[i].policy + " at " + std::to_string(rows[i].percent);
    ASSERT_TRUE(rows[i].overhead.has_value()) << where;
    EXPECT_LE(*rows[i].overhead, *rows[i - 1].overhead) << where;
    EXPECT_GE(rows[i].device_peak, rows[i - 1].device_peak) << where;
  }
}

// All programs' models go out, a solution per program comes back, and olm2-train runs the plan.
TEST(PlanQuestions, ASolutionFromOutsideBecomesAPlanThatRuns) {
  Sets sets = kMixed;
  sets[1] = "memory.device_budget=99%";
  sets.push_back("train.steps=2");
  const ToyRun toy(sets);
  const Ended written = olm2_plan(toy, {"--write-mps", (toy / "m.mps").string()});
  ASSERT_EQ(written.status, 0) << written.err;
  for (const std::string program : {"first", "last"}) {
    const std::string model = read_file(toy / ("m." + program + ".mps"));
    EXPECT_THAT(model, AllOf(HasSubstr("\nROWS\n"), HasSubstr("\nENDATA\n")));
    // Runs every optional slot again: slow, and small.
    std::string solution;
    for (size_t at = model.find(" BV bound "); at != std::string::npos;
         at = model.find(" BV bound ", at + 1)) {
      const size_t name = at + 10;
      solution += model.substr(name, model.find('\n', name) - name) + " 1\n";
    }
    ASSERT_NE(solution, "");
    write_file(toy / ("s." + program + ".txt"), solution);
  }
  const std::string plan = (toy / "plans.json").string();
  const Ended read = olm2_plan(toy, {"--read-solution", (toy / "s.txt").string(), "--out", plan});
  ASSERT_EQ(read.status, 0) << read.err;
  const auto json = nlohmann::json::parse(read_file(plan));
  EXPECT_EQ(json.at("status"), "feasible");
  EXPECT_THAT(json.at("solver").get<std::string>(), HasSubstr("s."));
  EXPECT_GT(json.at("recomputed_nodes"), 3);
  const Ended ended = toy.run({"--plan", plan});
  EXPECT_EQ(ended.status, 0) << ended.err;
}

TEST(RunFolder, HasAPageOfItsPlan) {
  const ToyRun toy(kMixed);
  TrainRequest request;
  request.dry_run = true;
  toy.train({}, request);
  EXPECT_THAT(read_file(toy.folder() / "plan.html"), HasSubstr("One training step is predicted"));
}

// The trace of a measured step has the same form as that of a plan.
TEST(Trace, OfAMeasuredStepHasItsLanesAndMemory) {
  const ToyRun toy(kMixed);
  const std::string trace = (toy / "trace.json").string();
  const Ended ended = toy.run({"--steps", "1", "--trace", trace});
  ASSERT_EQ(ended.status, 0) << ended.err;
  int64_t most = 0;
  size_t instructions = 0;
  const auto json = nlohmann::json::parse(read_file(trace));
  for (const nlohmann::json& event : json.at("traceEvents")) {
    if (event.at("name") == "device bytes in use") {
      most = std::max(most, event.at("args").at("bytes").get<int64_t>());
    }
    if (event.at("ph") == "X") ++instructions;
  }
  EXPECT_GT(instructions, 100U);
  EXPECT_GT(most, 0);
  EXPECT_LE(most, toy.metrics().back().at("peak_device_bytes").get<int64_t>());
}

}  // namespace
}  // namespace olm2
