#include "data/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

namespace olm2 {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  throw Error(path.string() + ": " + reason);
}

// A file descriptor that closes itself.
struct Descriptor {
  explicit Descriptor(int opened) : number(opened) {}
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number;
};

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  struct stat info = {};
  // Asked first: opening a pipe would wait for a writer.
  if (stat(path_.c_str(), &info) != 0) refuse(path_, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) refuse(path_, "is a directory; name the files in it");
  if (!S_ISREG(info.st_mode)) refuse(path_, "is not a regular file; copy it into one first");
  const Descriptor file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number < 0 || fstat(file.number, &info) != 0) refuse(path_, std::strerror(errno));
  if (info.st_size == 0) return;
  const auto size = static_cast<size_t>(info.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) refuse(path_, std::strerror(errno));
  bytes_ = {static_cast<const char*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace olm2
