#include "planner/glpk_guard.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include <glpk.h>

namespace olm2 {
namespace {

constexpr int kFailed = 1;
constexpr int kStopped = 2;

int on_words(void* info, const char* text) {
  auto& guard = *static_cast<GlpkGuard*>(info);
  guard.said_before.swap(guard.said);
  guard.said = text;
  if (guard.is_over != nullptr && guard.is_over(guard.data)) std::longjmp(guard.jump, kStopped);
  return 1;  // Nothing reaches the terminal.
}

void on_error(void* info) {
  std::longjmp(static_cast<GlpkGuard*>(info)->jump, kFailed);
}

int megabytes(int64_t bytes) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (bytes <= 0) return static_cast<int>(kMost);
  return static_cast<int>(std::clamp<int64_t>(bytes >> 20, 1, kMost));
}

}  // namespace

GlpkEnd run_guarded(GlpkGuard& guard, void (*body)(void*)) {
  const int jumped = setjmp(guard.jump);
  if (jumped != 0) {
    glp_free_env();
    return jumped == kStopped ? GlpkEnd::stopped : GlpkEnd::failed;
  }
  glp_term_hook(&on_words, &guard);
  glp_error_hook(&on_error, &guard);
  glp_mem_limit(megabytes(guard.memory_limit_bytes));
  body(guard.data);
  glp_mem_limit(megabytes(0));
  glp_error_hook(nullptr, nullptr);
  glp_term_hook(nullptr, nullptr);
  return GlpkEnd::returned;
}

bool lacked_memory(const GlpkGuard& guard) {
  const std::string text = guard.said_before + guard.said;
  return text.find("memory allocation limit exceeded") != std::string::npos ||
         text.find("no memory available") != std::string::npos;
}

}  // namespace olm2
