#include "train/files.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"
#include "data/output_file.h"

namespace olm2 {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

bool is_full(int error) {
  return error == ENOSPC || error == EDQUOT;
}

}  // namespace

FileWriter::FileWriter(std::filesystem::path file, int64_t total_bytes, WriteFaults* faults)
    : file_(std::move(file)), total_bytes_(total_bytes), faults_(faults) {
  temporary_ = file_;
  temporary_ += ".tmp";
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot be written", errno);
  passed(WritePoint::opened);
}

FileWriter::~FileWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void FileWriter::write(std::span<const std::byte> bytes) {
  total_bytes_ = std::max(total_bytes_, written_ + static_cast<int64_t>(bytes.size()));
  while (!bytes.empty()) {
    const size_t count = write_some(bytes);
    written_ += static_cast<int64_t>(count);
    bytes = bytes.subspan(count);
  }
}

void FileWriter::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

// One call of the system, which may write less than it was given.
size_t FileWriter::write_some(std::span<const std::byte> bytes) {
  size_t count = bytes.size();
  if (faults_ != nullptr && faults_->largest_write > 0) {
    count = std::min(count, static_cast<size_t>(faults_->largest_write));
  }
  if (faults_ != nullptr && faults_->bytes_until_full >= 0) {
    count = std::min(count, static_cast<size_t>(faults_->bytes_until_full));
    faults_->bytes_until_full -= static_cast<int64_t>(count);
    if (count == 0) fail("cannot be written", ENOSPC);
  }
  for (;;) {
    const ssize_t written = ::write(descriptor_, bytes.data(), count);
    if (written > 0) return static_cast<size_t>(written);
    if (written == 0) fail("cannot be written", EIO);
    if (errno != EINTR) fail("cannot be written", errno);
  }
}

void FileWriter::commit() {
  passed(WritePoint::written);
  if (::fsync(descriptor_) != 0) fail("cannot be synced", errno);
  passed(WritePoint::synced);
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) fail("cannot be renamed into", errno);
  ::close(std::exchange(descriptor_, -1));
  passed(WritePoint::renamed);
  sync_folder(file_.parent_path());
}

void FileWriter::passed(WritePoint point) const {
  if (faults_ != nullptr && faults_->at) faults_->at(point, file_);
}

void FileWriter::fail(const char* action, int error) const {
  std::string message = file_.string() + ": " + action + ": " + reason(error);
  if (is_full(error)) {
    message += "; needed " + std::to_string(total_bytes_) + " bytes, free " +
               std::to_string(free_bytes(file_.parent_path().empty() ? "." : file_.parent_path())) +
               " bytes (" + std::to_string(written_) + " were written and are removed again)";
  }
  throw Error(message);
}

void write_file(const std::filesystem::path& file, std::string_view text, WriteFaults* faults) {
  FileWriter writer(file, static_cast<int64_t>(text.size()), faults);
  writer.write(text);
  writer.commit();
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream.good() && !stream.eof()) throw Error(file.string() + ": cannot be read");
  return text;
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw Error(path.string() + ": cannot be opened: " + reason(errno));
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // EINVAL: a file system without folders to sync.
  if (error != 0 && error != EINVAL) {
    throw Error(path.string() + ": cannot be synced: " + reason(error));
  }
}

}  // namespace olm2
