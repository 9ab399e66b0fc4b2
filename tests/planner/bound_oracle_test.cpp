// The bound against searches of everything a plan may do.
#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "copy_oracle.h"
#include "planner/bound.h"
#include "planner/bound_groups.h"
#include "planner/planner.h"
#include "planner/solver_process.h"
#include "random_blocks.h"
#include "recompute_oracle.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

constexpr double kTimeLimit_s = 60;
constexpr double kRounding = 1e-9;

// A training step of few nodes: forward nodes that read the one before and perhaps an earlier one,
// backward nodes that read what came down and some of what their forward nodes read and made.
class RandomStep {
 public:
  explicit RandomStep(uint64_t seed) : random_(seed) {
    const int forward = below(2) + 3;
    for (int i = 0; i < forward; ++i) add_forward();
    graph_.set_phase(Phase::backward);
    ValueId came_down = made_.back();
    for (int i = forward; i-- > 0;) came_down = add_backward(i, came_down);
    if (below(2) == 0) {
      const ValueId w = graph_.find("w");
      graph_.set_phase(Phase::update);
      graph_.set_home(toy::add(graph_, "update", {w, came_down}, 3, true), w);
    }
    problem_ = toy::problem_of(graph_, {came_down});
    for (double& seconds : problem_.seconds) seconds = 1 + below(9);
    if (below(2) == 0) {
      for (const double seconds : problem_.seconds) {
        problem_.again_seconds.push_back(seconds + below(4));
      }
    }
    for (int64_t& bytes : problem_.workspace) bytes = below(3) == 0 ? 64 * below(3) : 0;
  }

  // Some blocks more than what one node needs.
  Problem with_budget(int64_t blocks) const {
    Problem problem = problem_;
    problem.budget[0] = proven_minimum(problem).bytes + 64 * blocks;
    return problem;
  }
  const Graph& graph() const { return graph_; }
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }

 private:
  int64_t elements() { return 1 + below(80); }

  void add_forward() {
    if (made_.empty()) {
      graph_.add_source("w", {{3}}, Role::parameter);
      const ValueId x = graph_.add_source("x", {{elements()}}, Role::input);
      reads_.push_back({x, graph_.find("w")});
    } else {
      reads_.push_back({made_.back()});
      if (below(5) < 2)
        reads_.back().push_back(made_[static_cast<size_t>(below(static_cast<int>(made_.size())))]);
      if (reads_.back().size() == 2 && reads_.back()[0] == reads_.back()[1])
        reads_.back().pop_back();
    }
    const bool in_place = below(3) == 0;
    const int64_t size =
        in_place && below(2) == 0 ? graph_.type(reads_.back()[0]).shape[0] : elements();
    made_.push_back(
        toy::add(graph_, "f" + std::to_string(made_.size()), reads_.back(), size, in_place));
  }

  ValueId add_backward(int i, ValueId came_down) {
    std::vector<ValueId> inputs = reads_[static_cast<size_t>(i)];
    std::erase_if(inputs, [&](ValueId) { return below(3) == 0; });  // Some are never read again.
    if (std::ranges::find(inputs, came_down) == inputs.end()) inputs.push_back(came_down);
    const ValueId own = made_[static_cast<size_t>(i)];
    if (own != came_down && below(2) == 0) inputs.push_back(own);
    const bool in_place = below(3) == 0;
    const int64_t size = in_place ? graph_.type(came_down).shape[0] : elements();
    return toy::add(graph_, "b" + std::to_string(i), inputs, size, in_place);
  }

  std::mt19937_64 random_;
  Graph graph_;
  Problem problem_;
  std::vector<ValueId> made_;
  std::vector<std::vector<ValueId>> reads_;
};

double sum_of(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

struct Tally {
  int cases = 0;
  int above_base = 0;  // Cases whose optimum is slower than keeping everything.
  int met = 0;         // Of these, cases whose bound is the optimum.
};

void expect_below(const Problem& problem, int fastest, const std::string& which, Tally& tally) {
  const TurnBound bound = turn_bound(problem, true, false, kTimeLimit_s);
  EXPECT_TRUE(bound.fits) << which << ": a plan takes " << fastest << " s";
  EXPECT_LE(bound.seconds, fastest * (1 + kRounding)) << which;
  const double base = sum_of(problem.seconds);
  EXPECT_GE(bound.seconds, base * (1 - kRounding)) << which;
  ++tally.cases;
  if (fastest > base) ++tally.above_base;
  if (fastest > base && bound.seconds > fastest - 1e-3) ++tally.met;
}

// The smallest budgets that any plan fits, one above the other.
void expect_below_the_optimum(uint64_t seed, Tally& tally) {
  const RandomStep step(seed);
  int tried = 0;
  for (int64_t blocks = 0; tried < 2 && blocks < 40; ++blocks) {
    const Problem problem = step.with_budget(blocks);
    const std::optional<int> fastest = oracle::fastest_without_copies(problem);
    if (!fastest) continue;
    ++tried;
    const std::string which = "seed " + std::to_string(seed) + ", " + std::to_string(blocks);
    expect_below(problem, *fastest, which, tally);
  }
}

TEST(TurnBoundOracle, IsNeverAboveTheOptimumOfTheCompleteRecomputeSpace) {
  const SolverSession session;
  Tally tally;
  for (uint64_t seed = 0; seed < 100; ++seed) expect_below_the_optimum(seed, tally);
  EXPECT_GE(tally.cases, 190);
  EXPECT_GE(tally.above_base, 50) << "recomputing is hardly ever needed here";
  EXPECT_GE(tally.met, 10);
}

// Three layers of two like nodes each, and their backward nodes.
class LikeLayers {
 public:
  explicit LikeLayers(uint64_t seed) : random_(seed) {
    for (int64_t& size : sizes_) size = 16 * (1 + below(4));
    const bool skips = below(2) == 0;
    const bool again_a = below(2) == 0;
    const bool again_x = below(2) == 0;
    std::vector<ValueId> x = {graph_.add_source("x", {{16}}, Role::input)};
    std::vector<ValueId> a;
    for (int i = 0; i < 3; ++i) {
      const Scope scope(graph_, "h." + std::to_string(i));
      a.push_back(toy::add(graph_, "a", {x.back()}, sizes_[0]));
      std::vector<ValueId> inputs = {a.back()};
      if (skips) inputs.push_back(x.back());
      x.push_back(toy::add(graph_, "x", inputs, sizes_[1]));
    }
    graph_.set_phase(Phase::backward);
    ValueId last = toy::add(graph_, "loss", {x.back()}, sizes_[2]);
    for (size_t i = 3; i-- > 0;) {
      std::vector<ValueId> inputs = {last};
      if (again_a) inputs.push_back(a[i]);
      if (again_x) inputs.push_back(x[i]);
      last = toy::add(graph_, "b" + std::to_string(i), inputs, sizes_[3]);
    }
    problem_ = toy::problem_of(graph_, {last});
    const int seconds_a = 1 + below(9);
    const int seconds_x = 1 + below(9);
    for (size_t n = 0; n < 6; ++n) problem_.seconds[n] = n % 2 == 0 ? seconds_a : seconds_x;
    problem_.again_seconds = problem_.seconds;
    for (size_t n = 0; n < 6; ++n) problem_.again_seconds[n] += n % 2 == 0 ? 2 : 1;
  }
  Problem with_budget(int64_t blocks) const {
    Problem problem = problem_;
    problem.budget[0] = proven_minimum(problem).bytes + 64 * blocks;
    return problem;
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }

  std::mt19937_64 random_;
  Graph graph_;
  Problem problem_;
  std::array<int64_t, 4> sizes_{};
};

// What whole runs summed over like layers say at one cut; more only if no plan fits.
double summed_bound(const Problem& problem, size_t turn) {
  const TurnModel model = build_turn(
      problem, {.turn = {static_cast<int32_t>(turn)}, .may_recompute = true, .may_swap = false});
  if (model.is_impossible) return 1e9;
  const WholeRuns whole = with_whole_runs(problem, model, 0);
  const Solution solution = solve(whole.linear, {.gap = 0, .time_limit_s = kTimeLimit_s});
  if (solution.verdict == Solution::Verdict::infeasible) return 1e9;
  return solution.bound * model.unit_s;
}

TEST(TurnBoundOracle, WholeRunsOfLikeLayersAreNeverAboveTheOptimum) {
  const SolverSession session;
  Tally tally;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const LikeLayers layers(seed);
    for (int64_t blocks = 0; blocks < 6; ++blocks) {
      const Problem problem = layers.with_budget(blocks);
      const std::optional<int> fastest = oracle::fastest_without_copies(problem);
      if (!fastest) continue;
      double best = 0;
      for (size_t n = 0; n < problem.seconds.size(); ++n) {
        const double bound = summed_bound(problem, n);
        EXPECT_LE(bound, *fastest + 1e-5) << "seed " << seed << ", " << blocks << ", cut " << n;
        best = std::max(best, bound);
      }
      if (*fastest > sum_of(problem.seconds)) ++tally.above_base;
      if (*fastest > sum_of(problem.seconds) && best > *fastest - 1e-3) ++tally.met;
    }
  }
  EXPECT_GE(tally.above_base, 50);
  EXPECT_GE(tally.met, 10);
}

TEST(TurnBoundOracleSlow, IsNeverAboveTheOptimumOfTheCompleteRecomputeSpace) {
  const SolverSession session;
  Tally tally;
  for (uint64_t seed = 1000; seed < 3000; ++seed) expect_below_the_optimum(seed, tally);
  EXPECT_GE(tally.cases, 3900);
  EXPECT_GE(tally.above_base, 1000);
  EXPECT_GE(tally.met, 200);
}

void expect_below_the_optimum_with_copies(uint64_t seed, Tally& tally) {
  const RandomBlocks blocks(seed);
  const Problem& problem = blocks.problem();
  const std::optional<int> fastest = oracle::fastest_with_copies(problem);
  if (!fastest) return;
  const TurnBound bound = turn_bound(problem, true, true, kTimeLimit_s);
  EXPECT_TRUE(bound.fits) << "seed " << seed << ": a plan takes " << *fastest << " s";
  EXPECT_LE(bound.seconds, *fastest * (1 + kRounding)) << "seed " << seed;
  ++tally.cases;
  if (*fastest > sum_of(problem.seconds)) ++tally.above_base;
}

TEST(TurnBoundOracle, IsNeverAboveTheOptimumWithCopies) {
  const SolverSession session;
  Tally tally;
  for (uint64_t seed = 0; seed < 16; ++seed) expect_below_the_optimum_with_copies(seed, tally);
  EXPECT_GE(tally.above_base, 2);
}

TEST(TurnBoundOracleSlow, IsNeverAboveTheOptimumWithCopies) {
  const SolverSession session;
  Tally tally;
  for (uint64_t seed = 0; seed < 400; ++seed) expect_below_the_optimum_with_copies(seed, tally);
  EXPECT_GE(tally.above_base, 50);
}

TEST(TurnBoundOracle, CopiesAreOfUseToTheSearchAndNeverHarmIt) {
  const SolverSession session;
  int faster = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RandomBlocks blocks(seed);
    const std::optional<int> without = oracle::fastest_without_copies(blocks.problem());
    if (!without) continue;
    const std::optional<int> with = oracle::fastest_with_copies(blocks.problem());
    ASSERT_TRUE(with.has_value());
    EXPECT_LE(*with, *without) << "seed " << seed;
    if (*with < *without) ++faster;
  }
  EXPECT_GE(faster, 1);
}

}  // namespace
}  // namespace olm2
