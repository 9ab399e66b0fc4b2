// One allocation per tier, made once: everything a step touches lies inside, at planned offsets.
#pragma once

#include <cstddef>
#include <cstdint>

namespace olm2 {

// Owns `bytes` of zeroed memory, aligned to a page, huge pages where the system gives them, touched
// at construction, with an inaccessible guard page before and after (an access beyond the end is
// caught from the next page boundary on).
class Arena {
 public:
  Arena() = default;
  // Throws Error with the bytes asked for and the bytes free if the system has not enough.
  explicit Arena(int64_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* at(int64_t offset) const { return base_ + offset; }
  int64_t bytes() const { return bytes_; }

 private:
  void release() noexcept;
  std::byte* base_ = nullptr;
  int64_t bytes_ = 0;
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
};

}  // namespace olm2
