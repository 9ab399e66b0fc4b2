// Progress of a run, on stderr: one bar that moves on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace olm2 {

struct ProgressOptions {
  int64_t steps = 0;       // Of the whole run.
  int64_t first_step = 0;  // Made before: a resumed run begins here.
  int64_t log_every = 1;   // Plain lines only for these steps; a bar moves at every step.
  // Columns of the terminal; 0: not a terminal.
  int columns = 0;
};

// A message to the user: one line on stderr.
void say(const std::string& text);

// Columns of the terminal that `stream` is, or 0.
int terminal_columns(std::FILE* stream);

class Progress {
 public:
  explicit Progress(ProgressOptions options, std::FILE* stream = stderr);
  ~Progress();  // Ends the bar's line.
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `step` steps are made now.
  void show(int64_t step, double loss, double tokens_per_s);
  // A message above the bar.
  void note(std::string_view message);

 private:
  void clear_bar();
  double seconds_left(int64_t step) const;

  ProgressOptions options_;
  std::FILE* stream_ = nullptr;
  std::chrono::steady_clock::time_point start_;
  std::string bar_;  // What is shown now.
};

// "step 120/1000  loss 5.4321  12.3k tokens/s  1:02 left"
std::string progress_text(int64_t step, int64_t steps, double loss, double tokens_per_s,
                          double seconds_left);
// "[=====>    ] text" in at most `columns` columns; the text alone where there is no room.
std::string progress_bar(int64_t step, int64_t steps, const std::string& text, int columns);

}  // namespace olm2
