#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/planner.h"
#include "planner/steps.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

Schedule scheduled(const Problem& problem, const Plan& plan) {
  Schedule schedule = lower(problem, plan);
  place(problem, schedule);
  add_waits(problem, schedule);
  return schedule;
}

// Every wait is needed: without it, check refuses the schedule.
TEST(Waits, LeaveOutNoneThatIsNeededAndAddNoneThatIsNot) {
  int waits = 0;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const toy::Training toy = toy::training(3, seed);
    const Problem problem = toy::problem_of(toy.graph, toy.results);
    const Schedule schedule =
        scheduled(problem, with_earliest_drops(problem, toy::random_plan(problem, seed)));
    check(problem, schedule);
    for (size_t i = 0; i < schedule.instructions.size(); ++i) {
      for (size_t w = 0; w < schedule.instructions[i].waits.size(); ++w) {
        EXPECT_LT(schedule.instructions[i].waits[w], static_cast<int32_t>(i));
        Schedule mutant = schedule;
        auto& list = mutant.instructions[i].waits;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(w));
        EXPECT_THROW(check(problem, std::move(mutant)), Error) << seed << " " << i << " " << w;
        ++waits;
      }
    }
  }
  EXPECT_GT(waits, 100);
}

TEST(Waits, ReuseOfAnAddressWaitsForTheCopyThatReadsIt) {
  Graph graph;
  const ValueId x = graph.add_source("x", {{16}}, Role::input);
  const ValueId a = toy::add(graph, "a", {x}, 16);
  const ValueId b = toy::add(graph, "b", {x}, 16);
  const ValueId c = toy::add(graph, "c", {a, b}, 16);
  const Problem problem = toy::problem_of(graph, {c});
  const Plan plan = with_earliest_drops(
      problem, {{compute_step(size_t{0}), copy_step(a, {0, 64}, Tier::device, Tier::host),
                 compute_step(size_t{1}), copy_step(a, {0, 64}, Tier::host, Tier::device),
                 compute_step(size_t{2})}});
  const Schedule schedule = scheduled(problem, plan);
  EXPECT_EQ(schedule.instructions[2].waits, std::vector<int32_t>{1}) << "b lies where a lay";
  EXPECT_EQ(schedule.instructions[3].waits, std::vector<int32_t>{2}) << "x's place, and a's copy";
}

}  // namespace
}  // namespace olm2
