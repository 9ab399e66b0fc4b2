#include "planner/search.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "milp_graphs.h"
#include "planner/guide.h"
#include "planner/realize.h"

namespace olm2 {
namespace {

constexpr Roofline kToyMachine{.flops_per_s = 1e9, .bytes_per_s = 2e8, .launch_s = 1e-7};

int64_t optional_slots(const std::vector<Slot>& slots) {
  return std::ranges::count(slots, true, &Slot::optional);
}

TEST(Guide, LeavesOpenWhatTheBoundBrokeAndItsLayer) {
  const Program program = gpt_step({.layers = 3});
  const Graph& graph = program.graph;
  const Problem problem = problem_of(program, kToyMachine);
  TurnBound bound;
  bound.again.assign(graph.nodes().size(), 0.0);
  const auto again = [&](const char* name) -> double& {
    return bound.again[static_cast<size_t>(graph.value(graph.find(name)).producer.index)];
  };
  again("h.0.gelu") = 1;
  again("h.1.gelu") = 0.5;
  const Guide guide(problem, bound);
  const GuidedSlots narrow = guide.choose({"single0", 0}, true);
  EXPECT_EQ(optional_slots(narrow.slots), 1);
  // Beside the mandatory slots, one that is open and one that always runs.
  EXPECT_EQ(narrow.slots.size(), graph.nodes().size() + 2);
  const GuidedSlots layer = guide.choose({"single0", 1}, true);
  EXPECT_EQ(optional_slots(layer.slots), 8);
  const GuidedSlots all = guide.choose({"single0", kEverything}, true);
  EXPECT_EQ(optional_slots(all.slots), optional_slots(slots_of(problem, "single0", true)));
  // Offered twice: at its own layer's moment and at that of the layer after.
  const GuidedSlots back = guide.choose({"single1", 0}, true);
  EXPECT_EQ(back.at_least_once.size(), 1U);
}

TEST(Search, ReachesTheGapAgainstAllPlansAndKeepsTheBudget) {
  const Program program = gpt_step({.layers = 4, .channels = 32, .tokens = 16});
  Problem problem = problem_of(program, kToyMachine);
  for (const double fraction : {0.5, 0.7}) {
    const auto bytes = static_cast<double>(activation_bytes(problem)) * fraction;
    device_budget(problem) = problem.state_bytes + static_cast<int64_t>(bytes);
    PlanOptions options;
    options.policy = "recompute";
    options.gap = 0.015;
    const Planned planned = plan_program(problem, options);
    ASSERT_TRUE(planned.schedule.has_value());
    EXPECT_LE(planned.certificate.gap, options.gap) << fraction;
    EXPECT_LE(planned.certificate.peak[index_of(Tier::device)], device_budget(problem));
  }
}

TEST(Search, LooksFurtherWhereItsGuideIsWrong) {
  const Program program = gpt_step({.layers = 3});
  Problem problem = problem_of(program, kToyMachine);
  const auto bytes = static_cast<double>(activation_bytes(problem)) * 0.8;
  device_budget(problem) = problem.state_bytes + static_cast<int64_t>(bytes);
  PlanOptions options;
  options.gap = 0.02;
  const TurnBound right = turn_bound(problem, true, false, 10);
  TurnBound wrong = right;
  for (double& again : wrong.again) again = 1;  // Everything runs again.
  const PolicyResult found = search_plans(problem, options, right, true, false);
  const PolicyResult misled = search_plans(problem, options, wrong, true, false);
  ASSERT_EQ(found.status, Status::feasible);
  ASSERT_EQ(misled.status, Status::feasible);
  const double seconds = realize(problem, found.plan).seconds;
  EXPECT_LE(realize(problem, misled.plan).seconds, seconds * (1 + options.gap));
}

TEST(Search, AWiderSpaceIsNeverSlower) {
  const Program program = gpt_step({.layers = 2});
  Problem problem = problem_of(program, kToyMachine);
  const auto bytes = static_cast<double>(activation_bytes(problem)) * 0.55;
  device_budget(problem) = problem.state_bytes + static_cast<int64_t>(bytes);
  double slower_than = 1e30;
  for (const char* space : {"single0", "single1"}) {
    PlanOptions options;
    options.policy = "recompute";
    options.gap = 0;
    options.space = space;
    options.time_limit_s = 20;
    const Planned planned = plan_program(problem, options);
    ASSERT_TRUE(planned.schedule.has_value()) << space;
    EXPECT_LE(planned.certificate.objective_s, slower_than * (1 + 1e-9)) << space;
    slower_than = planned.certificate.objective_s;
  }
}

}  // namespace
}  // namespace olm2
