// The output head in chunks: how many there are, what that changes and what it does not.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/promises/tiny_run.h"
#include "train/plan_chunks.h"

namespace olm2 {
namespace {

int64_t chunks_of(const Graph& graph) {
  const Node& node = graph.node(graph.value(graph.find("loss")).producer);
  return static_cast<int64_t>(attr_or(node.attrs, "chunks", -1));
}

int64_t default_chunks(const ModelConfig& model, int64_t batch, int64_t tokens) {
  Graph graph;
  find_model(model.type).build(graph, model, {.batch = batch, .tokens = tokens});
  return chunks_of(graph);
}

std::string text_of(const RunPrograms& run) {
  std::string text;
  for (const Program& program : run.programs) text += to_string(program.graph);
  return text;
}

TEST(HeadChunks, AreByDefaultWhatTheSizesAskFor) {
  // A chunk's logits are no larger than the activations of the widest layer ...
  EXPECT_EQ(default_chunks(model_preset("gpt2-124m"), 8, 1024), 17);  // 50257 / (4 x 768)
  EXPECT_EQ(default_chunks(model_preset("gpt2-1558m"), 8, 1024), 8);  // 50257 / (4 x 1600)
  // ... but a chunk has at least 256 rows,
  EXPECT_EQ(default_chunks(model_preset("gpt2-124m"), 4, 256), 4);
  EXPECT_EQ(default_chunks(model_preset("gpt2-124m"), 1, 500), 1);
  // and few classes need no chunks.
  EXPECT_EQ(default_chunks(tiny_gpt2().model, 100, 13), 1);
  EXPECT_EQ(default_chunks(tiny_mlp().model, 100, 9), 2);
}

TEST(HeadChunks, DependOnNothingButSizesAndTheKey) {
  Config config = tiny_gpt2();
  config.output.eval_every = 1;
  config.train.head_chunks = 3;
  const RunPrograms run = programs_of(config, 64);
  for (const Program& program : run.programs) EXPECT_EQ(chunks_of(program.graph), 3);
  config.memory.policy = "recompute";
  config.memory.device_budget = {.bytes = 0, .percent = 1};
  config.train.threads = 7;
  EXPECT_EQ(text_of(programs_of(config, 64)), text_of(run));
}

TEST(HeadChunks, LeaveNoValueOfTheSizeOfAllLogits) {
  Config config = tiny_gpt2();
  config.model.vocab_size = 500;
  config.output.eval_every = 1;
  const int64_t rows = config.train.batch_size * config.train.sequence_length;
  for (const Program& program : programs_of(config, 64).programs) {
    for (const Value& value : program.graph.values()) {
      if (is_state(value.role)) continue;
      EXPECT_LT(element_count(value.type.shape), rows * 500) << program.name << ": " << value.name;
    }
  }
}

TEST(HeadChunks, LowerThePeakAndTheMinimum) {
  Config config = tiny_gpt2();
  config.model.vocab_size = 2000;
  config.train.batch_size = 16;
  std::vector<int64_t> peaks;
  std::vector<int64_t> minima;
  for (const int64_t chunks : {1, 2, 4}) {
    const TinyRun run(with_head_chunks(config, chunks));
    peaks.push_back(resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems).keep_all_bytes);
    minima.push_back(proven_minimum(run.problems.back()).bytes);
  }
  // Of 176 rows of 2000 logits, 88 and then 44 less are held; the scratch of products may change.
  const int64_t row = 2000 * int64_t{sizeof(float)};
  for (const auto& bytes : {peaks, minima}) {
    EXPECT_LE(bytes[1], bytes[0] - 80 * row);
    EXPECT_LE(bytes[2], bytes[1] - 40 * row);
  }
}

TEST(HeadChunks, ChangeNothingBeyondTheLastBits) {
  const auto steps_of = [](int64_t chunks) {
    TinyRun run(with_head_chunks(tiny_gpt2(), chunks));
    const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
    RunPlan plan = plan_run(run.programs, run.problems, all, {.policy = "none"});
    return run_steps(run, executable(plan), 1);
  };
  const Outcome expected = steps_of(1);
  for (const int64_t chunks : {2, 5, 22}) {
    const Outcome got = steps_of(chunks);
    EXPECT_NEAR(got.losses[0], expected.losses[0], 2e-6) << chunks;
    for (const auto& [name, bytes] : expected.state) {
      if (!name.ends_with(".m")) continue;  // A tenth of the gradient, after one step.
      const std::vector<std::byte>& other = got.state.at(name);
      ASSERT_EQ(other.size(), bytes.size());
      for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
        float wanted = 0;
        float found = 0;
        std::memcpy(&wanted, &bytes[at], sizeof(float));
        std::memcpy(&found, &other[at], sizeof(float));
        ASSERT_NEAR(found, wanted, 1e-7) << name << " " << at << " " << chunks;
      }
    }
  }
}

TEST(HeadChunks, AreComparedAtOneBudgetInBytes) {
  Config config = with_head_chunks(tiny_gpt2(), 3);
  config.model.vocab_size = 2000;
  config.train.batch_size = 8;
  config.memory.policy = "recompute";
  config.memory.state = "resident";
  config.memory.device_budget.percent = 90;
  config.output.eval_every = 1;
  CpuBackend backend({.threads = 2});
  const PlanStage stage(config, backend, {});
  testing::internal::CaptureStdout();
  const std::vector<ChunkedPlan> table = compare_chunks(config, backend, stage);
  const std::string text = testing::internal::GetCapturedStdout();

  std::vector<int64_t> numbers;
  for (const ChunkedPlan& row : table) numbers.push_back(row.chunks);
  EXPECT_EQ(numbers, (std::vector<int64_t>{1, 2, 3, 4}));  // Of 88 tokens, at least 16 each.
  for (size_t i = 1; i < table.size(); ++i) {
    EXPECT_LT(table[i].keep_all_bytes, table[i - 1].keep_all_bytes);
    EXPECT_LT(table[i].minimum_bytes, table[i - 1].minimum_bytes);
  }
  // The budget is 90 % of what three chunks take, and less than what one does.
  EXPECT_FALSE(table[0].fits);
  EXPECT_TRUE(table[2].is_configured && table[2].fits);
  EXPECT_EQ(table[2].keep_all_bytes, stage.budgets().keep_all_bytes);
  EXPECT_GE(table[2].seconds, table[2].keep_all_s);
  EXPECT_NE(text.find("\n3 * "), std::string::npos) << text;
}

}  // namespace
}  // namespace olm2
