#include "train/metrics.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/error.h"
#include "train/files.h"

namespace olm2 {
namespace {

namespace fs = std::filesystem;

// Shortest text that reads back to the same bits.
std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return std::string(buffer.data(), end);
}

// Where the lines of steps <= `step` end, in bytes.
int64_t end_of_step(const fs::path& file, int64_t step) {
  const std::string text = read_file(file);
  size_t begin = 0;
  for (int64_t line_number = 1; begin < text.size(); ++line_number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // Torn by a crash: no line.
    const auto line = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                            text.begin() + static_cast<std::ptrdiff_t>(end),
                                            nullptr, /*allow_exceptions=*/false);
    const bool valid =
        line.is_object() && line.contains("step") && line["step"].is_number_integer();
    if (!valid && end + 1 == text.size()) break;
    if (!valid) {
      throw Error(file.string() + ", line " + std::to_string(line_number) +
                  ": found no JSON object with a step; repair or remove the file");
    }
    if (line["step"].get<int64_t>() > step) break;
    begin = end + 1;
  }
  return static_cast<int64_t>(begin);
}

}  // namespace

std::string to_json_line(const StepMetrics& metrics) {
  std::string line = "{\"step\":" + std::to_string(metrics.step);
  const auto add = [&](std::string_view key, const std::string& value) {
    line += ",\"" + std::string(key) + "\":" + value;
  };
  add("tokens", std::to_string(metrics.tokens));
  add("loss", number(metrics.loss));
  if (metrics.val_loss) add("val_loss", number(*metrics.val_loss));
  add("lr", number(metrics.lr));
  add("grad_norm", number(metrics.grad_norm));
  add("step_ms", number(metrics.step_ms));
  add("tokens_per_s", number(metrics.tokens_per_s));
  add("stall_ms", number(metrics.stall_ms));
  for (const Tier tier : kTiers) {
    const std::string name(to_string(tier));
    add("peak_" + name + "_bytes", std::to_string(metrics.peak[index_of(tier)]));
    add("planned_" + name + "_bytes", std::to_string(metrics.planned[index_of(tier)]));
  }
  add("policy", "\"" + metrics.policy + "\"");
  add("resident_bytes", std::to_string(metrics.resident_bytes));
  return line + "}";
}

MetricsLog::MetricsLog(fs::path file) : file_(std::move(file)) {
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot be written");
}

MetricsLog MetricsLog::start(const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error) && fs::file_size(file, error) > 0) {
    throw Error(file.string() +
                ": holds the steps of a run; go on with --resume or choose another output.dir");
  }
  return MetricsLog(file);
}

MetricsLog MetricsLog::resume(const fs::path& file, int64_t step) {
  std::error_code error;
  const int64_t end = fs::exists(file, error) ? end_of_step(file, step) : 0;
  MetricsLog log(file);
  if (::ftruncate(log.descriptor_, end) != 0) log.fail("cannot be cut");
  return log;
}

MetricsLog::~MetricsLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

MetricsLog::MetricsLog(MetricsLog&& other) noexcept
    : file_(std::move(other.file_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

void MetricsLog::append(const StepMetrics& metrics) {
  const std::string line = to_json_line(metrics) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t count = ::write(descriptor_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("cannot be written");
    rest.remove_prefix(static_cast<size_t>(count));
  }
}

void MetricsLog::sync() {
  if (::fsync(descriptor_) != 0) fail("cannot be synced");
}

void MetricsLog::fail(const char* action) const {
  throw Error(file_.string() + ": " + action + ": " + std::generic_category().message(errno));
}

}  // namespace olm2
