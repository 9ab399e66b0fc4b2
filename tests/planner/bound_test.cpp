#include "planner/bound.h"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "planner/planner.h"
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
  double base = 0;
  for (const double seconds : problem.seconds) base += seconds;
  EXPECT_GE(bound.seconds, base * (1 - kRounding)) << "seed " << seed;
  if (*fastest <= base) return;
  ++tally.above_base;
}

TEST(TurnBound, IsNeverAboveTheOptimumOfTheCompleteRecomputeSpace) {
  Tally tally;
  for (uint64_t seed = 0; seed < 200; ++seed) expect_below_the_optimum(seed, tally);
  EXPECT_GE(tally.above_base, 30) << "recomputing is hardly ever needed here";
}

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
  const Graph graph = fork_graph();
  const Problem problem = toy::problem_of(graph, {graph.find("end")});
  const TurnBound bound = turn_bound(problem, true, true, kTimeLimit_s);
  EXPECT_TRUE(bound.fits);
  EXPECT_EQ(bound.seconds, 4);
  EXPECT_EQ(bound.seconds_per_byte, 0);
}

TEST(TurnBound, SaysWhenNoPlanFits) {
  const Graph graph = fork_graph();
  Problem problem = toy::problem_of(graph, {graph.find("end")});
  problem.budget[0] = proven_minimum(problem).bytes;
  EXPECT_TRUE(turn_bound(problem, true, true, kTimeLimit_s).fits);
  problem.budget[0] -= 1;
  EXPECT_FALSE(turn_bound(problem, true, true, kTimeLimit_s).fits);
}

}  // namespace
}  // namespace olm2
