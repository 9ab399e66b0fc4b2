// plan_program, find_minimum, proven_minimum and the policies none and chen.
#include "planner/planner.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/chen.h"
#include "planner/keep_all.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

using testing::HasSubstr;

Planned plan_with(Problem problem, std::string_view policy, int64_t device_budget) {
  problem.budget[index_of(Tier::device)] = device_budget;
  PlanOptions options;
  options.policy = policy;
  return plan_program(problem, options);
}

int64_t keep_all_bytes(const Problem& problem) {
  return plan_with(problem, "none", int64_t{1} << 40).certificate.peak[0];
}

TEST(PlanProgram, KeepsEverythingWhereItFits) {
  const toy::Training toy = toy::training(6, 3);
  const Problem problem = toy::problem_of(toy.graph, toy.results);
  const int64_t bytes = keep_all_bytes(problem);
  for (const Policy& policy : all_policies()) {
    const Planned planned = plan_with(problem, policy.name, bytes);
    EXPECT_EQ(planned.certificate.status, Status::optimal) << policy.name;
    EXPECT_EQ(planned.certificate.recomputed, 0);
    EXPECT_EQ(planned.certificate.copied_bytes, 0);
    EXPECT_EQ(planned.certificate.objective_s, planned.certificate.baseline_s);
    EXPECT_EQ(planned.certificate.bound_s, planned.certificate.baseline_s);
    EXPECT_EQ(planned.certificate.gap, 0);
    EXPECT_EQ(planned.certificate.peak[0], bytes);
    EXPECT_TRUE(planned.schedule.has_value());
  }
}

TEST(PlanProgram, SucceedsWithExactlyTheMinimumAndNamesItBelow) {
  for (const uint64_t seed : {1, 2}) {
    const toy::Training toy = toy::training(5, seed);
    const Problem problem = toy::problem_of(toy.graph, toy.results);
    for (const Policy& policy : all_policies()) {
      PlanOptions options;
      options.policy = policy.name;
      const Minimum minimum = find_minimum(problem, options);
      EXPECT_LE(minimum.proven_bytes, minimum.bytes);
      const Planned planned = plan_with(problem, policy.name, minimum.bytes);
      ASSERT_TRUE(planned.schedule.has_value()) << policy.name;
      EXPECT_LE(planned.certificate.peak[0], minimum.bytes);

      const Planned refused = plan_with(problem, policy.name, minimum.proven_bytes - 1);
      EXPECT_FALSE(refused.schedule.has_value());
      EXPECT_EQ(refused.certificate.status, Status::infeasible);
      for (const std::string& part : {std::to_string(minimum.bytes), minimum.moment,
                                      minimum.alive.at(0), std::to_string(minimum.proven_bytes)}) {
        EXPECT_THAT(refused.certificate.message, HasSubstr(part));
      }
    }
  }
}

TEST(PlanProgram, DoesNotKnowWhereOnlyThePolicyIsAtItsEnd) {
  const toy::Training toy = toy::even_training(8);
  const Problem problem = toy::problem_of(toy.graph, toy.results);
  const int64_t bytes = keep_all_bytes(problem);
  ASSERT_LT(proven_minimum(problem).bytes, bytes - 64);
  const Planned planned = plan_with(problem, "none", bytes - 64);
  EXPECT_EQ(planned.certificate.status, Status::unknown);
  EXPECT_THAT(planned.certificate.message, HasSubstr(std::to_string(bytes)));
}

TEST(PlanProgram, NamesTheChoicesForAnUnknownPolicyOrSpace) {
  const toy::Training toy = toy::training(1, 1);
  const Problem problem = toy::problem_of(toy.graph, toy.results);
  PlanOptions options;
  options.policy = "chan";
  EXPECT_THAT([&] { plan_program(problem, options); },
              testing::ThrowsMessage<Error>(HasSubstr("none, chen")));
  options.policy = "chen";
  options.space = "doubel0";
  EXPECT_THAT([&] { plan_program(problem, options); },
              testing::ThrowsMessage<Error>(HasSubstr("single0")));
}

TEST(PlanProgram, IsNeverSlowerWithMoreMemory) {
  for (const uint64_t seed : {4, 5}) {
    const toy::Training toy = toy::training(7, seed);
    const Problem problem = toy::problem_of(toy.graph, toy.results);
    const int64_t most = keep_all_bytes(problem);
    PlanOptions options;
    options.policy = "chen";
    const int64_t least = find_minimum(problem, options).bytes;
    double before = 1e30;
    for (int64_t budget = least; budget <= most; budget += (most - least) / 13 + 1) {
      const Planned planned = plan_with(problem, "chen", budget);
      ASSERT_TRUE(planned.schedule.has_value());
      EXPECT_LE(planned.certificate.peak[0], budget);
      EXPECT_LE(planned.certificate.objective_s, before);
      EXPECT_GE(planned.certificate.objective_s, planned.certificate.bound_s);
      before = planned.certificate.objective_s;
    }
  }
}

TEST(PlanProgram, IsNeverSlowerThanSegmentsWhereItMayRecompute) {
  const toy::Training toy = toy::training(8, 12);
  Problem problem = toy::problem_of(toy.graph, toy.results);
  problem.budget[index_of(Tier::host)] = 1024;
  const int64_t most = keep_all_bytes(problem);
  PlanOptions options;
  options.policy = "chen";
  const int64_t least = find_minimum(problem, options).bytes;
  for (int64_t budget = least; budget <= most; budget += (most - least) / 5 + 1) {
    const Planned chen = plan_with(problem, "chen", budget);
    for (const std::string_view policy : {"recompute", "olm2"}) {
      const Planned planned = plan_with(problem, policy, budget);
      ASSERT_TRUE(planned.schedule.has_value()) << policy << " " << budget;
      EXPECT_LE(planned.certificate.objective_s, chen.certificate.objective_s) << policy;
      EXPECT_LE(planned.certificate.peak[0], budget);
      EXPECT_LE(planned.certificate.peak[1], 1024);
      EXPECT_TRUE(policy == "olm2" || planned.certificate.copied_bytes == 0);
    }
  }
}

// From its minimum up, with and without a host: the policies that need no solver.
TEST(PlanProgram, IsFeasibleFromTheMinimumUpUnderEveryHeuristic) {
  const toy::Training toy = toy::training(5, 21);
  Problem problem = toy::problem_of(toy.graph, toy.results);
  const int64_t most = keep_all_bytes(problem);
  for (const std::string_view name : {"chen", "chen-sqrt", "lru", "belady", "dtr", "capuchin"}) {
    for (const int64_t host : {int64_t{0}, int64_t{700}, int64_t{1} << 30}) {
      problem.budget[index_of(Tier::host)] = host;
      PlanOptions options;
      options.policy = name;
      const int64_t least = find_minimum(problem, options).bytes;
      for (int64_t part = 0; part < 4; ++part) {
        const int64_t budget = least + (most - least) * part / 4;
        const Planned planned = plan_with(problem, name, budget);
        ASSERT_TRUE(planned.schedule.has_value()) << name << " " << budget << " host " << host;
        const Certificate& made = planned.certificate;
        EXPECT_LE(made.peak[index_of(Tier::device)], budget);
        EXPECT_LE(made.peak[index_of(Tier::host)], host);
        EXPECT_GE(made.objective_s, made.bound_s);
        EXPECT_EQ(made.status, made.gap < 1e-9 ? Status::optimal : Status::feasible);
        if (part == 2) {
          EXPECT_EQ(plan_with(problem, name, budget).plan.steps, planned.plan.steps);
        }
      }
    }
  }
}

TEST(Chen, SqrtIsOneNumberOfSegmentsWhateverTheBudget) {
  const toy::Training toy = toy::even_training(36);
  const Problem problem = toy::problem_of(toy.graph, toy.results);
  const int64_t all = keep_all_bytes(problem);
  // 36 layers and a head.
  const std::string six = to_string(toy.graph, chen_plan(problem, 6));
  PlanOptions options;
  options.policy = "chen-sqrt";
  for (const int64_t budget : {find_minimum(problem, options).bytes, all - 64}) {
    EXPECT_EQ(to_string(toy.graph, plan_with(problem, "chen-sqrt", budget).plan), six);
  }
  EXPECT_LT(plan_with(problem, "chen", all - 64).certificate.objective_s,
            plan_with(problem, "chen-sqrt", all - 64).certificate.objective_s);
}

TEST(Chen, LowersThePeakToTheOrderOfTheSquareRoot) {
  const toy::Training toy = toy::even_training(36);
  const Problem problem = toy::problem_of(toy.graph, toy.results);
  const auto activations = [&](const Plan& plan) {
    return replay(problem, plan).peak[0] - problem.state_bytes;
  };
  // Kept per layer: a, h and a saved value of s; one segment of 6 layers and 6 boundaries remain.
  const int64_t all = activations(keep_all_plan(problem));
  const int64_t few = activations(chen_plan(problem, 6));
  EXPECT_GT(all, 36 * 3 * 1024);
  EXPECT_LT(few, all / 3);
}

TEST(Chen, MakesAgainOnlyWhatTheBackwardPassReads) {
  const toy::Training toy = toy::even_training(4);
  const Problem problem = toy::problem_of(toy.graph, toy.results);
  const Plan plan = chen_plan(problem, 2);
  std::multiset<std::string> again;
  std::set<int32_t> done;
  for (const Step& step : plan.steps) {
    if (step.kind != Step::Kind::compute) continue;
    if (!done.insert(step.node.index).second) again.insert(toy.graph.node(step.node).name);
  }
  // Three of four layers and a head; the last h of the segment is its boundary and was kept.
  EXPECT_EQ(again, (std::multiset<std::string>{"layer0.a", "layer0.h", "layer0.s", "layer1.a",
                                               "layer1.h", "layer1.s", "layer2.a", "layer2.s"}));
}

TEST(Chen, SegmentsAGraphWithoutScopesByNodes) {
  Graph graph;
  std::vector<ValueId> values = {graph.add_source("x", {{256}}, Role::input)};
  for (int i = 0; i < 16; ++i) {
    values.push_back(toy::add(graph, "f" + std::to_string(i), {values.back()}, 256));
  }
  graph.set_phase(Phase::backward);
  ValueId d = values.back();
  for (int i = 16; i-- > 1;) {
    d = toy::add(graph, "b" + std::to_string(i), {d, values[static_cast<size_t>(i)]}, 256);
  }
  const Problem problem = toy::problem_of(graph, {d});
  const int64_t all = keep_all_bytes(problem);
  const Planned planned = plan_with(problem, "chen", all * 2 / 3);
  ASSERT_TRUE(planned.schedule.has_value());
  EXPECT_GT(planned.certificate.recomputed, 0);
  EXPECT_LT(planned.certificate.recomputed, 16);
}

TEST(Chen, KeepsWhatReadsStateThatChangesTooEarly) {
  // An optimizer fused into the backward pass: layer 0 must not run again with new weights.
  Graph graph;
  const ValueId x = graph.add_source("x", {{16}}, Role::input);
  const ValueId w = graph.add_source("w", {{16}}, Role::parameter);
  const ValueId a = toy::add(graph, "a", {x, w}, 16);
  const ValueId b = toy::add(graph, "b", {a}, 16);
  const ValueId c = toy::add(graph, "c", {b}, 16);
  graph.set_phase(Phase::backward);
  const ValueId updated = toy::add(graph, "update", {w, c}, 16, true);
  graph.set_home(updated, w);
  const ValueId d = toy::add(graph, "d", {c, a, b}, 16);
  const Problem problem = toy::problem_of(graph, {d});
  for (int segments = 1; segments <= 3; ++segments) {
    replay(problem, chen_plan(problem, segments));  // Throws if a is made from the new w.
  }
}

TEST(ProvenMinimum, IsTheLargestWorkingSet) {
  Graph graph;
  const ValueId x = graph.add_source("x", {{16}}, Role::input);
  const ValueId a = toy::add(graph, "a", {x}, 48);
  const ValueId b = toy::add(graph, "b", {a, x}, 16);
  toy::add(graph, "unused", {b}, 10000);
  Problem problem = toy::problem_of(graph, {b});
  problem.workspace[1] = 1;
  const Minimum minimum = proven_minimum(problem);
  EXPECT_EQ(minimum.bytes, 64 + 192 + 64 + 64);
  EXPECT_EQ(minimum.moment, "b");
  EXPECT_EQ(minimum.alive.at(0), "a 192");
}

TEST(ProvenMinimum, HoldsForRandomPlans) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const toy::Training toy = toy::training(1 + static_cast<int>(seed % 4), seed);
    const Problem problem = toy::problem_of(toy.graph, toy.results);
    const Plan plan = with_earliest_drops(problem, toy::random_plan(problem, seed));
    EXPECT_LE(proven_minimum(problem).bytes, replay(problem, plan).peak[0]);
  }
}

}  // namespace
}  // namespace olm2
