// Calls into GLPK that come back in any case.  GLPK is C: it ends the program where it finds a
// mistake, and asks nobody while it solves one large linear program.  Its error hook and its
// terminal hook (called every few milliseconds) jump back into `run_guarded` instead, over the
// frames in between: no function that calls GLPK may own anything that needs a destructor.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <string>

namespace olm2 {

struct GlpkGuard {
  // Asked now and then; true ends the call.  Must not throw.
  bool (*is_over)(void* data) = nullptr;
  void* data = nullptr;
  int64_t memory_limit_bytes = 0;  // Of GLPK's own allocations.

  std::jmp_buf jump{};
  std::string said;         // What GLPK printed last,
  std::string said_before;  // and before that: an error is two pieces of text.
};

enum class GlpkEnd : uint8_t { returned, failed, stopped };

// Runs body(guard.data).  failed: GLPK reported an error, and `said` is its text.  Unless it
// returned, all of GLPK's objects of this thread are gone.
GlpkEnd run_guarded(GlpkGuard& guard, void (*body)(void*));

// Whether GLPK failed because it was given no more memory.
bool lacked_memory(const GlpkGuard& guard);

// How often the terminal hook is called while one linear program is solved.
inline constexpr int kGlpkHookPeriodMs = 20;

}  // namespace olm2
