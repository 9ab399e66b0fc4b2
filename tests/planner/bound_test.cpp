#include "planner/bound.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "milp_graphs.h"
#include "planner/planner.h"
#include "planner/solver_process.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

constexpr double kTimeLimit_s = 60;
constexpr double kRounding = 1e-9;

// a and b are read again at the end; T makes much and frees nothing.
Graph fork_graph() {
  Graph graph;
  const ValueId x = graph.add_source("x", {{16}}, Role::input);
  const ValueId a = toy::add(graph, "a", {x}, 16);
  const ValueId b = toy::add(graph, "b", {x}, 32);
  const ValueId t = toy::add(graph, "t", {x}, 64);
  toy::add(graph, "end", {x, a, b, t}, 16);
  return graph;
}

TEST(TurnBound, IsTheSumOfAllNodesWhereEverythingFits) {
  const SolverSession session;
  const Graph graph = fork_graph();
  const Problem problem = toy::problem_of(graph, {graph.find("end")});
  const TurnBound bound = turn_bound(problem, true, true, kTimeLimit_s);
  EXPECT_TRUE(bound.fits);
  EXPECT_EQ(bound.seconds, 4);
  EXPECT_EQ(bound.seconds_per_byte, 0);
}

TEST(TurnBound, SaysWhenNoPlanFits) {
  const SolverSession session;
  const Graph graph = fork_graph();
  Problem problem = toy::problem_of(graph, {graph.find("end")});
  problem.budget[0] = proven_minimum(problem).bytes;
  EXPECT_TRUE(turn_bound(problem, true, true, kTimeLimit_s).fits);
  problem.budget[0] -= 1;
  EXPECT_FALSE(turn_bound(problem, true, true, kTimeLimit_s).fits);
}

// Links that slow computing by different factors and take a while to begin.
void add_uneven_links(Problem& problem, double bytes_per_s) {
  problem.device_to_host = {.bytes_per_s = bytes_per_s, .latency_s = 0.05, .compute_slowdown = 1.5};
  problem.host_to_device = {
      .bytes_per_s = 1.3 * bytes_per_s, .latency_s = 0.1, .compute_slowdown = 1.2};
}

// w gives a, and t, which is large and read by s; a and s are read at the end.  State takes one
// block, a one, t eight, s one: all together eleven.
struct Detour {
  Detour() {
    const ValueId w = graph.add_source("w", {{16}}, Role::parameter);
    const ValueId a = toy::add(graph, "a", {w}, 16);
    const ValueId t = toy::add(graph, "t", {w}, 128);
    const ValueId s = toy::add(graph, "s", {t}, 16);
    problem = toy::problem_of(graph, {toy::add(graph, "end", {a, s}, 16)});
    problem.seconds = {3, 1, 1, 1};
  }
  Graph graph;
  Problem problem;
};

double bound_of(Problem problem, int64_t blocks, bool may_recompute, bool may_swap) {
  problem.budget[0] = 64 * blocks;
  const TurnBound bound = turn_bound(problem, may_recompute, may_swap, kTimeLimit_s);
  return bound.fits ? bound.seconds : 1e9;
}

TEST(TurnBound, EqualsTheOptimumOfADetour) {
  const SolverSession session;
  Detour detour;
  constexpr double kNear = 1e-6 * 6;
  EXPECT_NEAR(bound_of(detour.problem, 11, true, true), 6, kNear);
  EXPECT_NEAR(bound_of(detour.problem, 10, true, false), 9, kNear) << "a is made again";
  // a leaves beside t, and comes back when s is made and t gone: a second of waiting.
  EXPECT_NEAR(bound_of(detour.problem, 10, false, true), 7, kNear);
  EXPECT_NEAR(bound_of(detour.problem, 10, true, true), 7, kNear);
  detour.problem.host_to_device.bytes_per_s = 16;  // Four seconds: rather three of computing.
  EXPECT_NEAR(bound_of(detour.problem, 10, true, true), 9, kNear);
  detour.problem.device_to_host.bytes_per_s = 0;
  EXPECT_NEAR(bound_of(detour.problem, 10, true, true), 9, kNear);
  detour.problem.host_to_device = {.bytes_per_s = 64, .latency_s = 0.5, .compute_slowdown = 2};
  detour.problem.device_to_host = detour.problem.host_to_device;
  // Out takes 1.5 s, half of which t gets nowhere; in is waited for.
  EXPECT_NEAR(bound_of(detour.problem, 10, true, true), 6 + 0.75 + 1.5, kNear);
  detour.problem.budget[index_of(Tier::host)] = 0;
  detour.problem.budget[index_of(Tier::disk)] = 0;
  EXPECT_NEAR(bound_of(detour.problem, 10, true, true), 9, kNear);
  EXPECT_EQ(bound_of(detour.problem, 10, false, true), 1e9);
  EXPECT_EQ(bound_of(detour.problem, 9, true, true), 1e9);
}

TEST(TurnBound, SaysWhatRunsAgainAndWhatAByteIsWorth) {
  const SolverSession session;
  Detour detour;
  detour.problem.budget[0] = 64 * 10;
  const TurnBound bound = turn_bound(detour.problem, true, false, kTimeLimit_s);
  EXPECT_EQ(detour.graph.node(bound.turn).name, "s");
  EXPECT_NEAR(bound.again[0], 1, 1e-6);
  EXPECT_NEAR(bound.held[static_cast<size_t>(detour.graph.find("a").index)], 0, 1e-6);
  EXPECT_NEAR(bound.held[static_cast<size_t>(detour.graph.find("t").index)], 1, 1e-6);
  EXPECT_NEAR(bound.seconds_per_byte, 3.0 / 64, 1e-6) << "a block saves the three seconds of a";
}

TEST(TurnBound, AByteSavesWhatItIsSaidToSave) {
  const SolverSession session;
  const toy::Training toy = toy::even_training(8);
  Problem problem = toy::problem_of(toy.graph, toy.results);
  add_uneven_links(problem, 500);
  const int64_t least = proven_minimum(problem).bytes;
  int saving = 0;
  for (int64_t more = 1024; more <= 8192; more += 512) {
    problem.budget[0] = least + more;
    const TurnBound bound = turn_bound(problem, false, true, kTimeLimit_s);
    constexpr int64_t kBytes = 64;
    problem.budget[0] += kBytes;
    const double after = turn_bound(problem, false, true, kTimeLimit_s).seconds;
    // A convex function of the budget per cut: its slope says the most.
    const double most = bound.seconds_per_byte * kBytes;
    EXPECT_GE(after, bound.seconds - most - kRounding * bound.seconds) << more;
    if (most > 0.01) ++saving;
  }
  EXPECT_GE(saving, 3);
}

// Thirty like layers make a value each, from state alone; t, eight blocks, is read by s; then all
// values are read one after another.
TEST(TurnBound, CountsWholeRunsOfLikeLayers) {
  const SolverSession session;
  constexpr int kLayers = 30;
  Graph graph;
  const ValueId w = graph.add_source("w", {{16}}, Role::parameter);
  std::vector<ValueId> made;
  for (int i = 0; i < kLayers; ++i) {
    const Scope scope(graph, "h." + std::to_string(i));
    made.push_back(toy::add(graph, "a", {w}, 16));
  }
  ValueId last = toy::add(graph, "s", {toy::add(graph, "t", {w}, 128)}, 16);
  for (const ValueId value : made) last = toy::add(graph, "end", {value, last}, 16);
  const Problem problem = toy::problem_of(graph, {last});
  const auto nodes = static_cast<double>(graph.nodes().size());
  // State, t and s take ten blocks; 5.5 more: five values stay, 25 layers run again, not 24.5.
  Problem tight = problem;
  tight.budget[0] = 64 * 15 + 32;
  const TurnBound bound = turn_bound(tight, true, false, kTimeLimit_s);
  EXPECT_LE(bound.seconds, nodes + 25);
  EXPECT_GE(bound.seconds, nodes + 25 - 1e-5 * nodes);
}

TEST(TurnBound, IsNearTheBestPlansOfATransformer) {
  const Program program = gpt_step({.layers = 3});
  Problem problem = problem_of(program, {.flops_per_s = 1e9, .bytes_per_s = 2e8, .launch_s = 1e-7});
  add_links(problem, 1e8, 1.1, int64_t{1} << 30);
  for (const std::string_view policy : {"recompute", "olm2"}) {
    for (const double part : {0.7}) {
      const auto bytes = static_cast<double>(activation_bytes(problem)) * part;
      device_budget(problem) = problem.state_bytes + static_cast<int64_t>(bytes);
      PlanOptions options;
      options.policy = policy;
      options.gap = 0.01;
      const Certificate certificate = plan_program(problem, options).certificate;
      const std::string which = std::string(policy) + " at " + std::to_string(part);
      EXPECT_GT(certificate.objective_s, certificate.baseline_s * 1.0001) << which;
      EXPECT_LE(certificate.bound_s, certificate.objective_s) << which;
      EXPECT_LT(certificate.gap, 0.02) << which;
    }
  }
}

TEST(TurnBound, NoRandomPlanIsFaster) {
  const SolverSession session;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const toy::Training toy = toy::training(3 + static_cast<int>(seed % 4), seed);
    Problem problem = toy::problem_of(toy.graph, toy.results);
    for (size_t n = 0; n < problem.workspace.size(); n += 3) problem.workspace[n] = 100;
    add_uneven_links(problem, 200 + 100 * static_cast<double>(seed % 30));
    const Plan plan = toy::random_plan(problem, seed);
    Schedule schedule = lower(problem, plan);
    place(problem, schedule);
    add_waits(problem, schedule);
    problem.budget = schedule.arena;
    const TurnBound bound = turn_bound(problem, true, true, kTimeLimit_s);
    EXPECT_TRUE(bound.fits) << "seed " << seed;
    EXPECT_LE(bound.seconds, simulate(problem, schedule).seconds * (1 + kRounding)) << seed;
  }
}

void expect_no_policy_is_faster(const Problem& problem, int64_t budget) {
  Problem asked = problem;
  asked.budget[index_of(Tier::device)] = budget;
  for (const Policy& policy : all_policies()) {
    PlanOptions options;
    options.policy = policy.name;
    const Planned planned = plan_program(asked, options);
    const TurnBound bound =
        turn_bound(asked, policy.bound_recomputes, policy.bound_copies, kTimeLimit_s);
    const std::string which = std::string(policy.name) + " at " + std::to_string(budget);
    if (!planned.schedule) continue;
    const Certificate& certificate = planned.certificate;
    EXPECT_TRUE(bound.fits) << which;
    const double seconds = simulate(asked, planned.schedule->schedule()).seconds;
    EXPECT_LE(bound.seconds, seconds * (1 + kRounding)) << which;
    EXPECT_NEAR(certificate.bound_s, std::max(bound.seconds, certificate.baseline_s), 1e-9);
    EXPECT_FALSE(certificate.bound_space.empty());
  }
}

TEST(TurnBound, NoPolicyIsFaster) {
  const SolverSession session;
  for (const uint64_t seed : {1, 2, 3}) {
    const toy::Training toy = toy::training(4, seed);
    Problem problem = toy::problem_of(toy.graph, toy.results);
    problem.budget[index_of(Tier::host)] = seed == 1 ? 512 : int64_t{1} << 30;
    if (seed != 2) add_uneven_links(problem, 300 * static_cast<double>(seed));
    PlanOptions options;
    options.policy = "olm2";
    const int64_t least = find_minimum(problem, options).bytes;
    options.policy = "none";
    const int64_t most = find_minimum(problem, options).bytes;
    for (int k = 0; k <= 4; ++k)
      expect_no_policy_is_faster(problem, least + k * (most - least) / 4);
  }
}

TEST(TurnBound, FallsAsTheBudgetGrows) {
  const SolverSession session;
  const toy::Training toy = toy::training(5, 9);
  Problem problem = toy::problem_of(toy.graph, toy.results);
  add_uneven_links(problem, 500);
  const int64_t least = proven_minimum(problem).bytes;
  double before = 1e30;
  double first = 0;
  for (int64_t more = 0; more < 4096; more += 192) {
    problem.budget[0] = least + more;
    const TurnBound bound = turn_bound(problem, true, true, kTimeLimit_s);
    EXPECT_LE(bound.seconds, before * (1 + kRounding));
    before = bound.seconds;
    if (more == 0) first = before;
  }
  EXPECT_GT(first, before * 1.05);
}

TEST(TurnBound, WithoutTimeItIsTheSumOfAllNodes) {
  const SolverSession session;
  const toy::Training toy = toy::training(5, 9);
  Problem problem = toy::problem_of(toy.graph, toy.results);
  problem.budget[0] = proven_minimum(problem).bytes;
  const TurnBound bound = turn_bound(problem, true, true, 0);
  EXPECT_TRUE(bound.fits);
  EXPECT_EQ(bound.seconds, static_cast<double>(toy.graph.nodes().size()));
}

}  // namespace
}  // namespace olm2
