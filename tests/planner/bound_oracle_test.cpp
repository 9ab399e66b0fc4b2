// The bound against searches of everything a plan may do.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "copy_oracle.h"
#include "planner/bound.h"
#include "planner/planner.h"
#include "planner/solver_process.h"
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
    for (int64_t& bytes : problem_.workspace) bytes = below(3) == 0 ? 64 * below(3) : 0;
  }

  // Between what one node needs and what keeping everything needs.
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
  int above_base = 0;  // Cases whose optimum is slower than keeping everything.
};

void expect_below_the_optimum(uint64_t seed, Tally& tally) {
  RandomStep step(seed);
  const Problem problem = step.with_budget(step.below(8));
  const std::optional<int> fastest = oracle::fastest_without_copies(problem);
  const TurnBound bound = turn_bound(problem, true, false, kTimeLimit_s);
  if (!fastest) return;
  EXPECT_TRUE(bound.fits) << "seed " << seed << ": a plan takes " << *fastest << " s";
  EXPECT_LE(bound.seconds, *fastest * (1 + kRounding)) << "seed " << seed;
  const double base = sum_of(problem.seconds);
  EXPECT_GE(bound.seconds, base * (1 - kRounding)) << "seed " << seed;
  if (*fastest <= base) return;
  ++tally.above_base;
}

TEST(TurnBoundOracle, IsNeverAboveTheOptimumOfTheCompleteRecomputeSpace) {
  const SolverSession session;
  Tally tally;
  for (uint64_t seed = 0; seed < 200; ++seed) expect_below_the_optimum(seed, tally);
  EXPECT_GE(tally.above_base, 30) << "recomputing is hardly ever needed here";
}

TEST(TurnBoundOracleSlow, IsNeverAboveTheOptimumOfTheCompleteRecomputeSpace) {
  const SolverSession session;
  Tally tally;
  for (uint64_t seed = 0; seed < 2000; ++seed) expect_below_the_optimum(seed, tally);
  EXPECT_GE(tally.above_base, 300);
}

// Whole blocks and whole seconds, as the search with copies wants them.
class RandomBlocks {
 public:
  explicit RandomBlocks(uint64_t seed) : random_(seed) {
    ValueId last = graph_.add_source("x", {{16}}, Role::input);
    const int forward = 2 + below(2);
    for (int i = 0; i < forward; ++i) {
      reads_.push_back({last});
      if (i > 1 && below(3) == 0) add_once(reads_.back(), made_[0]);
      last = add_node("f" + std::to_string(i), reads_.back());
      made_.push_back(last);
    }
    graph_.set_phase(Phase::backward);
    for (int i = forward; i-- > 0;) {
      std::vector<ValueId> inputs = reads_[static_cast<size_t>(i)];
      add_once(inputs, last);
      if (below(5) > 0) add_once(inputs, made_[static_cast<size_t>(i)]);
      last = add_node("b" + std::to_string(i), inputs);
    }
    problem_ = toy::problem_of(graph_, {last});
    for (double& seconds : problem_.seconds) seconds = 1 + below(3);
    problem_.budget = {proven_minimum(problem_).bytes + 64 * below(3), 64 * (1 + below(5)), 0};
  }
  const Problem& problem() const { return problem_; }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  static void add_once(std::vector<ValueId>& values, ValueId value) {
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  ValueId add_node(const std::string& name, const std::vector<ValueId>& inputs) {
    return toy::add(graph_, name, inputs, 16 * (1 + below(2)), below(3) == 0);
  }

  std::mt19937_64 random_;
  Graph graph_;
  Problem problem_;
  std::vector<ValueId> made_;
  std::vector<std::vector<ValueId>> reads_;
};

void expect_below_the_optimum_with_copies(uint64_t seed, Tally& tally) {
  const RandomBlocks blocks(seed);
  const Problem& problem = blocks.problem();
  const std::optional<int> fastest = oracle::fastest_with_copies(problem);
  if (!fastest) return;
  const TurnBound bound = turn_bound(problem, true, true, kTimeLimit_s);
  EXPECT_TRUE(bound.fits) << "seed " << seed << ": a plan takes " << *fastest << " s";
  EXPECT_LE(bound.seconds, *fastest * (1 + kRounding)) << "seed " << seed;
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
  for (uint64_t seed = 0; seed < 40; ++seed) {
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
