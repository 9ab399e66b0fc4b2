// Which checkpoints there are, and which of them are complete.
#include <algorithm>
#include <charconv>
#include <sstream>
#include <system_error>
#include <tuple>

#include "core/error.h"
#include "train/checkpoint.h"
#include "train/checkpoint_files.h"

namespace olm2 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_";

// False: not the name of a checkpoint.
bool parse_name(const std::string& name, CheckpointFolder& folder) {
  if (!name.starts_with(kPrefix)) return false;
  const char* const begin = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size();
  const auto [rest, status] = std::from_chars(begin, end, folder.step);
  if (status != std::errc() || folder.step < 0) return false;
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  folder.unfinished = suffix == ".tmp";
  folder.replaced = suffix == ".old";
  return suffix.empty() || folder.unfinished || folder.replaced;
}

}  // namespace

fs::path checkpoints_of(const fs::path& run) {
  return run / "checkpoints";
}

std::string checkpoint_name(int64_t step) {
  const std::string digits = std::to_string(step);
  const size_t zeros = digits.size() < 6 ? 6 - digits.size() : 0;
  return std::string(kPrefix) + std::string(zeros, '0') + digits;
}

std::vector<CheckpointFolder> list_checkpoints(const fs::path& run) {
  std::vector<CheckpointFolder> folders;
  std::error_code error;
  for (fs::directory_iterator entry(checkpoints_of(run), error), end; !error && entry != end;
       entry.increment(error)) {
    CheckpointFolder folder{.path = entry->path()};
    if (parse_name(entry->path().filename().string(), folder)) folders.push_back(folder);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(checkpoints_of(run).string() + ": cannot be listed: " + error.message());
  }
  std::ranges::sort(folders, {}, [](const CheckpointFolder& folder) {
    return std::tuple(-folder.step, folder.unfinished, folder.replaced);
  });
  return folders;
}

std::string to_marker_text(const fs::path& checkpoint) {
  std::string text;
  for (const std::string_view name : {kModelFile, kMomentsFile, kStateFile}) {
    std::error_code error;
    const auto bytes = fs::file_size(checkpoint / name, error);
    if (!error) text += std::string(name) + " " + std::to_string(bytes) + "\n";
  }
  return text;
}

std::string why_incomplete(const fs::path& checkpoint) {
  const fs::path marker = checkpoint / kMarkerFile;
  std::error_code error;
  if (!fs::exists(marker, error)) {
    return "the marker '" + std::string(kMarkerFile) + "' is missing: it was not saved to the end";
  }
  std::istringstream lines(read_file(marker));
  std::string name;
  uintmax_t bytes = 0;
  bool has_model = false;
  while (lines >> name >> bytes) {
    has_model = has_model || name == kModelFile;
    const auto found = fs::file_size(checkpoint / name, error);
    if (error && name == kMomentsFile) continue;
    if (error) return name + " is missing";
    if (found != bytes) {
      return name + " has " + std::to_string(found) + " bytes, expected " + std::to_string(bytes);
    }
  }
  return has_model ? "" : "the marker '" + std::string(kMarkerFile) + "' is broken";
}

FoundCheckpoint find_checkpoint(const fs::path& run) {
  FoundCheckpoint result;
  for (const CheckpointFolder& folder : list_checkpoints(run)) {
    const std::string reason =
        folder.unfinished ? "it was being written" : why_incomplete(folder.path);
    if (reason.empty()) {
      result.path = folder.path;
      break;
    }
    result.is_damaged = result.is_damaged || fs::exists(folder.path / kMarkerFile);
    result.skipped.push_back(folder.path.filename().string() + ": " + reason);
  }
  return result;
}

fs::path resolve_checkpoint(const fs::path& run_or_checkpoint) {
  std::error_code error;
  if (!fs::is_directory(run_or_checkpoint, error)) {
    throw Error(run_or_checkpoint.string() +
                ": no such folder; expected a run's output.dir or one of its checkpoints");
  }
  if (!fs::is_directory(checkpoints_of(run_or_checkpoint), error)) {
    const std::string reason = why_incomplete(run_or_checkpoint);
    if (reason.empty()) return run_or_checkpoint;
    throw Error(run_or_checkpoint.string() + ": no complete checkpoint: " + reason);
  }
  const FoundCheckpoint found = find_checkpoint(run_or_checkpoint);
  if (found.path) return *found.path;
  std::string message = run_or_checkpoint.string() + ": has no complete checkpoint";
  for (const std::string& skipped : found.skipped) message += "\n  skipped " + skipped;
  throw Error(message);
}

}  // namespace olm2
