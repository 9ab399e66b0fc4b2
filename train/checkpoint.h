// What a run can go on from: parameters, moments and position, saved so that a crash at any moment
// leaves a complete checkpoint.
//
//   RUN/checkpoints/step_000100/   model.safetensors      parameters, Hugging Face GPT-2 names
//                                  optimizer.safetensors  moments; absent: weights only
//                                  state.json             step, position, model, hashes
//                                  complete               the marker: name and size of each file
//
// Order of operations (each file and rename synced before the next begins):
//   1. the three files, into step_000100.tmp          a crash leaves a .tmp: never looked at
//   2. an older step_000100 is renamed step_000100.old    it still counts while there is no other
//   3. step_000100.tmp is renamed step_000100         a crash leaves it without marker: skipped
//   4. the marker is written                          from here on it is complete
//   5. older checkpoints lose first their marker, then their files
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "train/files.h"
#include "train/safetensors.h"

namespace olm2 {

struct CheckpointState {
  int64_t step = 0;           // Steps made.
  int64_t tokens = 0;         // Tokens trained on so far.
  int64_t moments_began = 0;  // Steps made when the moments were zero: AdamW counts from there.
  int64_t data_position = 0;  // Where the loader goes on; its own unit.
  uint64_t seed = 0;
  int64_t sequence_length = 0;
  std::string tokenizer;
  ModelConfig model;
  std::map<std::string, std::string> hashes;  // For the record, e.g. "graph", "data".
  bool operator==(const CheckpointState&) const = default;
};

struct SaveOptions {
  int64_t keep = 2;  // Complete checkpoints to keep, this one included; at least 1.
  WriteFaults* faults = nullptr;
};

// Saves RUN/checkpoints/step_NNNNNN and returns it.  Parameters have graph names ("wte.weight");
// without moments the checkpoint holds weights only.  Copies no tensor.  Throws Error if the disk
// has not room (checked before the first byte) or fails; every earlier checkpoint then still loads.
std::filesystem::path save_checkpoint(const std::filesystem::path& run,
                                      const CheckpointState& state,
                                      std::span<const TensorView> parameters,
                                      std::span<const TensorView> moments,
                                      const SaveOptions& options = {});

// The newest complete checkpoint of a run.
struct FoundCheckpoint {
  std::optional<std::filesystem::path> path;  // Empty: none is complete.
  // Newer ones that are not complete: "step_000120: the marker 'complete' is missing".
  std::vector<std::string> skipped;
  // One of the skipped was complete once: its files are not what its marker says.
  bool is_damaged = false;
};
FoundCheckpoint find_checkpoint(const std::filesystem::path& run);

// The checkpoint meant by a path that is a run's folder or a checkpoint's.  Throws Error if there
// is no complete one, with what was skipped.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& run_or_checkpoint);

// Throws Error naming the file and what is wrong with it.
CheckpointState load_state(const std::filesystem::path& checkpoint);

bool has_moments(const std::filesystem::path& checkpoint);

// Read into memory of the caller.  Throw Error listing every tensor that is missing, superfluous or
// of another type.
void load_parameters(const std::filesystem::path& checkpoint,
                     std::span<const TensorTarget> parameters);
void load_moments(const std::filesystem::path& checkpoint, std::span<const TensorTarget> moments);

// Throws Error unless a run described by `wanted` can go on from `found`, naming each field that
// differs.  Step, tokens, position and hashes may differ.  Weights only: refused unless
// `fresh_optimizer`.
void check_resumable(const std::filesystem::path& checkpoint, const CheckpointState& found,
                     const CheckpointState& wanted, bool fresh_optimizer);

// The same for a run that only takes the weights: the model's sizes must agree.
void check_same_model(const std::filesystem::path& checkpoint, const ModelConfig& found,
                      const ModelConfig& wanted);

// "h.0.ln_1.weight" -> "transformer.h.0.ln_1.weight"; "lm_head.weight" stays.
std::string file_name_of_parameter(std::string_view parameter);

}  // namespace olm2
