#include <array>
#include <string>

#include "core/error.h"
#include "planner/chen.h"
#include "planner/keep_all.h"
#include "planner/planner.h"

namespace olm2 {
namespace {

constexpr std::array<Policy, 2> kPolicies = {{
    {.name = "none",
     .summary = "keep everything on the device until its last use",
     .source = "the baseline of every comparison",
     .plan = plan_none,
     .smallest = smallest_none},
    {.name = "chen",
     .summary = "recompute segments of layers, sqrt(n) and other sizes",
     .source = "Chen et al. 2016, arXiv:1604.06174",
     .plan = plan_chen,
     .smallest = smallest_chen},
}};

}  // namespace

std::span<const Policy> all_policies() {
  return kPolicies;
}

const Policy& find_policy(std::string_view name) {
  std::string names;
  for (const Policy& policy : kPolicies) {
    if (policy.name == name) return policy;
    names += (names.empty() ? "" : ", ") + std::string(policy.name);
  }
  throw Error("memory.policy: got '" + std::string(name) + "', expected one of " + names);
}

std::string_view to_string(Status status) {
  constexpr std::array<std::string_view, 4> kNames = {"optimal", "feasible", "infeasible",
                                                      "unknown"};
  return kNames.at(static_cast<size_t>(status));
}

}  // namespace olm2
