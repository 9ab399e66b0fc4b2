#include <algorithm>
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
  return {.gap = 0, .time_limit_s = 60, .broken_rows = {}, .progress = {}};
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

}  // namespace
}  // namespace olm2
