// What a run leaves in output.dir, besides checkpoints: the configuration as resolved, the cached
// profile, the plan, the metrics.
#pragma once

#include <filesystem>

#include "core/profile.h"
#include "train/config.h"

namespace olm2 {

class RunFolder {
 public:
  // Makes the folder.  Throws Error if it cannot be written to, or if it holds a run already and
  // this is not a resume.
  RunFolder(const Config& config, bool resume);

  std::filesystem::path path() const { return path_; }
  static std::filesystem::path metrics_in(const std::filesystem::path& folder) {
    return folder / "metrics.jsonl";
  }
  std::filesystem::path metrics() const { return metrics_in(path_); }
  std::filesystem::path plan() const { return path_ / "plan.json"; }
  std::filesystem::path plan_page() const { return path_ / "plan.html"; }
  std::filesystem::path samples() const { return path_ / "samples.txt"; }

  void write_config(const Config& config) const;

  // Keeps the times the plan was made for beside it.
  void cache_profile(const Profile& profile) const;

 private:
  std::filesystem::path path_;
};

// The file that keeps the times a plan was made for: "x.profile.json" beside "x.json".
std::filesystem::path profile_beside(const std::filesystem::path& plan);

// The profile in `file` if it was measured on this device; empty if there is none.  Throws Error if
// the file is no profile.
Profile read_cached_profile(const std::filesystem::path& file, const std::string& device);

}  // namespace olm2
