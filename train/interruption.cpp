#include "train/interruption.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

#include <unistd.h>

#include "core/error.h"

namespace olm2 {
namespace {

// What a signal's handler may touch: it can run at any moment, between any two instructions.
std::atomic<bool> wished{false};
std::array<char, 256> answer_text{};
size_t answer_size = 0;

bool is_alive = false;
struct sigaction before {};

void on_interrupt(int) {
  wished = true;
  [[maybe_unused]] const ssize_t said = write(STDERR_FILENO, answer_text.data(), answer_size);
}

bool is_ignored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Interruption::Interruption(const std::string& answer) {
  ensure(!is_alive, "two interruptions at a time");
  is_alive = true;
  wished = false;
  const std::string text = "\n" + answer + "\n";
  answer_size = std::min(text.size(), answer_text.size());
  std::copy_n(text.begin(), answer_size, answer_text.begin());
  struct sigaction action {};
  action.sa_handler = &on_interrupt;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, nullptr, &before);
  if (!is_ignored(before)) sigaction(SIGINT, &action, nullptr);
}

Interruption::~Interruption() {
  sigaction(SIGINT, &before, nullptr);
  is_alive = false;
}

bool Interruption::is_wished() const {
  return wished;
}

}  // namespace olm2
