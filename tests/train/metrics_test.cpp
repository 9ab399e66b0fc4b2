#include "train/metrics.h"

#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/train/scratch_folder.h"
#include "train/files.h"
#include "train/progress.h"

namespace olm2 {
namespace {

using testing::HasSubstr;

StepMetrics metrics_of(int64_t step) {
  return {.step = step, .tokens = step * 256, .loss = 1.0 / static_cast<double>(step), .lr = 1e-5};
}

std::string lines(int64_t first, int64_t last) {
  std::string text;
  for (int64_t step = first; step <= last; ++step) text += to_json_line(metrics_of(step)) + "\n";
  return text;
}

void append(MetricsLog& log, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) log.append(metrics_of(step));
}

TEST(Metrics, ALineHoldsEveryKeyAndEveryBit) {
  StepMetrics metrics = metrics_of(3);
  metrics.loss = static_cast<double>(1.0F / 3.0F);
  metrics.grad_norm = std::numeric_limits<double>::quiet_NaN();
  metrics.peak = {10, 20, 0};
  metrics.planned = {11, 21, 0};
  metrics.policy = "olm2";
  const auto json = nlohmann::json::parse(to_json_line(metrics));
  for (const char* key :
       {"step", "tokens", "loss", "lr", "grad_norm", "step_ms", "tokens_per_s", "stall_ms",
        "peak_device_bytes", "planned_device_bytes", "peak_host_bytes", "planned_host_bytes",
        "peak_disk_bytes", "planned_disk_bytes", "policy", "resident_bytes"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["loss"].get<double>(), metrics.loss);
  EXPECT_EQ(json["lr"].get<double>(), 1e-5);
  EXPECT_TRUE(json["grad_norm"].is_null());
  EXPECT_EQ(json["peak_host_bytes"], 20);
  EXPECT_EQ(json["planned_device_bytes"], 11);
  EXPECT_EQ(json["policy"], "olm2");
  EXPECT_FALSE(json.contains("val_loss"));
  metrics.val_loss = 2.5;
  EXPECT_EQ(nlohmann::json::parse(to_json_line(metrics))["val_loss"], 2.5);
}

TEST(Metrics, AResumedRunLeavesTheLogOfAnUninterruptedOne) {
  const ScratchFolder folder;
  const auto file = folder / "metrics.jsonl";
  {
    MetricsLog log = MetricsLog::start(file);
    append(log, 1, 14);  // Four steps beyond the checkpoint of step 10.
  }
  {
    MetricsLog log = MetricsLog::resume(file, 10);
    append(log, 11, 20);
    log.sync();
  }
  EXPECT_EQ(read_file(file), lines(1, 20));
}

TEST(Metrics, ALineTornByACrashIsCutOff) {
  const ScratchFolder folder;
  const auto file = folder / "metrics.jsonl";
  for (const char* torn : {"{\"step\":11,\"lo", "\n", "{\"step\":11"}) {
    write_file(file, lines(1, 10) + torn);
    MetricsLog log = MetricsLog::resume(file, 10);
    append(log, 11, 11);
    EXPECT_EQ(read_file(file), lines(1, 11));
  }
}

TEST(Metrics, ABrokenLineInTheMiddleIsNotThrownAway) {
  const ScratchFolder folder;
  const auto file = folder / "metrics.jsonl";
  const std::string text = lines(1, 2) + "garbage\n" + lines(4, 5);
  write_file(file, text);
  try {
    MetricsLog::resume(file, 5);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("line 3"));
  }
  EXPECT_EQ(read_file(file), text);
}

TEST(Metrics, ANewRunDoesNotWriteOverAnotherOne) {
  const ScratchFolder folder;
  const auto file = folder / "metrics.jsonl";
  { MetricsLog::start(file).append(metrics_of(1)); }
  EXPECT_THROW(MetricsLog::start(file), Error);
  EXPECT_EQ(read_file(file), lines(1, 1));
}

TEST(Metrics, ResumingWithoutALogOrFromTheStartBeginsOne) {
  const ScratchFolder folder;
  const auto file = folder / "metrics.jsonl";
  { MetricsLog::resume(file, 3).append(metrics_of(4)); }
  EXPECT_EQ(read_file(file), lines(4, 4));
  { MetricsLog::resume(file, 0).append(metrics_of(1)); }
  EXPECT_EQ(read_file(file), lines(1, 1));
}

// --- progress ---------------------------------------------------------------------------------

TEST(Progress, TextTellsStepLossSpeedAndTimeLeft) {
  EXPECT_EQ(progress_text(12, 100, 5.43211, 12345, 62),
            "step 12/100  loss 5.4321  12.3k tokens/s  1:02 left");
  EXPECT_EQ(progress_text(1, 1, NAN, 900, 7205), "step 1/1  loss nan  900 tokens/s  2:00:05 left");
}

TEST(Progress, TheBarFitsTheTerminal) {
  EXPECT_EQ(progress_bar(5, 10, "half", 18), "[=====>    ] half");
  EXPECT_EQ(progress_bar(10, 10, "done", 18), "[==========] done");
  for (int columns = 1; columns < 120; ++columns) {
    EXPECT_LT(progress_bar(3, 10, "some text", columns).size(), static_cast<size_t>(columns));
  }
}

std::string shown(const ProgressOptions& options) {
  const ScratchFolder folder;
  std::FILE* const stream = std::fopen((folder / "out").c_str(), "w");
  EXPECT_EQ(terminal_columns(stream), 0);
  {
    Progress progress(options, stream);
    for (int64_t step = 1; step <= 3; ++step) progress.show(step, 1, 1);
    progress.note("saved");
  }
  std::fclose(stream);
  return read_file(folder / "out");
}

TEST(Progress, ElsewhereThanOnATerminalItIsPlainLines) {
  const std::string text = shown({.steps = 3, .log_every = 2});
  EXPECT_THAT(text, testing::MatchesRegex("step 2/3 [^\n\r]*\nstep 3/3 [^\n\r]*\nsaved\n"));
}

TEST(Progress, ATerminalGetsOneLineAndMessagesAboveIt) {
  const std::string text = shown({.steps = 3, .log_every = 2, .columns = 100});
  EXPECT_THAT(text, HasSubstr("step 1/3"));
  EXPECT_THAT(text, HasSubstr("\rsaved\n["));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

}  // namespace
}  // namespace olm2
