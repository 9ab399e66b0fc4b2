// One optimizer step: the programs of its micro batches, one after another, inputs written first.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "train/config.h"
#include "train/executor.h"

namespace olm2 {

// Fills the tokens and targets of micro batch `index`, counted over the whole run; each
// batch_size * sequence_length long.
using FillBatch =
    std::function<void(int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets)>;

struct StepResult {
  double loss = 0;       // Mean over all micro batches.
  double grad_norm = 0;  // Before clipping.
  double rate = 0;       // Learning rate used.
  StepReport report;     // Times summed, peaks the largest of the micro batches.
};

class StepRunner {
 public:
  // `executor` holds the training programs of `config` and must outlive this.
  StepRunner(Executor& executor, const Config& config);

  // Called after every program that was run, with its number in the executor.
  void watch(std::function<void(size_t program)> after) { after_ = std::move(after); }

  // Runs step `step` (from 0).  Parameters, moments and random numbers afterwards depend on nothing
  // but the state before, the batches, `step` and the seed.
  // Moments that were zero before step `moments_began` are corrected for what they have seen since.
  StepResult run(int64_t step, const FillBatch& fill, int64_t moments_began = 0);

  // Mean loss of the evaluation program over micro batches 0 .. batches - 1 of `fill`.
  double evaluate(int64_t batches, const FillBatch& fill);

 private:
  void write_random_key(size_t program, int64_t step, int64_t micro);
  double run_loss(size_t program, StepReport& total);

  Executor& executor_;
  Config config_;
  std::vector<size_t> programs_;  // Of each micro batch.
  std::function<void(size_t)> after_;
};

// float, int32_t ... view of raw bytes.
template <typename T>
std::span<T> view_as(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}
template <typename T>
std::span<const T> view_as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace olm2
