// A program of ours at the other end of a socket: started, spoken to without ever waiting longer
// than asked, and ended without a trace.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace olm2 {

// How long to wait for the other end.
struct Patience {
  std::chrono::steady_clock::time_point deadline;
  // Asked at least every 20 ms; may be empty.  Its exceptions pass through.
  std::function<bool()> should_stop;
};

// done     all bytes went, or some came.
// gone     the other end is closed.
// time_up, stopped  by Patience; what went so far went.
enum class Exchange : uint8_t { done, gone, time_up, stopped };

class ChildProcess {
 public:
  // Runs `program argument PID`, PID being this process.  The child's standard input is a socket
  // to us, for both directions; its standard output goes nowhere; it has a process group of its
  // own, so that a terminal's Ctrl-C is not for it.  Null, and errno, if that is impossible.
  static std::unique_ptr<ChildProcess> start(const std::string& program,
                                             const std::string& argument);
  ~ChildProcess();  // As end().
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Exchange send(std::string_view bytes, const Patience& patience);
  // Appends what has come, at least one byte.
  Exchange receive(std::string& bytes, const Patience& patience);

  pid_t process() const { return process_; }
  bool has_ended() const;
  // Whether it is this process that started the child, and not one that was forked since.
  bool is_ours() const;
  // Kills the child unless it has ended; says how: "was killed by signal 9 (Killed)".
  std::string end();

 private:
  ChildProcess(pid_t process, int socket);
  Exchange wait_for(int16_t event, const Patience& patience) const;

  pid_t process_ = -1;
  int socket_ = -1;
  pid_t parent_ = -1;
  std::string ending_;
};

}  // namespace olm2
