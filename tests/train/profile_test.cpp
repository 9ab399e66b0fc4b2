// Profiles in a file, and what is planned with types that no backend here computes with.
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "ops/ops.h"
#include "train/measure.h"
#include "train/plan_bench.h"
#include "train/planning.h"

namespace olm2 {
namespace {

using testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string shipped(const std::string& file) {
  return std::string(OLM2_SOURCE_DIR) + "/data/" + file;
}

std::string complaint_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no complaint";
}

Config toy_in_bfloat16(const std::string& profile) {
  const std::vector<std::string> sets = {"train.batch_size=1", "train.sequence_length=64",
                                         "planner.profile=" + profile};
  return load_config(shipped("gpt2-h200-like.toml"), sets);
}

TEST(ProfileFile, KeepsARoofline) {
  Profile profile;
  profile.kernels["k"] = {.seconds = 0.5, .workspace_bytes = 64, .cold_seconds = 0.75};
  profile.roofline = Roofline{.flops_per_s = 3e12, .bytes_per_s = 2e11, .launch_s = 1e-6};
  const std::string text = to_json(profile);
  EXPECT_EQ(to_json(parse_profile(text, "it")), text);
  profile.roofline.reset();
  EXPECT_THAT(to_json(profile), Not(HasSubstr("roofline")));
}

TEST(ProfileFile, RefusesKernelsThatAreFasterFromMemory) {
  Profile profile;
  profile.kernels["k"] = {.seconds = 0.5, .workspace_bytes = 64, .cold_seconds = 0.25};
  EXPECT_THAT(complaint_of([&] { parse_profile(to_json(profile), "p.json"); }),
              AllOf(HasSubstr("p.json"), HasSubstr("'k'"), HasSubstr("in no cache")));
}

// Adding two arrays that a cache holds, and two that it does not.
TEST(MeasureKernels, TellOperandsInMemoryFromThoseInCaches) {
  Graph graph;
  const ValueId a = graph.add_source("a", {{32, 1024}}, Role::input);
  const ValueId b = graph.add_source("b", {{32, 1024}}, Role::input);
  add(graph, "c", a, b);
  CpuBackend backend;
  KernelProfile kernel;
  Profile profile;
  const Graph* const all = &graph;
  for (int tries = 0; tries < 20 && kernel.cold_seconds <= 1.1 * kernel.seconds; ++tries) {
    profile.kernels.clear();  // On a busy machine every run may take its time.
    measure_kernels({&all, 1}, backend, profile);
    kernel = profile.kernels.begin()->second;
    ASSERT_GE(kernel.cold_seconds, kernel.seconds);
  }
  EXPECT_GT(kernel.cold_seconds, 1.1 * kernel.seconds);
  Problem problem;
  problem.graph = &graph;
  problem.seconds.resize(1);
  problem.workspace.resize(1);
  apply_profile(profile, problem);
  EXPECT_EQ(problem.run_seconds(0, false), kernel.seconds);
  EXPECT_EQ(problem.run_seconds(0, true), kernel.cold_seconds);
}

TEST(ProfileFile, RefusesARooflineWithoutSpeed) {
  std::string text = text_of(shipped("profiles/h200-like.json"));
  text.replace(text.find("100e12"), 6, "0");
  EXPECT_THAT(complaint_of([&] { parse_profile(text, "p.json"); }),
              AllOf(HasSubstr("p.json"), HasSubstr("flops_per_s > 0")));
}

TEST(Bfloat16, HalvesActivationsAndKeepsMomentsAndStatisticsInFloat32) {
  const RunPrograms run = programs_of(toy_in_bfloat16("estimate"), 64);
  const Graph& graph = run.programs.front().graph;
  EXPECT_EQ(graph.type(graph.find("h.0.mlp.c_fc")).dtype, DType::bf16);
  EXPECT_EQ(graph.type(graph.find("wte.weight.grad")).dtype, DType::bf16);
  EXPECT_EQ(graph.type(graph.find("wte.weight.m")).dtype, DType::f32);
  EXPECT_EQ(graph.type(graph.find("h.0.ln_1.1")).dtype, DType::f32);
  EXPECT_EQ(graph.type(graph.find("loss")).dtype, DType::f32);
  EXPECT_EQ(graph.type(graph.find("grad_norm")).dtype, DType::f32);
}

TEST(Bfloat16, IsPlannedFromARooflineAndNotMeasured) {
  CpuBackend backend;
  const Config config = toy_in_bfloat16("profiles/h200-like.json");
  const RunPrograms run = programs_of(config, backend.alignment());
  const Profile profile = profile_of(config, run, backend, {});
  const std::vector<Problem> problems = problems_of(run, profile, backend.alignment());
  const Graph& graph = run.programs.front().graph;
  const Node& node = graph.node(graph.value(graph.find("h.0.mlp.c_fc")).producer);
  const double flops = 2.0 * 64 * 768 * 3072;
  const double bytes = 2.0 * (64 * 768 + 768 * 3072 + 3072 + 64 * 3072);
  EXPECT_NEAR(problems.front().seconds.at(static_cast<size_t>(&node - graph.nodes().data())),
              5e-6 + std::max(flops / 100e12, bytes / 3e12), 1e-12);
  EXPECT_THAT(complaint_of([&] {
                const Config measured = toy_in_bfloat16("measure");
                profile_of(measured, run, backend, {});
              }),
              AllOf(HasSubstr("bf16"), HasSubstr("train.dtype = \"float32\"")));
}

// No kernel tells how much scratch the head takes; the op itself does.
TEST(Bfloat16, CountsTheLogitsOfAChunk) {
  CpuBackend backend;
  for (const std::string profile : {"profiles/h200-like.json", "estimate"}) {
    for (const int64_t chunks : {1, 5}) {
      Config config = toy_in_bfloat16(profile);
      config.train.head_chunks = chunks;
      const RunPrograms run = programs_of(config, 64);
      const std::vector<Problem> problems =
          problems_of(run, profile_of(config, run, backend, {}), 64);
      const Graph& graph = run.programs.front().graph;
      const NodeId head = graph.value(graph.find("loss")).producer;
      EXPECT_EQ(problems.front().workspace.at(static_cast<size_t>(head.index)),
                (64 + chunks - 1) / chunks * 50257 * 2);
    }
  }
}

TEST(PlanBench, TablesEveryPolicyAndBudget) {
  std::vector<std::string> lines;
  PlanBench bench{.config_file = shipped("gpt2-h200-like.toml"),
                  .sets = {"train.batch_size=1", "train.sequence_length=64"},
                  .policies = {"none", "chen"},
                  .budgets = {"100%", "90%"}};
  bench_plans(bench, [&](const nlohmann::ordered_json& json) { lines.push_back(json.dump()); });
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[0], HasSubstr("\"overhead_percent\":0.0"));
  EXPECT_THAT(lines[1], HasSubstr("unknown"));
  EXPECT_THAT(lines[3], HasSubstr("feasible"));
  bench.sets.emplace_back("planner.profile=measure");
  EXPECT_THAT(complaint_of([&] { bench_plans(bench, [](const auto&) {}); }),
              HasSubstr("planner.profile"));
}

TEST(PlanBench, SaysHowMuchLessIsComputedThanByRecomputingAlone) {
  std::vector<nlohmann::ordered_json> lines;
  const PlanBench bench{.config_file = shipped("gpt2-h200-like.toml"),
                        .sets = {"train.head_chunks=8"},
                        .layers = {2, 3},
                        .policies = {"recompute", "olm2"},
                        .budgets = {"50%"},
                        .gaps = {0.02}};
  bench_plans(bench, [&](const nlohmann::ordered_json& json) { lines.push_back(json); });
  ASSERT_EQ(lines.size(), 4U);
  for (const size_t k : {0U, 2U}) {
    EXPECT_EQ(lines[k].at("n_layer"), k == 0 ? 2 : 3);
    EXPECT_FALSE(lines[k].contains("computing_saved_percent"));
    const auto ms = [&](size_t line, const char* key) { return lines[line].at(key).get<double>(); };
    const double saved = ms(k + 1, "computing_saved_percent");
    EXPECT_GT(saved, 0);
    EXPECT_NEAR(ms(k, "computing_ms") * (1 - saved / 100), ms(k + 1, "computing_ms"), 1e-9);
    // What is sure of every plan is less than what was found against one.
    EXPECT_LE(ms(k + 1, "computing_saved_at_least_percent"), saved);
  }
}

}  // namespace
}  // namespace olm2
