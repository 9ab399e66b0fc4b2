// metrics.jsonl: one JSON object per step, appended as the run goes.
//
// A resumed run goes on where its checkpoint was made: later lines, of steps that are made again,
// are cut off, so that the log of a run does not show how often it was interrupted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/tier.h"

namespace olm2 {

struct StepMetrics {
  int64_t step = 0;    // Steps made, this one included: the first line says 1.
  int64_t tokens = 0;  // Tokens trained on so far.
  double loss = 0;     // Mean over the whole batch, nats per token.
  double lr = 0;
  double grad_norm = 0;  // Before clipping.
  double step_ms = 0;
  double tokens_per_s = 0;
  double stall_ms = 0;
  BytesPerTier peak{};      // Measured.
  BytesPerTier planned{};   // Of the plan.
  std::string policy = {};  // Whose plan it is.
  int64_t resident_bytes = 0;
  std::optional<double> val_loss = {};  // If the model was evaluated after this step.
};

// One line without its end.  Numbers have the digits that give their bits back; what is not finite
// is null.
std::string to_json_line(const StepMetrics& metrics);

class MetricsLog {
 public:
  // Throws Error if the file holds steps already: a run does not write over another one.
  static MetricsLog start(const std::filesystem::path& file);
  // Keeps the lines of steps <= `step`, and those only; a missing file is begun.  Throws Error if
  // a line that is not the last is broken.
  static MetricsLog resume(const std::filesystem::path& file, int64_t step);

  ~MetricsLog();
  MetricsLog(MetricsLog&& other) noexcept;
  MetricsLog& operator=(MetricsLog&&) = delete;
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  // Visible to readers of the file right away.
  void append(const StepMetrics& metrics);
  // Survives a power cut; to be called before a checkpoint is saved.
  void sync();

 private:
  explicit MetricsLog(std::filesystem::path file);
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace olm2
