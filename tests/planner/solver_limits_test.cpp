// What plan_program says of plans whose solver got too little time or memory, or was killed.
#include <chrono>
#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "planner/planner.h"
#include "planner/realize.h"
#include "planner/solver_process.h"
#include "tests/planner/milp_graphs.h"

namespace olm2 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Roofline kMachine{.flops_per_s = 1e9, .bytes_per_s = 1e9, .launch_s = 1e-7};

// A step whose best plan takes long to prove, where 40 % of the activations fit and chen finds a
// plan.
class Step {
 public:
  Step() {
    problem_ = problem_of(program_, kMachine);
    add_links(problem_, 4e8, 1.0, int64_t{1} << 30);
    problem_.budget[index_of(Tier::device)] =
        problem_.state_bytes + activation_bytes(problem_) * 2 / 5;
  }
  Problem& problem() { return problem_; }
  Planned plan(const PlanOptions& options) const { return plan_program(problem_, options); }

 private:
  Program program_ = gpt_step({.layers = 12, .channels = 32});
  Problem problem_;
};

PlanOptions to_the_end(double time_limit_s) {
  PlanOptions options;
  options.gap = 1e-9;
  options.time_limit_s = time_limit_s;
  return options;
}

// What every plan must say that was made under a limit that ended its search.
void expect_honest(const Planned& planned, const Problem& problem) {
  const Certificate& certificate = planned.certificate;
  ASSERT_EQ(certificate.status, Status::feasible);
  ASSERT_TRUE(planned.schedule.has_value());
  EXPECT_TRUE(is_within(certificate.peak, problem.budget));
  EXPECT_LT(certificate.bound_s, certificate.objective_s);
  EXPECT_GE(certificate.bound_s, certificate.baseline_s * (1 - 1e-9));
  EXPECT_GT(certificate.gap, 1e-9);
  EXPECT_FALSE(certificate.ended_early.empty());
}

TEST(SolverLimits, WithoutTimeThePlanIsFeasible) {
  Step step;
  for (const double limit_s : {0.0, 0.001}) {
    const Planned planned = step.plan(to_the_end(limit_s));
    expect_honest(planned, step.problem());
    EXPECT_EQ(planned.certificate.ended_early, "time is up");
  }
}

TEST(SolverLimits, ABudgetBelowAllPlansIsStillProvenInfeasibleWithoutTime) {
  Step step;
  step.problem().budget[index_of(Tier::device)] = proven_minimum(step.problem()).bytes - 1;
  EXPECT_EQ(step.plan(to_the_end(0)).certificate.status, Status::infeasible);
}

TEST(SolverLimits, ABudgetThatNoPlanWasFoundForIsUnknownWithoutTime) {
  Step step;
  step.problem().budget[index_of(Tier::device)] = proven_minimum(step.problem()).bytes;
  const Planned planned = step.plan(to_the_end(0));
  EXPECT_EQ(planned.certificate.status, Status::unknown);
  EXPECT_FALSE(planned.schedule.has_value());
  EXPECT_NE(planned.certificate.message.find("time is up"), std::string::npos)
      << planned.certificate.message;
}

TEST(SolverLimits, ASolverKilledAgainAndAgainLeavesAFeasiblePlan) {
  const SolverSession session;
  Step step;
  PlanOptions options = to_the_end(60);
  int killed = 0;
  options.should_stop = [&] {
    const pid_t solver = SolverSession::process();
    if (solver > 0 && kill(solver, SIGKILL) == 0) ++killed;
    return false;
  };
  const Planned planned = step.plan(options);
  EXPECT_GT(killed, 0);
  expect_honest(planned, step.problem());
  EXPECT_NE(planned.certificate.ended_early.find("signal 9"), std::string::npos)
      << planned.certificate.ended_early;
}

TEST(SolverLimits, ASolverWithoutMemoryLeavesAFeasiblePlan) {
  Step step;
  PlanOptions options = to_the_end(60);
  options.memory_limit_bytes = 1 << 20;
  const Planned planned = step.plan(options);
  expect_honest(planned, step.problem());
  EXPECT_NE(planned.certificate.ended_early.find("memory"), std::string::npos)
      << planned.certificate.ended_early;
}

TEST(SolverLimits, ARequestToStopLeavesAFeasiblePlanSoon) {
  Step step;
  for (const bool at_once : {true, false}) {
    PlanOptions options = to_the_end(600);
    const Clock::time_point start = Clock::now();
    bool is_stopped = at_once;
    options.should_stop = [&] {  // Or once a solver is at work.
      is_stopped = is_stopped || SolverSession::process() > 0;
      return is_stopped;
    };
    const Planned planned = step.plan(options);
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
    expect_honest(planned, step.problem());
    EXPECT_EQ(planned.certificate.ended_early, "it was stopped") << at_once;
  }
}

TEST(SolverLimits, ALimitThatDoesNotBindChangesNothing) {
  Step step;
  const Planned free = step.plan({.gap = 0.05, .time_limit_s = 600});
  PlanOptions options{.gap = 0.05, .time_limit_s = 300};
  options.memory_limit_bytes = int64_t{1} << 32;
  options.should_stop = [] { return false; };
  const Planned limited = step.plan(options);
  const Graph& graph = *step.problem().graph;
  EXPECT_EQ(to_string(graph, limited.plan), to_string(graph, free.plan));
  EXPECT_EQ(limited.certificate.objective_s, free.certificate.objective_s);
  EXPECT_EQ(limited.certificate.bound_s, free.certificate.bound_s);
  EXPECT_EQ(limited.certificate.ended_early, "");
}

}  // namespace
}  // namespace olm2
