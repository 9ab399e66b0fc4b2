// Inside of train/checkpoint: names of files and folders, and what makes a checkpoint complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint.h"

namespace olm2 {

inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kMomentsFile = "optimizer.safetensors";
inline constexpr std::string_view kStateFile = "state.json";
inline constexpr std::string_view kMarkerFile = "complete";

// A folder of RUN/checkpoints whose name is a checkpoint's.
struct CheckpointFolder {
  std::filesystem::path path;
  int64_t step = 0;
  bool unfinished = false;  // ".tmp"
  bool replaced = false;    // ".old"
};

std::filesystem::path checkpoints_of(const std::filesystem::path& run);
std::string checkpoint_name(int64_t step);  // "step_000100"

// Newest first; of one step: the one in use, then the replaced, then the unfinished one.
std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& run);

// Name and size of every file in the folder.
std::string to_marker_text(const std::filesystem::path& checkpoint);
// Empty if complete.  Moments may have been deleted by hand: then it holds weights only.
std::string why_incomplete(const std::filesystem::path& checkpoint);

std::string to_state_text(const CheckpointState& state);

}  // namespace olm2
