#include "data/output_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/error.h"

namespace olm2 {
namespace {

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

std::filesystem::path partial_path(const std::filesystem::path& path) {
  return path.string() + ".partial";
}

int64_t free_bytes(const std::filesystem::path& directory) {
  struct statvfs info = {};
  if (statvfs(directory.c_str(), &info) != 0) return -1;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

void sync_directory(const std::filesystem::path& directory) {
  const int file = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = file >= 0 && fsync(file) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  // Some file systems have no such thing as syncing a directory.
  if (!synced && error != EINVAL) {
    throw Error(directory.string() + ": cannot be synced: " + std::strerror(error));
  }
}

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)), partial_(partial_path(path_)) {
  file_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) {
    const std::string reason = std::strerror(errno);
    throw Error(partial_.string() + ": cannot be created: " + reason);
  }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, {})),
      file_(std::exchange(other.file_, -1)),
      size_(other.size_) {}

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
  if (!partial_.empty()) unlink(partial_.c_str());
}

void OutputFile::refuse(const std::string& doing, size_t bytes) const {
  const int error = errno;
  std::string message = partial_.string() + ": " + doing + " failed: " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    message += "; at least " + std::to_string(bytes) + " more bytes are needed after the " +
               std::to_string(size_) + " written, " +
               std::to_string(free_bytes(directory_of(path_))) +
               " are free; make room or write elsewhere";
  }
  throw Error(message);
}

void OutputFile::write_at(int64_t offset, std::string_view bytes) {
  ensure(file_ >= 0, "writing to a finished file");
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("writing", bytes.size());
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
}

void OutputFile::append(std::string_view bytes) {
  write_at(size_, bytes);
  size_ += static_cast<int64_t>(bytes.size());
}

void OutputFile::overwrite(int64_t offset, std::string_view bytes) {
  ensure(offset + static_cast<int64_t>(bytes.size()) <= size_, "writing over the end of a file");
  write_at(offset, bytes);
}

void OutputFile::finish() {
  if (fsync(file_) != 0) refuse("syncing", 0);
  if (close(std::exchange(file_, -1)) != 0) refuse("closing", 0);
}

void OutputFile::commit() {
  ensure(file_ < 0 && !partial_.empty(), "committing an unfinished file");
  if (rename(partial_.c_str(), path_.c_str()) != 0) refuse("renaming", 0);
  partial_.clear();
}

}  // namespace olm2
