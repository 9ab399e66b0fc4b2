// Saving and loading.  The order of operations is explained in the header.
#include "train/checkpoint.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "data/output_file.h"
#include "train/bytes.h"
#include "train/checkpoint_files.h"

namespace olm2 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTransformer = "transformer.";
constexpr std::string_view kHead = "lm_head.weight";

// --- saving -----------------------------------------------------------------------------------

// Turns the exceptions of <filesystem> into ours.
template <typename Action>
void on_disk(const fs::path& path, const char* what, Action&& action) {
  try {
    action();
  } catch (const fs::filesystem_error& error) {
    throw Error(path.string() + ": cannot be " + what + ": " + error.code().message());
  }
}

void make_folder(const fs::path& folder) {
  on_disk(folder, "made", [&] {
    if (fs::create_directories(folder)) sync_folder(folder.parent_path());
  });
}

void rename_folder(const fs::path& from, const fs::path& to) {
  on_disk(to, "renamed into", [&] { fs::rename(from, to); });
  sync_folder(to.parent_path());
}

// The marker goes first: what is half removed is not complete.
void remove_checkpoint(const fs::path& checkpoint) {
  on_disk(checkpoint, "removed", [&] {
    if (fs::remove(checkpoint / kMarkerFile)) sync_folder(checkpoint);
    fs::remove_all(checkpoint);
  });
}

std::vector<TensorView> with_file_names(std::span<const TensorView> parameters) {
  std::vector<TensorView> views(parameters.begin(), parameters.end());
  for (TensorView& view : views) view.name = file_name_of_parameter(view.name);
  return views;
}

void check_space(const fs::path& folder, int64_t needed) {
  const int64_t free = free_bytes(folder);
  if (free < 0 || needed <= free) return;  // Unknown: the writes themselves will tell.
  throw Error(
      folder.string() + ": a checkpoint needs " + describe_bytes(needed) + ", free are " +
      describe_bytes(free) +
      "; make room or set output.keep_checkpoints lower; earlier checkpoints are untouched");
}

// Moves a folder of this name out of the way, without ever giving up the only complete one.
void set_aside(const fs::path& checkpoint) {
  if (!fs::exists(checkpoint)) return;
  if (!why_incomplete(checkpoint).empty()) {
    remove_checkpoint(checkpoint);
    return;
  }
  fs::path old = checkpoint;
  old += ".old";
  remove_checkpoint(old);
  rename_folder(checkpoint, old);
}

// Removes all but the `keep` newest complete checkpoints; `saved` stays in any case.
void remove_older(const fs::path& run, const fs::path& saved, int64_t keep) {
  int64_t kept = 0;
  int64_t last_step = -1;
  for (const CheckpointFolder& folder : list_checkpoints(run)) {
    const bool usable = !folder.unfinished && why_incomplete(folder.path).empty();
    const bool another_of_the_step = folder.step == last_step;
    if (folder.path == saved || (usable && !another_of_the_step && kept < keep)) {
      ++kept;
      last_step = folder.step;
    } else {
      remove_checkpoint(folder.path);
    }
  }
}

struct Contents {
  std::string state;
  std::vector<TensorView> parameters;
  std::span<const TensorView> moments;
  Metadata metadata = {{"format", "pt"}};  // What readers of Hugging Face files look for.

  int64_t bytes() const {
    int64_t total = static_cast<int64_t>(state.size()) + safetensors_bytes(parameters, metadata);
    if (!moments.empty()) total += safetensors_bytes(moments, metadata);
    return total;
  }
  void write(const fs::path& folder, WriteFaults* faults) const {
    write_safetensors(folder / kModelFile, parameters, metadata, faults);
    if (!moments.empty()) write_safetensors(folder / kMomentsFile, moments, metadata, faults);
    write_file(folder / kStateFile, state, faults);
  }
};

// Steps 1 to 4 of the header.
void write_checkpoint(const fs::path& checkpoint, const Contents& contents, WriteFaults* faults) {
  fs::path staging = checkpoint;
  staging += ".tmp";
  try {
    make_folder(staging);
    contents.write(staging, faults);
  } catch (...) {
    std::error_code ignored;  // The first error is the one to report.
    fs::remove_all(staging, ignored);
    throw;
  }
  set_aside(checkpoint);
  rename_folder(staging, checkpoint);
  if (faults != nullptr && faults->at) faults->at(WritePoint::renamed, checkpoint);
  try {
    write_file(checkpoint / kMarkerFile, to_marker_text(checkpoint), faults);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(checkpoint, ignored);
    throw;
  }
}

// --- loading ----------------------------------------------------------------------------------

// Attention masks that some files hold, and a head that is the token table once more.
bool may_be_superfluous(std::string_view stored) {
  return stored.ends_with(".attn.bias") || stored.ends_with(".attn.masked_bias") || stored == kHead;
}

// The name a parameter has in this file; the ones published with GPT-2 lack the prefix.
std::string name_in(const SafetensorsFile& file, std::string_view parameter) {
  std::string name = file_name_of_parameter(parameter);
  return file.find(name) == nullptr && file.find(parameter) != nullptr ? std::string(parameter)
                                                                       : name;
}

void load(const SafetensorsFile& file, std::span<const TensorTarget> targets,
          std::span<const std::string> names) {
  std::string problems;
  std::set<std::string, std::less<>> wanted;
  for (size_t i = 0; i < targets.size(); ++i) {
    wanted.insert(names[i]);
    const StoredTensor* const stored = file.find(names[i]);
    const ValueType& type = targets[i].type;
    if (stored == nullptr) {
      problems += "\n  " + names[i] + ": missing, expected " + to_string(type);
    } else if (stored->dtype != type.dtype || stored->shape != type.shape) {
      problems += "\n  " + names[i] + ": found " + stored->dtype_name + to_string(stored->shape) +
                  ", expected " + to_string(type);
    }
  }
  for (const StoredTensor& stored : file.tensors()) {
    if (wanted.contains(stored.name) || may_be_superfluous(stored.name)) continue;
    problems += "\n  " + stored.name + ": not part of this model";
  }
  if (!problems.empty()) {
    throw Error(file.path().string() + ": its tensors do not fit:" + problems);
  }
  for (size_t i = 0; i < targets.size(); ++i) file.read(names[i], targets[i]);
}

}  // namespace

std::string file_name_of_parameter(std::string_view parameter) {
  if (parameter == kHead) return std::string(parameter);
  return std::string(kTransformer) + std::string(parameter);
}

fs::path save_checkpoint(const fs::path& run, const CheckpointState& state,
                         std::span<const TensorView> parameters,
                         std::span<const TensorView> moments, const SaveOptions& options) {
  const Contents contents{
      .state = to_state_text(state), .parameters = with_file_names(parameters), .moments = moments};
  const fs::path folder = checkpoints_of(run);
  fs::path checkpoint = folder / checkpoint_name(state.step);
  make_folder(folder);
  for (const CheckpointFolder& left : list_checkpoints(run)) {
    if (left.unfinished) remove_checkpoint(left.path);  // Of a run that died.
  }
  check_space(folder, contents.bytes());
  write_checkpoint(checkpoint, contents, options.faults);
  remove_older(run, checkpoint, std::max<int64_t>(options.keep, 1));
  return checkpoint;
}

bool has_moments(const fs::path& checkpoint) {
  std::error_code error;
  return fs::exists(checkpoint / kMomentsFile, error);
}

void load_parameters(const fs::path& checkpoint, std::span<const TensorTarget> parameters) {
  const SafetensorsFile file(checkpoint / kModelFile);
  std::vector<std::string> names;
  for (const TensorTarget& target : parameters) names.push_back(name_in(file, target.name));
  load(file, parameters, names);
}

void load_moments(const fs::path& checkpoint, std::span<const TensorTarget> moments) {
  const SafetensorsFile file(checkpoint / kMomentsFile);
  std::vector<std::string> names;
  for (const TensorTarget& target : moments) names.push_back(target.name);
  load(file, moments, names);
}

}  // namespace olm2
