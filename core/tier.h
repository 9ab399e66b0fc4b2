// Where bytes can live, and the lanes on which work and copies proceed side by side.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace olm2 {

enum class Tier : uint8_t { device, host, disk };
inline constexpr size_t kTierCount = 3;
inline constexpr std::array<Tier, kTierCount> kTiers = {Tier::device, Tier::host, Tier::disk};
using BytesPerTier = std::array<int64_t, kTierCount>;
constexpr size_t index_of(Tier tier) {
  return static_cast<size_t>(tier);
}
std::string_view to_string(Tier tier);
Tier parse_tier(std::string_view name);  // Throws Error.

// Instructions of one lane run one after another, in the order they are listed; different lanes
// run side by side.
enum class Lane : uint8_t { compute, device_to_host, host_to_device, host_to_disk, disk_to_host };
inline constexpr size_t kLaneCount = 5;
constexpr size_t index_of(Lane lane) {
  return static_cast<size_t>(lane);
}
std::string_view to_string(Lane lane);
Lane parse_lane(std::string_view name);  // Throws Error.
// The lane of a copy.  Throws Error for a pair of tiers that no link joins.
Lane lane_of_copy(Tier from, Tier to);

}  // namespace olm2
