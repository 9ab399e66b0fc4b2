// A table of numbers of head chunks: what each would buy, and cost.
#pragma once

#include <cstdint>
#include <vector>

#include "core/backend.h"
#include "train/plan_stage.h"

namespace olm2 {

// The configured policy and budget with another number of chunks, over the programs of a run.
struct ChunkedPlan {
  int64_t chunks = 0;
  bool is_configured = false;       // What the configuration stands for.
  int64_t keep_all_bytes = 0;       // Of the device, to keep everything.
  int64_t minimum_bytes = 0;        // Of the device: the policy's smallest budget.
  double keep_all_s = 0;            // Predicted, of one optimizer step that keeps everything.
  bool fits = false;                // In the budget; the rest is empty otherwise.
  Status status = Status::optimal;  // The weakest of the programs.
  double seconds = 0;               // Predicted, of one optimizer step.
};

// Prints the table, a line as soon as it is known, and returns it: 1, 2, 4 ... chunks of at least
// 16 tokens, and the configured number.  The budget is the configured one in bytes, the same in
// every line.  Kernels that `stage` did not need are measured or estimated like its own.
std::vector<ChunkedPlan> compare_chunks(const Config& config, Backend& backend,
                                        const PlanStage& stage);

}  // namespace olm2
