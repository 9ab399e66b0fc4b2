#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"
#include "planner/capuchin.h"
#include "planner/chen.h"
#include "planner/keep_all.h"
#include "planner/milp.h"
#include "planner/online.h"
#include "planner/planner.h"

namespace olm2 {
namespace {

template <bool may_recompute, bool may_swap>
PolicyResult widen_milp(const Problem& problem, const PlanOptions& options) {
  return widen_by_milp(problem, options, may_recompute, may_swap);
}

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

template <const OnlineRule& kRule>
PolicyResult plan_rule(const Problem& problem, const PlanOptions& /*options*/) {
  return plan_online(problem, access_sequence(problem), kRule);
}
template <const OnlineRule& kRule>
std::vector<Plan> smallest_rule(const Problem& problem, const PlanOptions& /*options*/) {
  return smallest_online(problem, kRule);
}

constexpr OnlineRule kLru{.copies = true, .worth = least_recently_used};

double farthest_next_read(const Evictable& value) {
  return -static_cast<double>(value.next_read);
}
constexpr OnlineRule kBelady{.copies = true, .worth = farthest_next_read};

// Seconds to make it again per byte and second of idleness.
double dtr_heuristic(const Evictable& value) {
  constexpr double kJustUsed = 1e-12;
  return value.remake_s / (static_cast<double>(value.bytes) * std::max(value.idle_s, kJustUsed));
}
constexpr OnlineRule kDtr{.copies = false, .wants_remake_s = true, .worth = dtr_heuristic};

constexpr std::array<std::string_view, 1> kInRecompute = {"chen"};
constexpr std::array<std::string_view, 3> kInOlm2 = {"chen", "recompute", "swap"};
constexpr std::array<std::string_view, 4> kInWarmup = {"chen", "lru", "recompute", "swap"};

// Wherever the first plan fits, the second one does.
std::vector<Plan> smallest_warmup(const Problem& problem, const PlanOptions& options) {
  std::vector<Plan> plans = smallest_milp<true, true>(problem, options);
  for (Plan& plan : smallest_rule<kLru>(problem, options)) plans.push_back(std::move(plan));
  return plans;
}

constexpr std::array<Policy, 11> kPolicies = {{
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
    {.name = "chen-sqrt",
     .summary = "recompute sqrt(n) segments of n layers",
     .source = "Chen et al. 2016, arXiv:1604.06174",
     .plan = plan_chen_sqrt,
     .smallest = smallest_chen_sqrt},
    {.name = "lru",
     .summary = "evict what was used least recently, fetch on demand",
     .source = "the textbook rule; Fu et al. 2023 begin with it",
     .plan = plan_rule<kLru>,
     .smallest = smallest_rule<kLru>,
     .copies = true},
    {.name = "belady",
     .summary = "evict what is read again last, fetch on demand",
     .source = "Belady 1966, IBM Systems Journal 5(2): no cache of equal pages misses less",
     .plan = plan_rule<kBelady>,
     .smallest = smallest_rule<kBelady>,
     .copies = true},
    {.name = "dtr",
     .summary = "forget what is cheap, large and idle, make it again on demand",
     .source = "Kirisame et al. 2021 (DTR), arXiv:2006.09616",
     .plan = plan_rule<kDtr>,
     .smallest = smallest_rule<kDtr>},
    {.name = "capuchin",
     .summary = "swap what hides behind computing, then what costs least per byte",
     .source = "Peng et al. 2020 (Capuchin), doi:10.1145/3373376.3378505",
     .plan = plan_capuchin,
     .smallest = smallest_capuchin,
     .copies = true},
    {.name = "recompute",
     .summary = "recompute the tensors that cost least, by mixed-integer programming",
     .source = "Jain et al. 2020 (Checkmate), arXiv:1910.02653",
     .plan = plan_milp<true, false>,
     .widen = widen_milp<true, false>,
     .smallest = smallest_milp<true, false>,
     .bound_copies = false,
     .contains = kInRecompute},
    {.name = "swap",
     .summary = "move tensors, or parts of them, to the host and back, by linear programming",
     .source = "Rhu et al. 2016 (vDNN), arXiv:1602.08124; Huang et al. 2020 (SwapAdvisor)",
     .plan = plan_milp<false, true>,
     .smallest = smallest_milp<false, true>,
     .copies = true,
     .swaps = true,
     .bound_recomputes = false},
    {.name = "olm2",
     .summary = "recompute some, move some, keep the rest: the fastest mix, with a bound",
     .source = "planner/README.md; Beaumont et al. 2021 (rotor, POFO) for the idea of the mix",
     .plan = plan_milp<true, true>,
     .smallest = smallest_milp<true, true>,
     .copies = true,
     .swaps = true,
     .contains = kInOlm2},
    {.name = "warmup",
     .summary = "begin with lru, measure the first steps, go on with olm2",
     .source = "Fu et al., ADC 2023: management learned in warm-up steps",
     .plan = plan_milp<true, true>,
     .smallest = smallest_warmup,
     .copies = true,
     .swaps = true,
     .contains = kInWarmup,
     .begins_with = "lru"},
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
