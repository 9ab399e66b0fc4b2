// Training agrees with PyTorch in float64, for every policy.  The files in tests/data/reference
// hold its weights, batches, logits, gradients, losses and final weights.
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/promises/tiny_run.h"
#include "train/checkpoint.h"
#include "train/run_state.h"

namespace olm2 {
namespace {

struct Reference {
  std::filesystem::path folder;
  Config config;
  nlohmann::json expected;
  std::vector<int32_t> rows;  // (micro batches, B, T + 1)

  explicit Reference(const std::string& name)
      : folder(std::filesystem::path(OLM2_SOURCE_DIR) / "tests/data/reference" / name) {
    const nlohmann::json model = nlohmann::json::parse(std::ifstream(folder / "config.json"));
    expected = nlohmann::json::parse(std::ifstream(folder / "expected.json"));
    const nlohmann::json& optimizer = expected["optimizer"];
    config = tiny_config({.type = "gpt2",
                          .n_layer = model["n_layer"],
                          .n_head = model["n_head"],
                          .n_embd = model["n_embd"],
                          .vocab_size = model["vocab_size"],
                          .context_length = model["n_positions"]},
                         expected["batch_size"], expected["seq_len"], expected["grad_accum"]);
    config.train.steps = static_cast<int64_t>(expected["losses"].size());
    config.optimizer.rate.lr = optimizer["lr"];
    config.optimizer.beta1 = optimizer["beta1"];
    config.optimizer.beta2 = optimizer["beta2"];
    config.optimizer.eps = optimizer["eps"];
    config.optimizer.weight_decay = optimizer["weight_decay"];
    config.optimizer.grad_clip = optimizer["grad_clip"];
    const SafetensorsFile file(folder / "batches.safetensors");
    const StoredTensor& tokens = *file.find("tokens");
    rows.resize(static_cast<size_t>(element_count(tokens.shape)));
    file.read("tokens",
              {"tokens", {tokens.shape, DType::i32}, std::as_writable_bytes(std::span(rows))});
  }

  FillBatch batches() const {
    return [this](int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) {
      const auto t = static_cast<size_t>(config.train.sequence_length);
      const size_t per_micro = tokens.size() / t * (t + 1);
      for (size_t row = 0; row < tokens.size() / t; ++row) {
        const size_t from = static_cast<size_t>(index) * per_micro + row * (t + 1);
        for (size_t i = 0; i < t; ++i) {
          tokens[row * t + i] = rows[from + i];
          targets[row * t + i] = rows[from + i + 1];
        }
      }
    };
  }

  std::vector<float> tensor(const std::string& file_name, const std::string& name,
                            const ValueType& type) const {
    std::vector<float> numbers(static_cast<size_t>(element_count(type.shape)));
    SafetensorsFile(folder / file_name)
        .read(name, {name, type, std::as_writable_bytes(std::span(numbers))});
    return numbers;
  }
};

double relative_error(std::span<const float> got, std::span<const float> expected) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(double{got[i]} - double{expected[i]}, 2);
    size += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(difference) / std::sqrt(size);
}

void expect_close(const std::string& what, std::span<const float> got,
                  std::span<const float> expected, bool is_query_key_value_bias) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  if (!is_query_key_value_bias) {
    EXPECT_LT(relative_error(got, expected), 1e-4) << what;
    return;
  }
  // The key's bias shifts every score of a row alike: its true gradient is zero.
  const size_t third = got.size() / 3;
  EXPECT_LT(relative_error(got.first(third), expected.first(third)), 1e-4) << what;
  EXPECT_LT(relative_error(got.last(third), expected.last(third)), 1e-4) << what;
  for (size_t i = third; i < 2 * third; ++i) EXPECT_NEAR(got[i], expected[i], 2e-4) << what;
}

void load_weights(const Reference& reference, Executor& executor, const RunPrograms& programs) {
  const SafetensorsFile file(reference.folder / "model.safetensors");
  for (const TensorTarget& target : parameter_targets(executor, programs)) {
    file.read(file_name_of_parameter(target.name), target);
  }
}

using Case = std::tuple<std::string, std::string, int64_t>;  // Policy, shape, head_chunks.
class PyTorchParitySlow : public testing::TestWithParam<Case> {};

TEST_P(PyTorchParitySlow, GradientsLossesAndFinalWeights) {
  const auto& [policy, name, head_chunks] = GetParam();
  const Reference reference(name);
  TinyRun run(with_head_chunks(reference.config, head_chunks));
  PlanOptions options;
  options.policy = policy;
  options.time_limit_s = 20;
  const int64_t host_bytes = find_policy(policy).copies ? int64_t{1} << 30 : 0;
  Budgets budgets =
      resolve_budgets({.bytes = 0, .percent = 100}, {.bytes = host_bytes}, run.problems);
  if (policy != "none") {
    int64_t minimum = 0;
    for (Problem problem : run.problems) {
      problem.budget = budgets.bytes;
      minimum = std::max(minimum, find_minimum(problem, options).bytes);
    }
    budgets.bytes[0] = (minimum + budgets.keep_all_bytes) / 2;
  }
  RunPlan plan = plan_run(run.programs, run.problems, budgets, options);
  Executor executor(executable(plan), run.backend);
  load_weights(reference, executor, run.programs);
  zero_moments(executor, run.programs);
  StepRunner runner(executor, run.config);

  const nlohmann::json& losses = reference.expected["losses"];
  const nlohmann::json& norms = reference.expected["grad_norms_before_clip"];
  for (int64_t step = 0; step < run.config.train.steps; ++step) {
    const StepResult result = runner.run(step, reference.batches());
    EXPECT_NEAR(result.loss, losses[static_cast<size_t>(step)].get<double>(), 2e-5) << step;
    EXPECT_NEAR(result.grad_norm, norms[static_cast<size_t>(step)].get<double>(), 1e-4) << step;
    if (step > 0) continue;
    for (const NamedParameter& p : run.programs.parameters) {
      const std::string stored = file_name_of_parameter(p.name);
      expect_close("gradient of " + p.name, view_as<float>(executor.state(p.name + ".grad")),
                   reference.tensor("grads.safetensors", stored, p.type),
                   p.name.ends_with("c_attn.bias"));
    }
  }
  for (const NamedParameter& p : run.programs.parameters) {
    const std::string stored = file_name_of_parameter(p.name);
    expect_close("final " + p.name, view_as<float>(executor.state(p.name)),
                 reference.tensor("final.safetensors", stored, p.type),
                 p.name.ends_with("c_attn.bias"));
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return test_name(std::get<0>(info.param)) + "_" + std::get<1>(info.param) + "_" +
         std::to_string(std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, PyTorchParitySlow,
                         testing::Combine(testing::ValuesIn(policy_names()),
                                          testing::Values("even", "odd"), testing::Values(1)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(ChunkedHead, PyTorchParitySlow,
                         testing::Combine(testing::Values("none", "olm2"),
                                          testing::Values("even", "odd"), testing::Values(2, 5)),
                         case_name);

class PyTorchLogits : public testing::TestWithParam<std::string> {};

// Asked for as one asks when sampling, one position of every sequence after another.
TEST_P(PyTorchLogits, OfTheFirstMicroBatch) {
  const Reference reference(GetParam());
  TinyRun run(reference.config);
  run.programs.programs.clear();
  Program& program = run.programs.programs.emplace_back();
  program.name = "sampling";
  const TrainConfig& train = run.config.train;
  const int64_t t = train.sequence_length;
  const Network network = find_model("gpt2").build(
      program.graph, run.config.model,
      {.batch = train.batch_size, .tokens = t, .purpose = Purpose::sampling});
  program.results = {network.logits};
  Profile profile = profile_of(run.config, run.programs, run.backend, {});
  RunPlan plan = plan_run(run.programs, problems_of(run.programs, profile, 64),
                          {.bytes = {int64_t{1} << 30, 0, 0}}, {.policy = "none"});
  Executor executor(executable(plan), run.backend);
  load_weights(reference, executor, run.programs);
  const int64_t v = run.config.model.vocab_size;
  const std::vector<float> expected =
      reference.tensor("logits.safetensors", "logits", {{train.batch_size, t, v}, DType::f32});
  std::vector<int32_t> targets(static_cast<size_t>(train.batch_size * t));
  for (int64_t position = 0; position < t; ++position) {
    reference.batches()(0, view_as<int32_t>(executor.input(0, "tokens")), targets);
    std::ranges::fill(view_as<int32_t>(executor.input(0, "position")),
                      static_cast<int32_t>(position));
    executor.run(0);
    const auto got = view_as<float>(executor.result(0, "logits"));
    ASSERT_EQ(std::ssize(got), train.batch_size * v);
    for (int64_t i = 0; i < train.batch_size * v; ++i) {
      const int64_t at = (i / v * t + position) * v + i % v;
      ASSERT_NEAR(got[static_cast<size_t>(i)], expected[static_cast<size_t>(at)], 2e-5) << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TwoShapes, PyTorchLogits, testing::Values("even", "odd"),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

}  // namespace
}  // namespace olm2
