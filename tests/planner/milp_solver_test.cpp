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

namespace olm2 {
namespace {

// Items with weights and prices; at least `load` must be carried, as cheaply as possible.
struct Covering {
  std::vector<double> weights;
  std::vector<double> prices;
  double load = 0;
};

LinearModel model_of(const Covering& covering) {
  LinearModel model;
  Row row{.terms = {}, .lower = covering.load, .upper = kUnbounded};
  for (size_t i = 0; i < covering.weights.size(); ++i) {
    const int column =
        model.add({.cost = covering.prices[i], .lower = 0, .upper = 1, .integer = true});
    row.terms.push_back({.column = column, .factor = covering.weights[i]});
  }
  model.rows.push_back(row);
  return model;
}

double cheapest_by_trying_all(const Covering& covering) {
  double best = kUnbounded;
  for (uint32_t set = 0; set < (1U << covering.weights.size()); ++set) {
    double weight = 0;
    double price = 0;
    for (size_t i = 0; i < covering.weights.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      weight += covering.weights[i];
      price += covering.prices[i];
    }
    if (weight >= covering.load) best = std::min(best, price);
  }
  return best;
}

Covering random_covering(uint64_t seed) {
  Covering covering;
  uint64_t state = seed;
  const auto next = [&] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(1 + (state >> 33U) % 97);
  };
  for (int i = 0; i < 9; ++i) {
    covering.weights.push_back(next());
    covering.prices.push_back(next());
    covering.load += covering.weights.back() * 0.6;
  }
  return covering;
}

SolverRequest exact() {
  return {.gap = 0, .time_limit_s = 60};
}

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

// Every item: keeps any load that can be kept, at the highest price.
std::vector<double> all_items(const Covering& covering) {
  return std::vector<double>(covering.weights.size(), 1.0);
}

double price(const Covering& covering, std::span<const double> x) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += covering.prices[i] * x[i];
  return sum;
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

// Far too hard to prove: every sum of weights is even, and the load is odd.
LinearModel endless(int items) {
  LinearModel model;
  Row row{.terms = {}, .lower = 0, .upper = kUnbounded};
  double sum = 0;
  for (int i = 0; i < items; ++i) {
    const double weight = 2.0 * (1000 + i * i % 101);
    const int column = model.add({.cost = 0.731 * weight, .lower = 0, .upper = 1, .integer = true});
    row.terms.push_back({column, weight});
    sum += weight;
  }
  row.lower = 2 * std::floor(sum / 4) + 1;
  model.rows.push_back(row);
  return model;
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
