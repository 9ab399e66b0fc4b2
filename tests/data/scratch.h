// A directory of one test's own, and files in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <stdlib.h>

#include "data/shard_writer.h"
#include "data/tokenizer.h"

namespace olm2 {

class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "olm2-data-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = pattern;
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

  // A shard "<name>_000000.bin" of the given ids.
  std::filesystem::path write_shard(const std::string& name, const std::vector<uint32_t>& ids,
                                    const std::string& tokenizer = "gpt2") const {
    ShardWriter writer(path_, name, tokenizer_info(tokenizer), 1 << 30);
    writer.append(ids);
    writer.finish();
    writer.commit();
    return path_ / (name + "_000000.bin");
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Name -> bytes of all files of a directory.
inline std::map<std::string, std::string> files_in(const std::filesystem::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    files[entry.path().filename().string()] = read_all(entry.path());
  }
  return files;
}

// What `action` throws as `Exception`; "" if nothing.
template <typename Exception, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace olm2
