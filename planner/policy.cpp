#include <array>
#include <string>

#include "core/error.h"
#include "planner/chen.h"
#include "planner/keep_all.h"
#include "planner/milp.h"
#include "planner/planner.h"

namespace olm2 {
namespace {

template <bool may_recompute, bool may_swap>
PolicyResult plan_milp(const Problem& problem, const PlanOptions& options) {
  return plan_by_milp(problem, options, may_recompute, may_swap);
}

// Keeping everything needs no solver; segments are within reach wherever recomputing is.
template <bool may_recompute, bool may_swap>
std::vector<Plan> smallest_milp(const Problem& problem, const PlanOptions& options) {
  std::vector<Plan> plans =
      may_recompute ? smallest_chen(problem, options) : smallest_none(problem, options);
  std::optional<PolicyResult> found = minimum_by_milp(problem, options, may_recompute, may_swap);
  if (found) plans.push_back(std::move(found->plan));
  return plans;
}

constexpr std::array<std::string_view, 1> kInRecompute = {"chen"};
constexpr std::array<std::string_view, 3> kInOlm2 = {"chen", "recompute", "swap"};

constexpr std::array<Policy, 5> kPolicies = {{
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
    {.name = "recompute",
     .summary = "recompute the tensors that cost least, by mixed-integer programming",
     .source = "Jain et al. 2020 (Checkmate), arXiv:1910.02653",
     .plan = plan_milp<true, false>,
     .smallest = smallest_milp<true, false>,
     .bound_copies = false,
     .contains = kInRecompute},
    {.name = "swap",
     .summary = "move tensors, or parts of them, to the host and back, by linear programming",
     .source = "Rhu et al. 2016 (vDNN), arXiv:1602.08124; Huang et al. 2020 (SwapAdvisor)",
     .plan = plan_milp<false, true>,
     .smallest = smallest_milp<false, true>,
     .swaps = true,
     .bound_recomputes = false},
    {.name = "olm2",
     .summary = "recompute some, move some, keep the rest: the fastest mix, with a bound",
     .source = "planner/README.md; Beaumont et al. 2021 (rotor, POFO) for the idea of the mix",
     .plan = plan_milp<true, true>,
     .smallest = smallest_milp<true, true>,
     .swaps = true,
     .contains = kInOlm2},
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
