// A file's bytes without reading them first.
#pragma once

#include <filesystem>
#include <string_view>

namespace olm2 {

// Read-only; owns the mapping.  The file must not be changed while it is mapped.
class MappedFile {
 public:
  // Throws Error if the path is not a regular file that can be read.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string_view bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::string_view bytes_;
};

}  // namespace olm2
