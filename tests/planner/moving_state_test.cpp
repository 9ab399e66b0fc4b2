// Plans of problems whose state comes and goes: valid, within their budgets, honest about bounds,
// and refused by `check` once they are broken.
#include "planner/moving_state.h"

#include <random>

#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/state_copies.h"
#include "tests/core/mutants.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

bool is_source(const Problem& problem, size_t v) {
  const ValueId value{static_cast<int32_t>(v)};
  return problem.graph->value(value).home == value;
}

// Parameters at home or on the host by dice; gradients rest nowhere, or for part of the step.
Problem moving_problem(const toy::Training& toy, uint64_t seed) {
  Problem problem = toy::problem_of(toy.graph, toy.results);
  std::mt19937 random(static_cast<uint32_t>(seed));
  problem.rest.resize(toy.graph.values().size());
  problem.state_bytes = 0;
  for (size_t v = 0; v < problem.rest.size(); ++v) {
    const bool is_gradient = toy.graph.values()[v].role == Role::gradient;
    if (!is_source(problem, v) || is_gradient) continue;
    const Tier tier = random() % 3 == 0 ? Tier::device : Tier::host;
    problem.rest[v] = {.tier = tier};
    int64_t& top =
        tier == Tier::device ? problem.state_bytes : problem.state_elsewhere[index_of(tier)];
    problem.state_offset[v] = top;
    top += problem.padded_bytes({static_cast<int32_t>(v)});
  }
  const bool rests = random() % 2 == 0;
  int64_t above = problem.state_bytes;
  for (size_t v = 0; v < problem.rest.size(); ++v) {
    if (!is_source(problem, v) || toy.graph.values()[v].role != Role::gradient) continue;
    const ValueId source{static_cast<int32_t>(v)};
    problem.rest[v] = {.at_start = false, .at_end = rests};
    problem.state_offset[v] = rests ? above : -1;
    above += problem.padded_bytes(source);
    if (rests) problem.results.push_back(toy.graph.newest(source));
  }
  problem.device_to_host = problem.host_to_device = {.bytes_per_s = 4096};
  return problem;
}

PlanOptions options_for(std::string_view policy) {
  PlanOptions options;
  options.policy = policy;
  options.gap = 0.01;
  options.time_limit_s = 5;
  return options;
}

TEST(MovingState, IsPlannedWithinItsBudgetFromTheMinimumUp) {
  int moving = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const toy::Training toy = toy::training(2 + static_cast<int>(seed % 4), seed);
    Problem problem = moving_problem(toy, seed);
    moving += is_settled(problem) ? 0 : 1;
    for (const std::string_view policy : {"none", "chen"}) {
      const PlanOptions options = options_for(policy);
      problem.budget[0] = 0;
      const Minimum minimum = find_minimum(problem, options);
      EXPECT_LE(minimum.proven_bytes, minimum.bytes);
      double before_s = 0;
      for (const int64_t budget : {minimum.bytes, minimum.bytes * 3 / 2, minimum.bytes * 8}) {
        problem.budget[0] = budget;
        const Planned planned = plan_program(problem, options);
        ASSERT_TRUE(planned.schedule.has_value()) << policy << " seed " << seed << " at " << budget;
        const Certificate& certificate = planned.certificate;
        EXPECT_LE(certificate.peak[0], budget);
        EXPECT_LE(certificate.bound_s, certificate.objective_s);
        EXPECT_LE(replay(problem, planned.plan).peak[0], certificate.peak[0]);
        EXPECT_GE(certificate.peak[1], problem.state_elsewhere[1]);
        before_s = certificate.objective_s;
      }
      EXPECT_GT(before_s, 0);
    }
  }
  EXPECT_GT(moving, 6);
}

TEST(MovingState, LeavesAPlanAloneThatHasNone) {
  const toy::Training toy = toy::training(3, 5);
  const Problem problem = toy::problem_of(toy.graph, toy.results);
  EXPECT_TRUE(is_settled(problem));
  EXPECT_EQ(settle(problem, true).pretended_bytes, 0);
  const Plan plan = toy::random_plan(problem, 3);
  EXPECT_EQ(unsettle(problem, plan).steps, plan.steps);
}

// A source that is read again soon stays if there is room, and is fetched again if there is not.
TEST(MovingState, StaysBetweenUsesOnlyWhereItFits) {
  const toy::Training toy = toy::even_training(4);
  Problem problem = toy::problem_of(toy.graph, toy.results);
  problem.rest.resize(toy.graph.values().size());
  for (size_t v = 0; v < problem.rest.size(); ++v) {
    if (!is_source(problem, v) || toy.graph.values()[v].role != Role::parameter) continue;
    problem.rest[v] = {.tier = Tier::host};
    problem.state_offset[v] = problem.state_elsewhere[1];
    problem.state_elsewhere[1] += problem.padded_bytes({static_cast<int32_t>(v)});
  }
  const auto copies_in = [&](int64_t budget) {
    problem.budget[0] = budget;
    const Planned planned = plan_program(problem, options_for("none"));
    int count = 0;
    for (const Step& step : planned.plan.steps) {
      count += step.kind == Step::Kind::copy && step.to == Tier::device ? 1 : 0;
    }
    return count;
  };
  problem.budget[0] = 0;
  const int64_t least = find_minimum(problem, options_for("none")).bytes;
  const int ample = copies_in(int64_t{1} << 30);
  EXPECT_EQ(ample, 4) << "every layer's parameter once";
  EXPECT_GT(copies_in(least), ample);
}

// --- narrow planning -----------------------------------------------------------------------------

TEST(NarrowPlanning, FindsNothingThatLongerPlanningWouldNotAndProvesNothingFalse) {
  int narrow_plans = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const toy::Training toy = toy::training(2 + static_cast<int>(seed % 3), seed);
    Problem problem = moving_problem(toy, seed);
    PlanOptions options = options_for("olm2");
    options.gap = 0;
    problem.budget = {0, int64_t{1} << 30, 0};
    problem.budget[0] = find_minimum(problem, options).bytes * 5 / 4;
    const Planned full = plan_program(problem, options);
    ASSERT_TRUE(full.schedule.has_value()) << seed;
    options.is_narrow = true;
    Planned narrow = plan_program(problem, options);
    if (!narrow.schedule) continue;
    ++narrow_plans;
    EXPECT_GE(narrow.certificate.objective_s, full.certificate.objective_s * (1 - 1e-9)) << seed;
    EXPECT_LE(narrow.certificate.peak[0], problem.budget[0]);
    const double before_s = narrow.certificate.bound_s;
    raise_bound(problem, options, narrow.certificate);
    EXPECT_GE(narrow.certificate.bound_s, before_s) << seed;
    EXPECT_NEAR(std::min(narrow.certificate.bound_s, full.certificate.objective_s),
                full.certificate.bound_s, 1e-9 * full.certificate.bound_s)
        << seed;
  }
  EXPECT_GT(narrow_plans, 5);
}

// What is of no use is not planned; what is of use is the plan that would be found anyway.
TEST(NarrowPlanning, EndsWhereNoPlanIsFastEnough) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const toy::Training toy = toy::training(3, seed);
    Problem problem =
        seed % 2 == 0 ? moving_problem(toy, seed) : toy::problem_of(toy.graph, toy.results);
    PlanOptions options = options_for("chen");
    options.is_narrow = true;
    problem.budget[0] = 0;
    problem.budget[0] = find_minimum(problem, options).bytes * 5 / 4;
    const Planned any = plan_program(problem, options);
    if (!any.schedule) continue;
    ++compared;
    options.useful_s = any.certificate.objective_s * 1.001;
    const Planned same = plan_program(problem, options);
    ASSERT_TRUE(same.schedule.has_value()) << seed;
    EXPECT_EQ(same.plan.steps, any.plan.steps) << seed;
    options.useful_s = any.certificate.bound_s * 0.999;
    if (any.certificate.status == Status::optimal) continue;  // Keeping everything needs no search.
    EXPECT_FALSE(plan_program(problem, options).schedule.has_value()) << seed;
  }
  EXPECT_GT(compared, 4);
}

// --- mutants -------------------------------------------------------------------------------------

bool is_refused(const Problem& problem, const Schedule& schedule) {
  try {
    check(problem, schedule);
    return false;
  } catch (const Error&) {
    return true;
  }
}

struct Victim {
  toy::Training toy;
  Problem problem;
  Schedule schedule;
};

Victim victim(uint64_t seed) {
  Victim v{.toy = toy::training(3, seed), .problem = {}, .schedule = {}};
  v.problem = moving_problem(v.toy, seed);
  v.problem.budget[0] = 0;
  v.problem.budget[0] = find_minimum(v.problem, options_for("chen")).bytes * 5 / 4;
  v.schedule = plan_program(v.problem, options_for("chen")).schedule.value().schedule();
  return v;
}

TEST(MovingStateMutants, WithoutAnyOneCopyOfStateAreRefused) {
  int removed = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Victim v = victim(seed);
    v.problem.graph = &v.toy.graph;
    for (size_t i = 0; i < v.schedule.instructions.size(); ++i) {
      if (!testing::is_copy(v.schedule.instructions[i])) continue;
      Schedule mutant = v.schedule;
      std::vector<int32_t> after(mutant.instructions.size());
      for (size_t k = 0; k < after.size(); ++k) {
        after[k] = k == i ? -1 : static_cast<int32_t>(k - (k > i ? 1 : 0));
      }
      testing::renumber_waits(mutant, after);
      mutant.instructions.erase(mutant.instructions.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_TRUE(is_refused(v.problem, mutant)) << "seed " << seed << ", copy " << i;
      ++removed;
    }
  }
  EXPECT_GT(removed, 20);
}

TEST(MovingStateMutants, ThatNameAnotherVersionInACopyAreRefused) {
  int renamed = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Victim v = victim(seed);
    v.problem.graph = &v.toy.graph;
    const Graph& graph = v.toy.graph;
    for (size_t i = 0; i < v.schedule.instructions.size(); ++i) {
      if (!testing::is_copy(v.schedule.instructions[i])) continue;
      const ValueId value = v.schedule.instructions[i].reads[0].value;
      const ValueId home = graph.value(value).home;
      if (!home.valid()) continue;
      Schedule mutant = v.schedule;
      const ValueId other = value == home ? graph.newest(home) : home;
      if (other == value) continue;
      mutant.instructions[i].reads[0].value = mutant.instructions[i].writes[0].value = other;
      EXPECT_TRUE(is_refused(v.problem, mutant)) << "seed " << seed << ", copy " << i;
      ++renamed;
    }
  }
  EXPECT_GT(renamed, 10);
}

TEST(MovingStateMutants, ThatAreAlwaysHarmfulAreRefused) {
  int refused = 0;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    Victim v = victim(seed);
    v.problem.graph = &v.toy.graph;
    for (const testing::Mutation& mutation : testing::all_mutations()) {
      for (uint32_t k = 0; k < 4; ++k) {
        testing::Random random(100 * seed + k);
        const auto mutant = mutation.apply(v.problem, v.schedule, random);
        if (!mutant) continue;
        const bool is_bad = is_refused(v.problem, *mutant);
        refused += is_bad ? 1 : 0;
        EXPECT_TRUE(is_bad || !mutation.always_harmful) << mutation.name << ", seed " << seed;
      }
    }
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace olm2
