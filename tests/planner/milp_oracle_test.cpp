// Small random training steps, against searches that share nothing with the integer program.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <queue>
#include <random>
#include <tuple>

#include <gtest/gtest.h>

#include "milp_graphs.h"
#include "planner/milp.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);

// `forward` nodes, each reading the one before and sometimes another one, and as many backward.
struct RandomStep {
  Graph graph;
  std::vector<ValueId> results;
  std::vector<double> seconds;
};
RandomStep random_step(uint64_t seed, int64_t unit_elements) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  const auto size = [&](uint64_t n) { return (1 + below(n)) * unit_elements + 1; };
  const auto forward = static_cast<size_t>(2 + below(3));
  RandomStep step;
  Graph& graph = step.graph;
  std::vector<std::vector<ValueId>> read;
  std::vector<ValueId> made;
  for (size_t i = 0; i < forward; ++i) {
    std::vector<ValueId> inputs;
    if (i > 0) inputs.push_back(made.back());
    if (i > 1 && below(5) < 2) inputs.push_back(made[random() % (i - 1)]);
    read.push_back(inputs);
    made.push_back(toy::add(graph, "f" + std::to_string(i), inputs, size(6)));
  }
  graph.set_phase(Phase::backward);
  ValueId gradient = made.back();
  for (size_t i = forward; i-- > 0;) {
    std::vector<ValueId> inputs = {gradient};
    for (const ValueId value : read[i]) {
      if (value != gradient) inputs.push_back(value);
    }
    if (i + 1 != forward && below(2) == 0) inputs.push_back(made[i]);
    gradient = toy::add(graph, "b" + std::to_string(i), inputs, size(4));
  }
  step.results = {gradient};
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    step.seconds.push_back(static_cast<double>(1 + below(9)));
  }
  return step;
}

// Seconds of the fastest plan that may run anything again at any time and forget anything at any
// time, by Dijkstra's algorithm over (nodes done, values there); infinite if there is none.
double fastest_recomputation(const Problem& problem) {
  using State = std::pair<size_t, uint32_t>;
  const Graph& graph = *problem.graph;
  const size_t nodes = graph.nodes().size();
  const auto bytes_of = [&](uint32_t there) {
    int64_t bytes = 0;
    for (size_t v = 0; v < graph.values().size(); ++v) {
      if ((there >> v & 1U) != 0) bytes += problem.padded_bytes({static_cast<int32_t>(v)});
    }
    return bytes;
  };
  const auto mask_of = [](std::span<const ValueId> values) {
    uint32_t mask = 0;
    for (const ValueId value : values) mask |= 1U << value.index;
    return mask;
  };
  std::map<State, double> best{{{0, 0}, 0.0}};
  using Open = std::pair<double, State>;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  open.push({0.0, {0, 0}});
  const auto reach = [&](double seconds, const State& state) {
    const auto [entry, is_new] = best.try_emplace(state, seconds);
    if (!is_new && entry->second <= seconds) return;
    entry->second = seconds;
    open.push({seconds, state});
  };
  while (!open.empty()) {
    const auto [seconds, state] = open.top();
    open.pop();
    if (seconds > best.at(state)) continue;
    const auto [done, there] = state;
    const bool has_results = (there & mask_of(problem.results)) == mask_of(problem.results);
    if (done == nodes && has_results) return seconds;
    for (size_t n = 0; n <= std::min(done, nodes - 1); ++n) {
      const Node& node = graph.nodes()[n];
      const uint32_t in = mask_of(node.inputs);
      const uint32_t out = mask_of(node.outputs);
      if ((there & in) != in || (there & out) != 0) continue;
      if (bytes_of(there | out) > problem.budget[kDevice]) continue;
      reach(seconds + problem.run_seconds(n, n != done),
            {n == done ? done + 1 : done, there | out});
    }
    for (size_t v = 0; v < graph.values().size(); ++v) {
      if ((there >> v & 1U) != 0) reach(seconds, {done, there & ~(1U << v)});
    }
  }
  return std::numeric_limits<double>::infinity();
}

Problem problem_of(const RandomStep& step, int64_t alignment) {
  Problem problem = toy::problem_of(step.graph, step.results);
  problem.seconds = problem.again_seconds = step.seconds;
  for (size_t n = 0; n < step.seconds.size(); n += 2) problem.again_seconds[n] *= 1.5;
  problem.alignment = alignment;
  problem.budget[index_of(Tier::host)] = 0;
  return problem;
}

double sum(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

PlanOptions exact() {
  PlanOptions options;
  options.gap = 0;
  return options;
}

// Of `graphs` random steps, at a few budgets each, in the space that "auto" chooses.
void expect_equals_exact_search(uint64_t first_seed, int graphs, int64_t unit_elements,
                                int64_t alignment) {
  int with_recomputation = 0;
  for (uint64_t seed = first_seed; seed < first_seed + static_cast<uint64_t>(graphs); ++seed) {
    const RandomStep step = random_step(seed, unit_elements);
    Problem problem = problem_of(step, alignment);
    const int64_t least = proven_minimum(problem).bytes;
    for (const int64_t more : {0, 2, 5}) {
      problem.budget[kDevice] = least + more * unit_elements * 4;
      const double best = fastest_recomputation(problem);
      const PolicyResult result = plan_by_milp(problem, exact(), true, false);
      ASSERT_EQ(std::isfinite(best), result.status != Status::unknown)
          << "seed " << seed << " budget " << problem.budget[kDevice];
      if (!std::isfinite(best)) continue;
      ASSERT_NEAR(computing_seconds(problem, result.plan), best, 1e-9)
          << "seed " << seed << " budget " << problem.budget[kDevice];
      EXPECT_LE(replay(problem, result.plan).peak[kDevice], problem.budget[kDevice]);
      with_recomputation += best > sum(step.seconds) ? 1 : 0;
    }
  }
  EXPECT_GT(with_recomputation, graphs / 4);
}

TEST(MilpOracle, RecomputingEqualsExactSearchOfTheCompleteSpace) {
  expect_equals_exact_search(1, 30, 16, 64);
}

TEST(MilpOracleSlow, RecomputingEqualsExactSearchOfTheCompleteSpace) {
  expect_equals_exact_search(1000, 100, 256, 1);
  expect_equals_exact_search(2000, 100, 262144, 1);
}

}  // namespace
}  // namespace olm2
