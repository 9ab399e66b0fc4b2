// The text form of a Profile.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/measure.h"

namespace olm2 {
namespace {

using Json = nlohmann::ordered_json;

Json link_json(const LinkProfile& link) {
  return {{"bytes_per_s", link.bytes_per_s},
          {"latency_s", link.latency_s},
          {"compute_slowdown", link.compute_slowdown}};
}

LinkProfile parse_link(const Json& json) {
  LinkProfile link{.bytes_per_s = json.at("bytes_per_s").get<double>(),
                   .latency_s = json.at("latency_s").get<double>(),
                   .compute_slowdown = json.at("compute_slowdown").get<double>()};
  if (!(link.bytes_per_s >= 0) || !(link.latency_s >= 0) || !(link.compute_slowdown >= 1)) {
    throw Error("a link needs bytes_per_s >= 0, latency_s >= 0 and compute_slowdown >= 1");
  }
  return link;
}

Json roofline_json(const Roofline& roofline) {
  return {{"flops_per_s", roofline.flops_per_s},
          {"bytes_per_s", roofline.bytes_per_s},
          {"launch_s", roofline.launch_s}};
}

Roofline parse_roofline(const Json& json) {
  const Roofline roofline{.flops_per_s = json.at("flops_per_s").get<double>(),
                          .bytes_per_s = json.at("bytes_per_s").get<double>(),
                          .launch_s = json.at("launch_s").get<double>()};
  if (!(roofline.flops_per_s > 0) || !(roofline.bytes_per_s > 0) || !(roofline.launch_s >= 0)) {
    throw Error("the roofline needs flops_per_s > 0, bytes_per_s > 0 and launch_s >= 0");
  }
  return roofline;
}

}  // namespace

std::string to_json(const Profile& profile) {
  Json kernels = Json::object();
  for (const auto& [key, kernel] : profile.kernels) {
    kernels[key] = {{"seconds", kernel.seconds},
                    {"cold_seconds", kernel.cold_seconds},
                    {"workspace_bytes", kernel.workspace_bytes}};
  }
  Json json = {{"version", 1},
               {"device", profile.device},
               {"source", profile.source},
               {"device_to_host", link_json(profile.device_to_host)},
               {"host_to_device", link_json(profile.host_to_device)},
               {"kernels", kernels}};
  if (profile.roofline) json["roofline"] = roofline_json(*profile.roofline);
  return json.dump(1) + "\n";
}

Profile parse_profile(const std::string& text, const std::string& origin) {
  try {
    const Json json = Json::parse(text);
    if (json.at("version") != 1) throw Error("version is not 1");
    Profile profile;
    profile.device = json.at("device").get<std::string>();
    profile.source = json.at("source").get<std::string>();
    profile.device_to_host = parse_link(json.at("device_to_host"));
    profile.host_to_device = parse_link(json.at("host_to_device"));
    for (const auto& [key, kernel] : json.at("kernels").items()) {
      const double seconds = kernel.at("seconds").get<double>();
      const KernelProfile entry{.seconds = seconds,
                                .workspace_bytes = kernel.at("workspace_bytes").get<int64_t>(),
                                .cold_seconds = kernel.value("cold_seconds", seconds)};
      if (!(entry.seconds >= 0) || entry.workspace_bytes < 0) {
        throw Error("kernel '" + key + "' has a negative time or workspace");
      }
      if (!(entry.cold_seconds >= entry.seconds)) {
        throw Error("kernel '" + key + "' is faster with its operands in no cache");
      }
      profile.kernels[key] = entry;
    }
    if (json.contains("roofline")) profile.roofline = parse_roofline(json.at("roofline"));
    return profile;
  } catch (const std::exception& error) {
    throw Error(origin + ": no usable profile: " + error.what() +
                "; delete it to have it measured anew");
  }
}

}  // namespace olm2
