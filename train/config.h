// The configuration of a run: what a TOML file and `--set` may say, checked to the last key.
//
// Every key is read, refused or has a default; nothing is ignored.  A message names file and line
// (or the --set), what was found and what was expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "train/bytes.h"
#include "train/learning_rate.h"

namespace olm2 {

struct DataConfig {
  std::vector<std::string> train;  // Globs, absolute.
  std::vector<std::string> val;    // The same; may be empty.
  std::string tokenizer = "gpt2";  // "gpt2" | "bytes"
  bool shuffle = true;
  bool operator==(const DataConfig&) const = default;
};

enum class OnNonfinite : uint8_t { stop, skip };
std::string_view to_string(OnNonfinite choice);

struct TrainConfig {
  int64_t batch_size = 0;  // Sequences per micro batch.
  int64_t sequence_length = 0;
  int64_t steps = 0;
  int64_t grad_accumulation = 1;   // Micro batches per step; follows from total_batch_tokens.
  int64_t total_batch_tokens = 0;  // As given; 0: not given.
  std::string dtype = "float32";   // | "bfloat16": can be planned, no backend computes in it yet.
  int64_t seed = 1337;
  int64_t threads = 0;      // 0: all.
  int64_t head_chunks = 0;  // Of the output head; 0: from the sizes (models/model.h).
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  bool fresh_optimizer = false;
  bool operator==(const TrainConfig&) const = default;
};

struct OptimizerConfig {
  ScheduleConfig rate;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double grad_clip = 1.0;  // Largest global norm; 0: never clipped.
  bool operator==(const OptimizerConfig&) const = default;
};

struct MemoryConfig {
  std::string policy = "olm2";
  // Bytes of the whole device arena, or S + percent of A: S the state, A the rest of the arena that
  // policy `none` needs.
  ByteSize device_budget = {.bytes = 0, .percent = 100};
  ByteSize host_budget = {.bytes = 0, .percent = -1};  // Never a percentage.
  // "planned": state takes bytes on the device while it is there; "resident": for whole steps.
  std::string state = "planned";
  bool partial_swap = true;
  std::optional<double> optimizer_offload = {};  // Share of the moments' bytes; empty: "auto".
  bool operator==(const MemoryConfig&) const = default;
};

struct PlannerConfig {
  double gap = 0.005;
  double time_limit_s = 60;
  // Of the solver alone; 0: half of the machine's memory.  Never a percentage.
  ByteSize memory_limit = {.bytes = 0, .percent = -1};
  std::string space = "auto";
  int64_t place_effort = 1;         // How long to search for addresses: so many times as usual.
  std::string profile = "measure";  // "measure" | "estimate" | a file, absolute.
  bool operator==(const PlannerConfig&) const = default;
};

struct DeviceConfig {
  std::string backend = "auto";  // "auto" | "cpu"
  bool operator==(const DeviceConfig&) const = default;
};

struct OutputConfig {
  std::string dir;  // Absolute.
  int64_t log_every = 1;
  int64_t eval_every = 0;  // 0: never.
  int64_t eval_batches = 20;
  int64_t checkpoint_every = 0;  // 0: at the end.
  int64_t keep_checkpoints = 2;
  int64_t sample_every = 0;  // 0: never.
  bool operator==(const OutputConfig&) const = default;
};

struct Config {
  ModelConfig model;   // With the preset's sizes, if one is given.
  std::string preset;  // As given; empty: the sizes are.
  std::string init_from;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  MemoryConfig memory;
  PlannerConfig planner;
  DeviceConfig device;
  OutputConfig output;
  bool operator==(const Config&) const = default;
};

// Reads and checks a file; each of `sets` is "section.key=value" and wins over the file.  A value
// that is no TOML value is taken as a string.  Relative paths, those of `sets` too, are relative
// to the file.  Throws Error.
Config load_config(const std::filesystem::path& file, std::span<const std::string> sets = {});

// The same from text; `file` names it in messages and anchors relative paths.
Config parse_config(std::string_view text, const std::filesystem::path& file,
                    std::span<const std::string> sets = {});

// TOML text of every key; parse_config gives the same Config back.
std::string to_toml(const Config& config);

// Refuses a budget in bytes above what the device has; the message has both in bytes.
void check_device_budget(const Config& config, int64_t device_bytes);

}  // namespace olm2
