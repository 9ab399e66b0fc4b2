#include "memory/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"

namespace olm2 {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t page_size() {
  const long size = sysconf(_SC_PAGESIZE);
  ensure(size > 0, "the system does not say how large a page is");
  return static_cast<size_t>(size);
}

size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Bytes the system can still give without swapping; -1 if it does not say.
int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return -1;
}

[[noreturn]] void refuse(int64_t bytes, const std::string& why) {
  const int64_t available = available_bytes();
  throw Error("arena: asked for " + std::to_string(bytes) + " bytes, " +
              (available < 0 ? std::string("an unknown number") : std::to_string(available)) +
              " are available (" + why + "); lower the memory budget or the batch size");
}

// Writes to every page, so that a step never waits for the system to find one.  The kernel zeroes
// pages as they are touched, which is what takes the time: on several threads it takes less.
void touch_pages(std::byte* base, size_t bytes, size_t page) {
  const size_t pages = bytes / page;
  const size_t most = std::max(1U, std::thread::hardware_concurrency());
  const size_t workers = std::clamp(bytes / kHugePage, size_t{1}, most);
  const auto touch = [=](size_t worker) {
    for (size_t i = pages * worker / workers; i < pages * (worker + 1) / workers; ++i) {
      *reinterpret_cast<volatile std::byte*>(base + i * page) = std::byte{0};
    }
  };
  std::vector<std::thread> threads;
  for (size_t worker = 1; worker < workers; ++worker) threads.emplace_back(touch, worker);
  touch(0);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

Arena::Arena(int64_t bytes) : bytes_(bytes) {
  if (bytes < 0) throw Error("arena: asked for " + std::to_string(bytes) + " bytes");
  const size_t page = page_size();
  const int64_t available = available_bytes();
  if (available >= 0 && bytes > available) refuse(bytes, "too little memory");

  // Reserved first without access, then opened in the middle: what stays closed guards.  Large
  // arenas begin at a huge page.
  const size_t usable = std::max(round_up(static_cast<size_t>(bytes), page), page);
  const size_t alignment = usable >= kHugePage ? kHugePage : page;
  if (usable > std::numeric_limits<size_t>::max() / 2) refuse(bytes, "no such address");
  mapping_bytes_ = alignment + usable + 2 * page;
  void* mapping =
      mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) refuse(bytes, std::string("mmap: ") + std::strerror(errno));
  mapping_ = mapping;
  const size_t address = reinterpret_cast<size_t>(mapping);
  base_ = static_cast<std::byte*>(mapping) + (round_up(address + page, alignment) - address);
  if (mprotect(base_, usable, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    release();
    refuse(bytes, std::string("mprotect: ") + std::strerror(error));
  }
  // A wish; a system without huge pages refuses it, and nothing is lost but speed.
  madvise(base_, usable, MADV_HUGEPAGE);
  if (bytes > 0) touch_pages(base_, usable, page);
}

Arena::~Arena() {
  release();
}

Arena::Arena(Arena&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this == &other) return *this;
  release();
  base_ = std::exchange(other.base_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  mapping_ = std::exchange(other.mapping_, nullptr);
  mapping_bytes_ = std::exchange(other.mapping_bytes_, 0);
  return *this;
}

void Arena::release() noexcept {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
  base_ = nullptr;
  bytes_ = 0;
  mapping_ = nullptr;
  mapping_bytes_ = 0;
}

}  // namespace olm2
