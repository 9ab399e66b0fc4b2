#include "core/tier.h"

#include <string>

#include "core/error.h"

namespace olm2 {
namespace {

constexpr std::array<std::string_view, kTierCount> kTierNames = {"device", "host", "disk"};
constexpr std::array<std::string_view, kLaneCount> kLaneNames = {
    "compute", "device-to-host", "host-to-device", "host-to-disk", "disk-to-host"};

}  // namespace

std::string_view to_string(Tier tier) {
  return kTierNames.at(index_of(tier));
}

Tier parse_tier(std::string_view name) {
  for (const Tier tier : kTiers) {
    if (to_string(tier) == name) return tier;
  }
  throw Error("tier: got '" + std::string(name) + "', expected device, host or disk");
}

std::string_view to_string(Lane lane) {
  return kLaneNames.at(index_of(lane));
}

Lane parse_lane(std::string_view name) {
  for (size_t i = 0; i < kLaneCount; ++i) {
    if (kLaneNames[i] == name) return static_cast<Lane>(i);
  }
  throw Error("lane: got '" + std::string(name) + "'");
}

Lane lane_of_copy(Tier from, Tier to) {
  if (from == Tier::device && to == Tier::host) return Lane::device_to_host;
  if (from == Tier::host && to == Tier::device) return Lane::host_to_device;
  if (from == Tier::host && to == Tier::disk) return Lane::host_to_disk;
  if (from == Tier::disk && to == Tier::host) return Lane::disk_to_host;
  throw Error("no link copies from " + std::string(to_string(from)) + " to " +
              std::string(to_string(to)));
}

}  // namespace olm2
