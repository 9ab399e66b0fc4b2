#include "train/progress.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <sys/ioctl.h>
#include <unistd.h>

namespace olm2 {
namespace {

constexpr int kWidestBar = 40;
constexpr int kNarrowestBar = 10;
constexpr int kPlainTerminal = 80;  // A terminal that does not tell its width.

template <typename... Args>
std::string formatted(const char* format, Args... args) {
  std::array<char, 128> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, args...);
  return buffer.data();
}

// "0:07", "12:34", "2:00:05".
std::string clock_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 3600) return formatted("%lld:%02lld", whole / 60, whole % 60);
  return formatted("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string rate_text(double per_s) {
  if (per_s >= 1e6) return formatted("%.2fM", per_s / 1e6);
  if (per_s >= 1e4) return formatted("%.1fk", per_s / 1e3);
  return formatted("%.0f", per_s);
}

}  // namespace

void say(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
}

int terminal_columns(std::FILE* stream) {
  const int descriptor = fileno(stream);
  if (isatty(descriptor) == 0) return 0;
  struct winsize size {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kPlainTerminal;
  return size.ws_col;
}

std::string progress_text(int64_t step, int64_t steps, double loss, double tokens_per_s,
                          double seconds_left) {
  return "step " + std::to_string(step) + "/" + std::to_string(steps) +
         formatted("  loss %.4f  ", loss) + rate_text(tokens_per_s) + " tokens/s  " +
         clock_text(seconds_left) + " left";
}

std::string progress_bar(int64_t step, int64_t steps, const std::string& text, int columns) {
  // One column stays free: a full line would wrap.
  const int room = columns - 1 - static_cast<int>(text.size()) - 3;
  if (room < kNarrowestBar) {
    return text.substr(0, static_cast<size_t>(std::max(columns - 1, 0)));
  }
  const int width = std::min(room, kWidestBar);
  const double share = steps > 0 ? static_cast<double>(step) / static_cast<double>(steps) : 1.0;
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  std::string bar(static_cast<size_t>(full), '=');
  if (full < width) bar += '>';
  bar.resize(static_cast<size_t>(width), ' ');
  return "[" + bar + "] " + text;
}

Progress::Progress(ProgressOptions options, std::FILE* stream)
    : options_(options), stream_(stream), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (!bar_.empty()) std::fputc('\n', stream_);
}

double Progress::seconds_left(int64_t step) const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  const int64_t made = step - options_.first_step;
  if (made <= 0) return 0;
  return passed.count() / static_cast<double>(made) * static_cast<double>(options_.steps - step);
}

void Progress::show(int64_t step, double loss, double tokens_per_s) {
  const std::string text =
      progress_text(step, options_.steps, loss, tokens_per_s, seconds_left(step));
  if (options_.columns > 0) {
    clear_bar();
    bar_ = progress_bar(step, options_.steps, text, options_.columns);
    std::fputs(bar_.c_str(), stream_);
  } else if (step % options_.log_every == 0 || step == options_.steps) {
    std::fprintf(stream_, "%s\n", text.c_str());
  }
  std::fflush(stream_);
}

void Progress::note(std::string_view message) {
  const std::string bar = bar_;
  clear_bar();
  std::fprintf(stream_, "%.*s\n", static_cast<int>(message.size()), message.data());
  bar_ = bar;
  std::fputs(bar_.c_str(), stream_);
  std::fflush(stream_);
}

void Progress::clear_bar() {
  if (bar_.empty()) return;
  std::fprintf(stream_, "\r%*s\r", static_cast<int>(bar_.size()), "");
  bar_.clear();
}

}  // namespace olm2
