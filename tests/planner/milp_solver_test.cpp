#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/glpk_solver.h"
#include "tests/planner/coverings.h"

namespace olm2 {
namespace {

TEST(GlpkSolver, EqualsTryingAllSubsets) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Covering covering = random_covering(seed);
    const Solution solution = solve_with_glpk(model_of(covering), exact());
    ASSERT_EQ(solution.verdict, Solution::Verdict::optimal) << seed;
    EXPECT_NEAR(solution.objective, cheapest_by_trying_all(covering), 1e-6) << seed;
    EXPECT_NEAR(solution.bound, solution.objective, 1e-6) << seed;
  }
}

TEST(GlpkSolver, KeepsRowsItIsToldOfLate) {
  const Covering covering = random_covering(7);
  LinearModel model = model_of(covering);
  const Row late = model.rows.front();
  model.rows.clear();
  int told = 0;
  SolverRequest request = exact();
  request.broken_rows = [&](std::span<const double> x) -> std::vector<Row> {
    double load = 0;
    for (const Term& term : late.terms) load += term.factor * x[static_cast<size_t>(term.column)];
    if (load >= late.lower - 1e-6) return {};
    ++told;
    return {late};
  };
  const Solution solution = solve_with_glpk(model, request);
  EXPECT_EQ(told, 1);
  EXPECT_NEAR(solution.objective, cheapest_by_trying_all(covering), 1e-6);
}

TEST(GlpkSolver, StopsAtTheGapWithABoundBelow) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SolverRequest request = exact();
    request.gap = 0.3;
    const Covering covering = random_covering(seed);
    const Solution solution = solve_with_glpk(model_of(covering), request);
    ASSERT_EQ(solution.verdict, Solution::Verdict::optimal);
    const double best = cheapest_by_trying_all(covering);
    EXPECT_GE(solution.objective, best - 1e-6);
    EXPECT_LE(solution.bound, best + 1e-6);
    EXPECT_LE(solution.objective - solution.bound, 0.3 * solution.objective + 1e-6);
  }
}

TEST(GlpkSolver, ProvesThatThereIsNoSolution) {
  Covering covering = random_covering(3);
  covering.load *= 10;
  const Solution solution = solve_with_glpk(model_of(covering), exact());
  EXPECT_EQ(solution.verdict, Solution::Verdict::infeasible);
  EXPECT_TRUE(solution.x.empty());
}

TEST(GlpkSolver, ClaimsNothingWithoutTime) {
  SolverRequest request = exact();
  request.time_limit_s = 0;
  const Solution solution = solve_with_glpk(model_of(random_covering(3)), request);
  EXPECT_EQ(solution.verdict, Solution::Verdict::unknown);
  EXPECT_TRUE(solution.x.empty());
}

TEST(GlpkSolver, GivesUpAfterTheStepsItMayTakeWithTheSameAnswerEachTime) {
  const LinearModel model = endless(40);
  Solution last;
  for (const int64_t steps : {300, 300, 3000}) {
    SolverRequest request = exact();
    request.step_limit = steps;
    const Solution solution = solve_with_glpk(model, request);
    EXPECT_EQ(solution.verdict, Solution::Verdict::feasible);
    EXPECT_FALSE(solution.reason.empty());
    EXPECT_LT(solution.bound, solution.objective);
    if (!last.x.empty() && steps == 300) {
      EXPECT_EQ(solution.x, last.x);
      EXPECT_EQ(solution.bound, last.bound);
    } else if (!last.x.empty()) {
      EXPECT_LE(solution.objective, last.objective);
      EXPECT_GE(solution.bound, last.bound);
    }
    last = solution;
  }
}

TEST(GlpkSolver, ClaimsNothingWithTooFewStepsForTheRelaxation) {
  SolverRequest request = exact();
  request.step_limit = 1;
  const Solution solution = solve_with_glpk(model_of(random_covering(3)), request);
  EXPECT_EQ(solution.verdict, Solution::Verdict::unknown);
  EXPECT_TRUE(solution.x.empty());
}

TEST(GlpkSolver, TurnsErrorsOfTheLibraryIntoOursAndWorksAfterwards) {
  LinearModel broken = model_of(random_covering(3));
  broken.rows.front().terms[1].column = 0;  // Twice the same column.
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    try {
      solve_with_glpk(broken, exact());
      FAIL() << "a repeated column was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("glp_set_mat_row"), std::string::npos)
          << error.what();
    }
    const Covering covering = random_covering(4);
    EXPECT_NEAR(solve_with_glpk(model_of(covering), exact()).objective,
                cheapest_by_trying_all(covering), 1e-6);
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(GlpkSolver, LetsExceptionsOfItsCallerThrough) {
  SolverRequest request = exact();
  request.broken_rows = [](std::span<const double>) -> std::vector<Row> {
    throw std::runtime_error("mine");
  };
  EXPECT_THROW(solve_with_glpk(model_of(random_covering(3)), request), std::runtime_error);

  request = exact();
  request.progress = [](double) { throw std::runtime_error("mine"); };
  bool thrown = false;
  for (uint64_t seed = 1; seed <= 20 && !thrown; ++seed) {  // Some need no branching.
    try {
      solve_with_glpk(model_of(random_covering(seed)), request);
    } catch (const std::runtime_error&) {
      thrown = true;
    }
  }
  EXPECT_TRUE(thrown);
}

TEST(GlpkSolver, TellsEverySolutionThatIsBetterThanTheLast) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Covering covering = random_covering(seed);
    SolverRequest request = exact();
    request.start = all_items(covering);
    std::vector<double> objectives;
    std::vector<double> last;
    request.on_incumbent = [&](double objective, std::span<const double> x, double bound) {
      EXPECT_NEAR(price(covering, x), objective, 1e-6);
      EXPECT_LE(bound, objective);
      EXPECT_TRUE(objectives.empty() || objective < objectives.back());
      objectives.push_back(objective);
      last.assign(x.begin(), x.end());
    };
    const Solution solution = solve_with_glpk(model_of(covering), request);
    ASSERT_FALSE(objectives.empty());
    EXPECT_EQ(objectives.front(), price(covering, request.start)) << seed;
    EXPECT_EQ(objectives.back(), solution.objective);
    EXPECT_EQ(last, solution.x);
    EXPECT_NEAR(solution.objective, cheapest_by_trying_all(covering), 1e-6) << seed;
  }
}

TEST(GlpkSolver, ReturnsAGoodStartWhereThereIsNoTime) {
  const Covering covering = random_covering(3);
  SolverRequest request{.gap = 0, .time_limit_s = 0};
  request.start = all_items(covering);
  const Solution solution = solve_with_glpk(model_of(covering), request);
  EXPECT_EQ(solution.verdict, Solution::Verdict::feasible);
  EXPECT_EQ(solution.x, request.start);
  EXPECT_EQ(solution.bound, -kUnbounded);
  EXPECT_EQ(solution.reason, "time is up");
}

TEST(GlpkSolver, RepairsAStartByItsIntegersAndForgetsOneThatHasNone) {
  const Covering covering = random_covering(5);
  LinearModel model = model_of(covering);
  // A continuous column must equal the last item's.
  const int last = static_cast<int>(covering.weights.size()) - 1;
  const int copy = model.add({.cost = 0, .lower = 0, .upper = 1, .integer = false});
  model.rows.push_back({.terms = {{last, 1.0}, {copy, -1.0}}, .lower = 0, .upper = 0});
  SolverRequest request = exact();
  request.gap = 0.99;  // The first solution will do.
  request.round_first = false;
  request.start = all_items(covering);
  request.start.push_back(std::nan(""));
  const Solution repaired = solve_with_glpk(model, request);
  ASSERT_EQ(repaired.verdict, Solution::Verdict::optimal);
  EXPECT_EQ(repaired.x, std::vector<double>(covering.weights.size() + 1, 1.0));

  request.gap = 0;
  std::ranges::fill(request.start, 0.0);  // Carries nothing.
  const Solution found = solve_with_glpk(model, request);
  EXPECT_NEAR(found.objective, cheapest_by_trying_all(covering), 1e-6);
}

TEST(GlpkSolver, ProvesThatNothingIsBelowACutoffAndFindsWhatIs) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Covering covering = random_covering(seed);
    const double best = cheapest_by_trying_all(covering);
    SolverRequest request = exact();
    request.cutoff = best - 0.5;  // Prices are whole.
    const Solution none = solve_with_glpk(model_of(covering), request);
    EXPECT_EQ(none.verdict, Solution::Verdict::not_better) << seed;
    EXPECT_TRUE(none.x.empty());
    EXPECT_GE(none.bound, request.cutoff - 1e-6);
    EXPECT_LE(none.bound, best + 1e-6);
    request.cutoff = best + 0.5;
    const Solution some = solve_with_glpk(model_of(covering), request);
    ASSERT_EQ(some.verdict, Solution::Verdict::optimal) << seed;
    EXPECT_NEAR(some.objective, best, 1e-6);
  }
}

TEST(GlpkSolver, AnswersTheSameWhateverTheSearchOrder) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Covering covering = random_covering(seed);
    const double best = cheapest_by_trying_all(covering);
    for (const Branching branching :
         {Branching::most_fractional, Branching::driebeck_tomlin, Branching::pseudo_costs}) {
      for (const Backtracking backtracking :
           {Backtracking::depth_first, Backtracking::best_bound, Backtracking::best_projection}) {
        for (const bool cuts : {false, true}) {
          SolverRequest request = exact();
          request.branching = branching;
          request.backtracking = backtracking;
          request.cuts = cuts;
          request.round_first = !cuts;
          EXPECT_NEAR(solve_with_glpk(model_of(covering), request).objective, best, 1e-6) << seed;
        }
      }
    }
  }
}

TEST(GlpkSolver, StopsSoonAfterItIsTold) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  SolverRequest request = exact();
  request.should_stop = [&] { return Clock::now() - start > std::chrono::milliseconds(100); };
  const Solution solution = solve_with_glpk(endless(60), request);
  EXPECT_EQ(solution.verdict, Solution::Verdict::feasible);
  EXPECT_LT(solution.bound, solution.objective);
  EXPECT_GT(solution.bound, 0.9 * solution.objective);
  EXPECT_EQ(solution.reason, "it was stopped");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
}

TEST(GlpkSolver, EndsWithAReasonWhereMemoryIsShort) {
  SolverRequest request = exact();
  request.memory_limit_bytes = 1 << 20;
  LinearModel model = endless(60);
  for (int i = 0; i < 2000; ++i) model.rows.push_back(model.rows.front());
  const Solution solution = solve_with_glpk(model, request);
  EXPECT_EQ(solution.verdict, Solution::Verdict::unknown);
  EXPECT_EQ(solution.reason, "the solver needs more than its 1048576 bytes of memory");
  EXPECT_EQ(solve_with_glpk(model_of(random_covering(3)), exact()).verdict,
            Solution::Verdict::optimal);
}

}  // namespace
}  // namespace olm2
