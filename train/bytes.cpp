#include "train/bytes.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>

#include <unistd.h>

#include "core/error.h"

namespace olm2 {
namespace {

struct Unit {
  std::string_view name;
  double bytes = 0;
};
constexpr double kKi = 1024.0;
constexpr std::array<Unit, 7> kUnits = {{{"KiB", kKi},
                                         {"MiB", kKi* kKi},
                                         {"GiB", kKi* kKi* kKi},
                                         {"KB", 1e3},
                                         {"MB", 1e6},
                                         {"GB", 1e9},
                                         {"B", 1}}};

[[noreturn]] void refuse(std::string_view text, const std::string& reason) {
  throw Error("byte size '" + std::string(text) + "': " + reason +
              "; expected a number and a unit (KiB, MiB, GiB, KB, MB, GB or %), e.g. \"512 MiB\"");
}

}  // namespace

ByteSize parse_byte_size(std::string_view text) {
  const auto unpadded = [](std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
  };
  const std::string_view trimmed = unpadded(text);
  double number = 0;
  const auto [rest, status] =
      std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (status != std::errc() || !std::isfinite(number)) refuse(text, "no number in front");
  if (std::signbit(number)) refuse(text, "the number is negative");
  const auto digits = static_cast<size_t>(rest - trimmed.data());
  const std::string_view unit = unpadded(trimmed.substr(digits));
  if (unit.empty()) refuse(text, "the unit is missing");
  if (unit == "%") return {.bytes = 0, .percent = number};
  for (const Unit& known : kUnits) {
    if (unit != known.name) continue;
    // A whole number of bytes may have more digits than a double.
    int64_t whole = 0;
    const auto exact = std::from_chars(trimmed.data(), trimmed.data() + digits, whole);
    if (exact.ec == std::errc() && exact.ptr == trimmed.data() + digits &&
        static_cast<double>(whole) * known.bytes < 0x1p62) {
      return {.bytes = whole * static_cast<int64_t>(known.bytes), .percent = -1};
    }
    if (number * known.bytes >= 0x1p62) refuse(text, "more than 2^62 bytes");
    return {.bytes = static_cast<int64_t>(number * known.bytes), .percent = -1};
  }
  refuse(text, "unknown unit '" + std::string(unit) + "'");
}

std::string to_string(const ByteSize& size) {
  if (!size.is_percent()) return std::to_string(size.bytes) + " B";
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), size.percent).ptr;
  return std::string(buffer.data(), end) + "%";
}

std::string describe_bytes(int64_t bytes) {
  std::string exact = std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  size_t unit = kUnits.size();
  for (size_t i = 0; i < 3; ++i) {  // The binary units, in growing order.
    if (static_cast<double>(bytes) >= kUnits[i].bytes) unit = i;
  }
  if (unit == kUnits.size()) return exact;
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), " (%.1f %s)",
                static_cast<double>(bytes) / kUnits[unit].bytes, kUnits[unit].name.data());
  return exact + buffer.data();
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) {
    throw Error("/proc/self/statm: cannot be read; is /proc mounted?");
  }
  return resident_pages * sysconf(_SC_PAGESIZE);
}

int64_t machine_bytes() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
}

}  // namespace olm2
