// A training step, copies and the reading of its batches included, asks nobody for memory: every
// byte was planned.
#include <gtest/gtest.h>

#include "data/loader.h"
#include "data/shard_writer.h"
#include "tests/runs/real_run.h"
#include "tests/train/allocation_watch.h"
#include "tests/train/scratch_folder.h"

namespace olm2 {
namespace {

// Libraries may take single small blocks of their own.
constexpr size_t kLargestAllowed = 4096;

TEST(Allocations, OfAStepStayBelowFourKibibytes) {
  if (!testing::kCanWatch) GTEST_SKIP() << "a sanitizer has its own malloc";
  Config config = odd_gpt2();
  // Sequences longer than what may be allocated.
  config.model.context_length = config.train.sequence_length = 1100;
  config.model.n_layer = 1;
  config.train.batch_size = 1;
  config.memory.policy = "swap";  // Copies, whatever would be faster.
  config.memory.device_budget.percent = 80;
  config.train.grad_accumulation = 2;
  MixedRun run(config);
  EXPECT_GT(run.plan.programs.back().planned.certificate.copied_bytes, 0);

  const ScratchFolder scratch;
  std::vector<uint32_t> ids(9000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint32_t>(i * i % 37);
  ShardWriter writer(scratch.path(), "toy_train", tokenizer_info("bytes"), int64_t{1} << 30);
  writer.append(ids);
  writer.finish();
  writer.commit();
  const std::vector<std::filesystem::path> files = {scratch / "toy_train_000000.bin"};
  const Loader loader(files, {.batch_size = config.train.batch_size,
                              .sequence_length = config.train.sequence_length,
                              .shuffle = true,
                              .tokenizer = "bytes",
                              .vocab_size = config.model.vocab_size});

  Executor executor(executable(run.plan), run.backend, {.trace = true});
  for (const NamedParameter& p : run.programs.parameters) {
    initialize(view_as<float>(executor.state(p.name)), p.init, 1337, p.name);
  }
  StepRunner runner(executor, run.config);
  const FillBatch fill = [&](int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) {
    loader.batch(index, tokens, targets);
  };
  runner.run(0, fill);
  const testing::AllocationWatch watch(kLargestAllowed);
  for (int64_t step = 1; step < 3; ++step) {
    const StepResult result = runner.run(step, fill);
    EXPECT_GT(result.report.copied_bytes, 0);
  }
  EXPECT_EQ(watch.count(), 0U) << "the largest of them has " << watch.largest() << " bytes";
}

}  // namespace
}  // namespace olm2
