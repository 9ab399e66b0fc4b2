// A file that appears under its name whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace olm2 {

// Writes to "<path>.partial", which no glob for *.bin matches; commit() gives it its name.
// Destroyed before that, it leaves nothing behind.  Every member function throws Error; when the
// disk is full, with the bytes needed and free.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void append(std::string_view bytes);
  // Writes over bytes that were appended before.
  void overwrite(int64_t offset, std::string_view bytes);
  // After this the bytes are on the disk and nothing more can be written.
  void finish();
  void commit();

 private:
  void write_at(int64_t offset, std::string_view bytes);
  [[noreturn]] void refuse(const std::string& doing, size_t bytes) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;  // Empty: committed, or moved from.
  int file_ = -1;
  int64_t size_ = 0;
};

// What OutputFile calls the file until it is whole.
std::filesystem::path partial_path(const std::filesystem::path& path);

// Bytes an unprivileged user can still write where `directory` lies; -1 if nobody knows.
int64_t free_bytes(const std::filesystem::path& directory);

// Makes the names in `directory` (renamed, removed) last through a power cut.
void sync_directory(const std::filesystem::path& directory);

}  // namespace olm2
