// Files that are whole or absent, whatever happens while they are written.
//
// A file is written under a temporary name beside its own, synced, renamed and its folder synced,
// in this order: its name never shows anything but all of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace olm2 {

enum class WritePoint : uint8_t { opened, written, synced, renamed };

// What goes wrong while files are written, for tests.
struct WriteFaults {
  // Called right after each point has been passed, with the file's final name.
  std::function<void(WritePoint point, const std::filesystem::path& file)> at;
  int64_t bytes_until_full = -1;  // The disk is full after so many bytes more; -1: never.
  int64_t largest_write = 0;      // A call writes no more than this at once; 0: as asked.
};

// Writes one file.  Not committed, it leaves nothing behind.
class FileWriter {
 public:
  // Throws Error if the file cannot be made.  `total_bytes`, if known, is what a full disk's
  // message says is needed.
  explicit FileWriter(std::filesystem::path file, int64_t total_bytes = 0,
                      WriteFaults* faults = nullptr);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Throws Error; if the disk is full, with the bytes needed and free.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Makes the file appear under its name.  Throws Error; then the old file, if any, is as it was.
  void commit();

 private:
  size_t write_some(std::span<const std::byte> bytes);
  void passed(WritePoint point) const;
  [[noreturn]] void fail(const char* action, int error) const;

  std::filesystem::path file_;
  std::filesystem::path temporary_;
  int64_t total_bytes_ = 0;
  int64_t written_ = 0;
  WriteFaults* faults_ = nullptr;
  int descriptor_ = -1;
};

void write_file(const std::filesystem::path& file, std::string_view text,
                WriteFaults* faults = nullptr);
// Throws Error if the file cannot be read.
std::string read_file(const std::filesystem::path& file);

// Makes renames and removals in a folder survive a power cut.
void sync_folder(const std::filesystem::path& folder);

}  // namespace olm2
