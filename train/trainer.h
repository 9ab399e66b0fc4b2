// The training loop, from a configuration to a trained model in its output folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/backend.h"
#include "train/config.h"
#include "train/planning.h"

namespace olm2 {

struct TrainRequest {
  Config config;
  bool resume = false;              // Go on from the newest complete checkpoint.
  std::optional<int64_t> steps;     // Make at most so many steps now; the run's length stays.
  std::filesystem::path plan_file;  // Run this plan instead of making one; empty: make one.
  std::filesystem::path trace;      // Write the last step's lanes here (Chrome's trace format).
  bool dry_run = false;             // Plan, print, stop before any data are opened.
};

// What a run did, for the closing lines.
struct TrainSummary {
  std::string plan_text;   // Sizes, budgets and certificates, for people.
  int64_t first_step = 0;  // Steps made before this call.
  int64_t last_step = 0;   // Steps made after it.
  double loss = 0;         // Of the last step.
  std::optional<double> val_loss;
  double median_step_s = 0;
  double median_stall_s = 0;
  BytesPerTier planned{};
  BytesPerTier measured{};
  int64_t resident_bytes = 0;  // Of the process, the most seen after any step.
  StepTime predicted;
  int64_t skipped_steps = 0;  // Their gradient was not finite.
};

// Progress and messages go to stderr.  Throws Error for a request that cannot be met; whatever was
// complete on disk then still is.
TrainSummary train(const TrainRequest& request, Backend& backend);

// Text for people: planned and measured peaks, resident bytes, times, and where the files are.
std::string to_string(const TrainSummary& summary, const Config& config);

}  // namespace olm2
