#include "planner/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"

namespace olm2 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookPeriodMs = 20;

// The two kinds of lists that posix_spawn wants.
struct SpawnSettings {
  SpawnSettings() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
};

// 0, or why it is impossible.
int describe_child(SpawnSettings& settings, int socket) {
  sigset_t none;
  sigset_t interrupt;
  sigemptyset(&none);
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  for (const int failure :
       {posix_spawn_file_actions_adddup2(&settings.files, socket, STDIN_FILENO),
        posix_spawn_file_actions_addopen(&settings.files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0),
        posix_spawnattr_setflags(&settings.attributes, POSIX_SPAWN_SETPGROUP |
                                                           POSIX_SPAWN_SETSIGMASK |
                                                           POSIX_SPAWN_SETSIGDEF),
        posix_spawnattr_setpgroup(&settings.attributes, 0),
        posix_spawnattr_setsigmask(&settings.attributes, &none),
        posix_spawnattr_setsigdefault(&settings.attributes, &interrupt)}) {
    if (failure != 0) return failure;
  }
  return 0;
}

std::string describe_ending(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

std::unique_ptr<ChildProcess> ChildProcess::start(const std::string& program,
                                                  const std::string& argument) {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) return nullptr;
  std::string name = program;
  std::string first = argument;
  std::string second = std::to_string(getpid());
  std::array<char*, 4> arguments = {name.data(), first.data(), second.data(), nullptr};
  SpawnSettings settings;
  pid_t process = -1;
  int failure = describe_child(settings, sockets[1]);
  if (failure == 0) {
    failure = posix_spawn(&process, program.c_str(), &settings.files, &settings.attributes,
                          arguments.data(), environ);
  }
  close(sockets[1]);
  if (failure == 0) return std::unique_ptr<ChildProcess>(new ChildProcess(process, sockets[0]));
  close(sockets[0]);
  errno = failure;
  return nullptr;
}

ChildProcess::ChildProcess(pid_t process, int socket)
    : process_(process), socket_(socket), parent_(getpid()) {}

ChildProcess::~ChildProcess() {
  end();
}

bool ChildProcess::is_ours() const {
  return getpid() == parent_;
}

Exchange ChildProcess::wait_for(int16_t event, const Patience& patience) const {
  while (true) {
    if (patience.should_stop && patience.should_stop()) return Exchange::stopped;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(patience.deadline - Clock::now());
    if (left.count() <= 0) return Exchange::time_up;
    const int64_t most = patience.should_stop ? kLookPeriodMs : 1'000'000;
    pollfd descriptor = {.fd = socket_, .events = event, .revents = 0};
    const int ready = poll(&descriptor, 1, static_cast<int>(std::min(left.count(), most)));
    if (ready > 0) return Exchange::done;
    ensure(ready == 0 || errno == EINTR || errno == ENOMEM, "poll failed");
  }
}

Exchange ChildProcess::send(std::string_view bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const Exchange wait = wait_for(POLLOUT, patience);
    if (wait != Exchange::done) return wait;
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
      return Exchange::gone;
    }
  }
  return Exchange::done;
}

Exchange ChildProcess::receive(std::string& bytes, const Patience& patience) {
  constexpr size_t kPiece = size_t{1} << 18U;
  while (true) {
    const Exchange wait = wait_for(POLLIN, patience);
    if (wait != Exchange::done) return wait;
    const size_t before = bytes.size();
    bytes.resize(before + kPiece);
    const ssize_t came = recv(socket_, bytes.data() + before, kPiece, MSG_DONTWAIT);
    const int failure = errno;
    bytes.resize(before + static_cast<size_t>(std::max<ssize_t>(came, 0)));
    if (came > 0) return Exchange::done;
    if (came == 0 || (failure != EAGAIN && failure != EINTR)) return Exchange::gone;
  }
}

bool ChildProcess::has_ended() const {
  siginfo_t info{};
  const int failure =
      waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT);
  return failure != 0 || info.si_pid == process_;
}

std::string ChildProcess::end() {
  if (socket_ < 0) return ending_;
  close(socket_);
  socket_ = -1;
  if (!is_ours()) return ending_;
  kill(process_, SIGKILL);  // Changes nothing about one that has ended.
  int status = 0;
  pid_t ended = -1;
  do {
    ended = waitpid(process_, &status, 0);
  } while (ended < 0 && errno == EINTR);
  ending_ = ended == process_ ? describe_ending(status) : "ended";
  return ending_;
}

}  // namespace olm2
