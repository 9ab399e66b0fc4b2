// No kernel asks for memory while it runs: malloc and its relatives are replaced by functions that
// write down the largest request.  (A sanitizer replaces malloc itself; the test is skipped there.)
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cpu/cpu_backend.h"
#include "larger_samples.h"
#include "one_node.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OLM2_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OLM2_SANITIZED
#endif
#endif

namespace {

std::atomic<bool> watching{false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<size_t> largest{0};     // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

[[maybe_unused]] void note(size_t bytes) {
  if (!watching.load(std::memory_order_relaxed)) return;
  size_t seen = largest.load();
  while (bytes > seen && !largest.compare_exchange_weak(seen, bytes)) {
  }
}

}  // namespace

#ifndef OLM2_SANITIZED
// glibc's own entry points, which its malloc is an alias of.
extern "C" {
void* __libc_malloc(size_t bytes);                      // NOLINT
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT
void* __libc_realloc(void* memory, size_t bytes);       // NOLINT
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT

void* malloc(size_t bytes) {
  note(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  note(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  note(bytes);
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  note(bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif

namespace olm2::testing {
namespace {

constexpr size_t kAllowed = 4096;

// The largest request while `work` runs, bytes.
template <typename Work>
size_t largest_request(Work&& work) {
  largest = 0;
  watching = true;
  work();
  watching = false;
  return largest;
}

void expect_no_large_request(const CpuOptions& options) {
  CpuBackend cpu(options);
  for (const NamedSample& named : every_sample()) {
    const OneNode one(*named.op, named.sample);
    Launch launch(cpu, one, draw_inputs(named.sample));
    EXPECT_LE(largest_request(launch), kAllowed) << describe(one);
  }
  // A product large enough for every library to cut it into blocks.
  const Sample sample{
      .inputs = {{{520, 700}, DType::f32}, {{700, 900}, DType::f32}, {{900}, DType::f32}},
      .attrs = {{"transposed", 0}, {"bias", 1}}};
  const OneNode one(find_op("linear"), sample);
  Launch launch(cpu, one, draw_inputs(sample));
  EXPECT_LE(largest_request(launch), kAllowed) << describe(one);
}

class Allocations : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef OLM2_SANITIZED
    GTEST_SKIP() << "a sanitizer owns malloc in this build";
#endif
    void* volatile seen = nullptr;  // Else compilers see through the pairs and drop them.
    ASSERT_GE(largest_request([&] { seen = std::malloc(5000); }), 5000U) << "malloc is not seen";
    std::free(seen);
    ASSERT_GE(largest_request([&] { seen = ::operator new(6000); }), 6000U) << "new is not seen";
    ::operator delete(seen);
  }
};

TEST_F(Allocations, StayBelowAPageWithOnednn) {
  expect_no_large_request({.threads = 2});
}

TEST_F(Allocations, StayBelowAPageWithoutOnednn) {
  expect_no_large_request({.threads = 2, .use_onednn = false});
}

// oneDNN looks at the variable once, so an older CPU needs a process of its own.
TEST_F(Allocations, StayBelowAPageOnAnOlderCpu) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    const std::string self = "/proc/self/exe";
    execl(self.c_str(), self.c_str(), "--gtest_filter=Allocations.StayBelowAPageWithOnednn",
          "--gtest_brief=1", nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace olm2::testing
