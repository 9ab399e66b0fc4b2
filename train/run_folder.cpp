#include "train/run_folder.h"

#include "core/error.h"
#include "train/files.h"
#include "train/measure.h"

namespace olm2 {

RunFolder::RunFolder(const Config& config, bool resume) : path_(config.output.dir) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) {
    throw Error("output.dir: cannot make " + path_.string() + ": " + error.message());
  }
  if (!resume && std::filesystem::exists(metrics())) {
    throw Error("output.dir: " + path_.string() +
                " holds a run already; add --resume to go on with it, or choose another folder");
  }
}

void RunFolder::write_config(const Config& config) const {
  write_file(path_ / "config.toml", to_toml(config));
}

void RunFolder::cache_profile(const Profile& profile) const {
  write_file(profile_beside(plan()), to_json(profile));
}

std::filesystem::path profile_beside(const std::filesystem::path& plan) {
  std::filesystem::path file = plan;
  return file.replace_extension(".profile.json");
}

Profile read_cached_profile(const std::filesystem::path& file, const std::string& device) {
  if (!std::filesystem::exists(file)) return {};
  Profile profile = parse_profile(read_file(file), file.string());
  return profile.device == device && profile.source == "measured" ? profile : Profile{};
}

}  // namespace olm2
