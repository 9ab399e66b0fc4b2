// Byte counts: as people write them, and as the system counts them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace olm2 {

// A budget: bytes, or a percentage of something the reader of the budget defines.
struct ByteSize {
  int64_t bytes = 0;
  double percent = -1;  // Negative: `bytes` counts.
  bool is_percent() const { return percent >= 0; }
  bool operator==(const ByteSize&) const = default;
};

// "512 MiB", "1.5GB", "40%", "4096 B": KiB, MiB, GiB are powers of 1024; KB, MB, GB of 1000.  Part
// bytes are cut off.  Throws Error for a missing or unknown unit, a negative number, or 2^62 bytes
// and more.
ByteSize parse_byte_size(std::string_view text);
// Text that parse_byte_size gives back exactly: "40%" or "536870912 B".
std::string to_string(const ByteSize& size);

// For people: "536870912 bytes (512.0 MiB)".
std::string describe_bytes(int64_t bytes);

// Memory this process occupies now.  Source: /proc/self/statm.
int64_t resident_bytes();
// Memory of this machine.  Source: sysconf.
int64_t machine_bytes();

}  // namespace olm2
