// solve() in a process of its own: a copy of the running program, started with a hidden first
// argument, that does nothing but run GLPK.  Whatever happens there (a linear program that takes
// minutes, a lack of memory, a crash), this process goes on: it keeps the best solution and bound
// it was told of, and ends the other one.
//
// 1. "optimal", "infeasible" and "not_better" are only ever what the solver process said at its
// end.
// 2. The solver process ends with the thread that started it, or with its session.
// 3. Where no process can be started, GLPK runs in this one; that is said once, on stderr.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <sys/types.h>

namespace olm2 {

// To be called first in `main` of a program that plans.  In a solver process it serves its parent
// and never returns; in any other process it returns at once, and solve() may start processes from
// then on.  A program that does not call it solves in its own process.
void serve_solver(int argc, char** argv);

// What holds for every solve of a session, beside what each request says.
struct SolverLimits {
  std::function<bool()> should_stop = {};
  int64_t memory_limit_bytes = 0;  // For requests that leave it open; 0: half of the machine's.
};

// While a session lives, all solves of its thread share one solver process: starting one takes some
// milliseconds.  Without a session each solve has its own.  Sessions nest: the limits of the inner
// one come first, and any of them may stop a solve.
class SolverSession {
 public:
  explicit SolverSession(SolverLimits limits = {});
  ~SolverSession();
  SolverSession(const SolverSession&) = delete;
  SolverSession& operator=(const SolverSession&) = delete;

  const SolverLimits& limits() const { return limits_; }
  // Why the last solve that ended early did; "" if none did.
  const std::string& reason() const { return reason_; }
  void note(const std::string& reason) { reason_ = reason; }

  // The solver process of the calling thread; 0: none now.
  static pid_t process();

 private:
  SolverLimits limits_;
  std::string reason_;
};

// The program that is started; "" is the running one.  For tests of what a bad one does.
void set_solver_program(const std::string& path);

}  // namespace olm2
