// Counts allocations above a size while it is armed, whoever makes them: operator new ends in
// malloc, and malloc is replaced here.  Include it from exactly one file of a test program.
// Under sanitizers, which replace malloc themselves, kCanWatch is false and nothing is counted.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OLM2_TESTS_UNDER_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OLM2_TESTS_UNDER_SANITIZER
#endif

namespace olm2::testing {

inline std::atomic<size_t> watched_above{~size_t{0}};  // Bytes; the largest number: not armed.
inline std::atomic<size_t> watched_count{0};
inline std::atomic<size_t> watched_largest{0};

inline void note_allocation(size_t bytes) {
  if (bytes <= watched_above.load(std::memory_order_relaxed)) return;
  ++watched_count;
  size_t largest = watched_largest;
  while (largest < bytes && !watched_largest.compare_exchange_weak(largest, bytes)) {
  }
}

// While it lives, allocations of more than `above` bytes are counted.
class AllocationWatch {
 public:
  explicit AllocationWatch(size_t above) {
    watched_count = 0;
    watched_largest = 0;
    watched_above = above;
  }
  ~AllocationWatch() { watched_above = ~size_t{0}; }
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;
  size_t count() const { return watched_count; }
  size_t largest() const { return watched_largest; }
};

#ifdef OLM2_TESTS_UNDER_SANITIZER
inline constexpr bool kCanWatch = false;
#else
inline constexpr bool kCanWatch = true;
#endif

}  // namespace olm2::testing

#ifndef OLM2_TESTS_UNDER_SANITIZER
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) noexcept {
  olm2::testing::note_allocation(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) noexcept {
  olm2::testing::note_allocation(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) noexcept {
  olm2::testing::note_allocation(bytes);
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  olm2::testing::note_allocation(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) noexcept {
  olm2::testing::note_allocation(bytes);
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
}
#endif
