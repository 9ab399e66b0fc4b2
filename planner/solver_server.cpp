#include "planner/solver_server.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/error.h"
#include "planner/glpk_solver.h"
#include "planner/solver_wire.h"

// Sanitizers reserve terabytes of addresses: no limit on them can be met.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OLM2_LIMITS_ADDRESSES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OLM2_LIMITS_ADDRESSES 0
#endif
#endif
#ifndef OLM2_LIMITS_ADDRESSES
#define OLM2_LIMITS_ADDRESSES 1
#endif

namespace olm2 {
namespace {

constexpr int kParent = STDIN_FILENO;

// Nobody is left to tell.
[[noreturn]] void leave() {
  _exit(0);
}

void send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(kParent, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) leave();
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

class Ear {
 public:
  // Waits for the next message and keeps its bytes until it is called again.
  Message next() {
    bytes_.erase(0, used_);
    used_ = 0;
    while (true) {
      if (const std::optional<Message> message = first_message(bytes_, used_)) return *message;
      hear();
    }
  }

 private:
  void hear() {
    constexpr size_t kPiece = size_t{1} << 18U;
    const size_t before = bytes_.size();
    bytes_.resize(before + kPiece);
    ssize_t came = -1;
    do {
      came = read(kParent, bytes_.data() + before, kPiece);
    } while (came < 0 && errno == EINTR);
    if (came <= 0) leave();
    bytes_.resize(before + static_cast<size_t>(came));
  }

  std::string bytes_;
  size_t used_ = 0;
};

// Addresses in use now, in bytes.
int64_t address_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long long pages = 0;
  const int read = std::fscanf(file, "%lld", &pages);
  std::fclose(file);
  return read == 1 ? pages * sysconf(_SC_PAGE_SIZE) : 0;
}

// What this process may take from now on.  Only the soft limit moves: the next request may ask for
// more.
void limit_memory(int64_t bytes) {
  const int64_t used = address_bytes();
  rlimit limit{};
  if (OLM2_LIMITS_ADDRESSES == 0 || used == 0 || getrlimit(RLIMIT_AS, &limit) != 0) return;
  const auto wanted = static_cast<rlim_t>(used + bytes);
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_AS, &limit);
}

void lift_memory_limit() {
  rlimit limit{};
  if (OLM2_LIMITS_ADDRESSES == 0 || getrlimit(RLIMIT_AS, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_AS, &limit);
}

// The request's functions, as messages.
void connect(SolveMessage& asked, Ear& ear) {
  SolverRequest& request = asked.request;
  if (asked.has_broken_rows) {
    request.broken_rows = [&ear](std::span<const double> x) {
      send_all(numbers_message(MessageKind::ask_rows, x));
      const Message answer = ear.next();
      if (answer.kind != MessageKind::rows) leave();
      return read_rows(answer.content);
    };
  }
  if (asked.has_progress) {
    request.progress = [](double gap) {
      send_all(numbers_message(MessageKind::progress, {&gap, 1}));
    };
  }
  request.on_bound = [](double bound) {
    send_all(numbers_message(MessageKind::bound, {&bound, 1}));
  };
  request.on_incumbent = [](double objective, std::span<const double> x, double bound) {
    send_all(incumbent_message(objective, bound, x));
  };
}

// The answer to one request.
std::string answer(std::string_view content, Ear& ear) {
  try {
    SolveMessage asked = read_solve(content);
    connect(asked, ear);
    SolverRequest& request = asked.request;
    if (request.memory_limit_bytes <= 0) request.memory_limit_bytes = default_memory_limit();
    limit_memory(request.memory_limit_bytes);
    return done_message(solve_with_glpk(asked.model, request));
  } catch (const Error& error) {
    return as_message(MessageKind::refused, error.what());
  } catch (const std::bad_alloc&) {
    lift_memory_limit();
    return as_message(MessageKind::lacked_memory, "the solver ran out of memory");
  } catch (const WireError&) {
    leave();
  }
}

// Dies with the parent, holds nothing of it, leaves no core behind, and is the first to go where
// memory is short.
void settle(const char* parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pid_t expected = 0;
  std::from_chars(parent, parent + std::strlen(parent), expected);
  if (getppid() != expected) leave();  // It was faster.
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
#ifdef SYS_close_range
  syscall(SYS_close_range, STDERR_FILENO + 1U, ~0U, 0U);
#endif
  if (std::FILE* file = std::fopen("/proc/self/oom_score_adj", "w")) {
    std::fputs("1000", file);
    std::fclose(file);
  }
}

}  // namespace

void serve_parent(const char* parent) {
  settle(parent);
  Ear ear;
  while (true) {
    const Message message = ear.next();
    if (message.kind != MessageKind::solve) leave();
    send_all(answer(message.content, ear));
    lift_memory_limit();
  }
}

}  // namespace olm2
