// The online rules: their choices on sequences short enough to follow by hand, and what holds for
// every rule on any graph.
#include "planner/online.h"

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "milp_graphs.h"
#include "planner/evicted.h"
#include "planner/keep_all.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);
constexpr size_t kHost = index_of(Tier::host);

double farthest_next_read(const Evictable& value) {
  return -static_cast<double>(value.next_read);
}
double remake_per_byte(const Evictable& value) {
  return value.remake_s / static_cast<double>(value.bytes);
}
constexpr OnlineRule kLru{.copies = true, .worth = least_recently_used};
constexpr OnlineRule kFarthest{.copies = true, .worth = farthest_next_read};
constexpr OnlineRule kForgetful{.copies = false, .worth = least_recently_used};
constexpr OnlineRule kRemake{.copies = false, .wants_remake_s = true, .worth = remake_per_byte};
constexpr std::array<const OnlineRule*, 4> kRules = {&kLru, &kFarthest, &kForgetful, &kRemake};

// Three values of one size are made; d needs room, then a is read, then b.  Room is for three.
struct ThreeValues {
  Graph graph;
  Problem problem;
  ThreeValues() {
    const ValueId w = graph.add_source("w", {{16}}, Role::parameter);
    const ValueId a = toy::add(graph, "a", {w}, 16);
    const ValueId b = toy::add(graph, "b", {w}, 16);
    const ValueId c = toy::add(graph, "c", {w}, 16);
    const ValueId d = toy::add(graph, "d", {c}, 16);
    const ValueId e = toy::add(graph, "e", {a, d}, 16);
    const ValueId f = toy::add(graph, "f", {b, e}, 16);
    problem = toy::problem_of(graph, {f});
    problem.budget = {64 + 3 * 64, 1024, 0};
  }
  std::string text(const Plan& plan) const { return to_string(graph, plan); }
  std::string run(const OnlineRule& rule) const {
    const std::optional<Plan> plan = run_online(problem, access_sequence(problem), rule);
    return plan ? text(*plan) : "none";
  }
};

TEST(Online, TheLeastRecentlyUsedLeavesEvenIfItIsReadNext) {
  EXPECT_EQ(ThreeValues().run(kLru),
            "plan\n"
            "compute a\n"
            "compute b\n"
            "compute c\n"
            "copy a [0,64) device host\n"
            "drop a [0,64) device\n"
            "compute d\n"
            "drop c [0,64) device\n"
            "copy a [0,64) host device\n"
            "copy b [0,64) device host\n"
            "drop b [0,64) device\n"
            "compute e\n"
            "drop a [0,64) device\n"
            "drop a [0,64) host\n"
            "drop d [0,64) device\n"
            "copy b [0,64) host device\n"
            "compute f\n"
            "drop b [0,64) device\n"
            "drop b [0,64) host\n"
            "drop e [0,64) device\n");
}

TEST(Online, WhatIsReadLastLeavesOnceAndComesBackOnce) {
  EXPECT_EQ(ThreeValues().run(kFarthest),
            "plan\n"
            "compute a\n"
            "compute b\n"
            "compute c\n"
            "copy b [0,64) device host\n"
            "drop b [0,64) device\n"
            "compute d\n"
            "drop c [0,64) device\n"
            "compute e\n"
            "drop a [0,64) device\n"
            "drop d [0,64) device\n"
            "copy b [0,64) host device\n"
            "compute f\n"
            "drop b [0,64) device\n"
            "drop b [0,64) host\n"
            "drop e [0,64) device\n");
}

TEST(Online, WithoutAHostWhatLeavesIsMadeAgain) {
  ThreeValues three;
  three.problem.budget[kHost] = 0;
  EXPECT_EQ(three.run(kFarthest),
            "plan\n"
            "compute a\n"
            "compute b\n"
            "compute c\n"
            "drop b [0,64) device\n"
            "compute d\n"
            "drop c [0,64) device\n"
            "compute e\n"
            "drop a [0,64) device\n"
            "drop d [0,64) device\n"
            "compute b\n"
            "compute f\n"
            "drop b [0,64) device\n"
            "drop e [0,64) device\n");
}

TEST(Online, AFullHostMakesTheRestBeMadeAgain) {
  ThreeValues three;
  three.problem.budget[kHost] = 64;
  const std::optional<Plan> plan = run_online(three.problem, access_sequence(three.problem), kLru);
  ASSERT_TRUE(plan.has_value());
  // a came back, so its copy gives way to b.
  EXPECT_LE(replay(three.problem, *plan).peak[kHost], 64);
  EXPECT_NE(three.text(*plan).find("drop a [0,64) host\ncopy b [0,64) device host"),
            std::string::npos);
}

TEST(Dtr, ForgetsTheCheapOneAlthoughAnotherIsOlder) {
  ThreeValues three;
  three.problem.seconds[0] = 10;
  const std::string text = three.text(find_policy("dtr").plan(three.problem, {}).plan);
  EXPECT_NE(text.find("compute c\ndrop b [0,64) device\ncompute d"), std::string::npos) << text;
}

TEST(Dtr, CountsWhatElseIsGone) {
  // u <- v <- w and z: once v is gone, making w again needs v too, and making u spared nothing.
  Graph graph;
  const ValueId p = graph.add_source("p", {{16}}, Role::parameter);
  const ValueId u = toy::add(graph, "u", {p}, 16);
  const ValueId v = toy::add(graph, "v", {u}, 16);
  const ValueId w = toy::add(graph, "w", {v}, 16);
  const ValueId z = toy::add(graph, "z", {p}, 16);
  toy::add(graph, "end", {u, v, w, z}, 16);
  Problem problem = toy::problem_of(graph, {graph.find("end")});
  problem.seconds = {1, 2, 4, 8, 16};
  EvictedValues evicted(problem);
  EXPECT_EQ(evicted.remake_seconds(w), 4);
  evicted.leave(v, true);
  EXPECT_EQ(evicted.remake_seconds(w), 4 + 2);
  EXPECT_EQ(evicted.remake_seconds(u), 1 + 2);
  EXPECT_EQ(evicted.remake_seconds(z), 8);
  evicted.leave(w, true);
  EXPECT_EQ(evicted.remake_seconds(u), 1 + 2 + 4);
  evicted.come_back(v);
  EXPECT_EQ(evicted.remake_seconds(u), 1);
}

// Nodes of one output each that read one to three earlier values; some of equal size.
struct RandomGraph {
  Graph graph;
  Problem problem;
  RandomGraph(uint64_t seed, bool equal_sizes) {
    std::mt19937_64 random(seed);
    const auto below = [&](size_t limit) { return random() % limit; };
    std::vector<ValueId> values = {graph.add_source("w", {{16}}, Role::parameter)};
    const size_t nodes = 8 + below(25);
    for (size_t n = 0; n < nodes; ++n) {
      std::set<ValueId> inputs;
      for (size_t k = 1 + below(3); k-- > 0;) inputs.insert(values[below(values.size())]);
      const auto elements = static_cast<int64_t>(equal_sizes ? 16 : 1 + below(100));
      values.push_back(toy::add(graph, "n" + std::to_string(n), {inputs.begin(), inputs.end()},
                                elements, !equal_sizes && below(2) == 0));
    }
    problem = toy::problem_of(graph, {values.back()});
    for (double& seconds : problem.seconds) seconds = 1 + static_cast<double>(below(9));
  }
};

size_t copies_in(const Plan& plan) {
  return static_cast<size_t>(std::ranges::count_if(plan.steps, [](const Step& step) {
    return step.kind == Step::Kind::copy && step.to == Tier::device;
  }));
}

// Belady 1966: with pages of one size, no other choice misses less often.  (What is sent away is
// another matter, and so is what can be made again: hence copies in, and a host without end.)
TEST(Belady, NeverFetchesMoreOftenThanLru) {
  size_t fewer = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomGraph random(seed, true);
    const AccessSequence sequence = access_sequence(random.problem);
    for (const int64_t pages : {4, 5, 6, 8}) {  // A node reads three and makes one.
      random.problem.budget[kDevice] = 64 + 64 * pages;
      const std::optional<Plan> lru = run_online(random.problem, sequence, kLru);
      const std::optional<Plan> belady = run_online(random.problem, sequence, kFarthest);
      ASSERT_TRUE(lru && belady) << seed;
      EXPECT_LE(copies_in(*belady), copies_in(*lru)) << seed << " " << pages;
      if (copies_in(*belady) < copies_in(*lru)) ++fewer;
    }
  }
  EXPECT_GT(fewer, 100U);
}

void expect_plans_within(Problem problem, const std::string& where) {
  const AccessSequence sequence = access_sequence(problem);
  const int64_t least = proven_minimum(problem).bytes;
  const int64_t most = replay(problem, keep_all_plan(problem)).peak[kDevice];
  for (const int64_t host : {int64_t{0}, int64_t{640}, int64_t{1} << 40}) {
    problem.budget[kHost] = host;
    for (size_t r = 0; r < kRules.size(); ++r) {
      bool was_possible = false;
      for (int64_t part = 0; part <= 4; ++part) {
        problem.budget[kDevice] = least + (most - least) * part / 4;
        const std::optional<Plan> plan = run_online(problem, sequence, *kRules[r]);
        EXPECT_TRUE(plan || part < 4) << where << " rule " << r;
        if (!plan) continue;
        was_possible = true;
        const BytesPerTier peak = replay(problem, *plan).peak;
        EXPECT_LE(peak[kDevice], problem.budget[kDevice]) << where << " rule " << r;
        EXPECT_LE(peak[kHost], host) << where << " rule " << r;
        EXPECT_EQ(run_online(problem, sequence, *kRules[r])->steps, plan->steps);
      }
      EXPECT_TRUE(was_possible);
    }
  }
}

TEST(Online, PlansReplayWithinEveryBudgetTheyAreMadeFor) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const RandomGraph random(seed, false);
    expect_plans_within(random.problem, "graph " + std::to_string(seed));
    const toy::Training toy = toy::training(1 + static_cast<int>(seed % 6), seed);
    expect_plans_within(toy::problem_of(toy.graph, toy.results), "toy " + std::to_string(seed));
  }
}

TEST(Online, PlansForGpt2ReplayWithinEveryBudget) {
  const Program program = gpt_step({.layers = 3, .dropout = 0.1});
  Problem problem = problem_of(program, {.flops_per_s = 1e9, .bytes_per_s = 2e8});
  for (size_t n = 0; n < problem.workspace.size(); n += 2) problem.workspace[n] = 1000;
  add_links(problem, 4e8, 1.0, 0);
  expect_plans_within(problem, "gpt2");
}

// A definition of e* that only reads the graph, to compare the bookkeeping with.
class PlainNeighbourhood {
 public:
  PlainNeighbourhood(const Problem& problem, const std::set<ValueId>& evicted,
                     const std::set<ValueId>& read_again)
      : problem_(problem), evicted_(evicted), read_again_(read_again) {}
  double seconds(ValueId value) {
    nodes_ = {problem_.graph->value(value).producer};
    add_parents(value);
    for (const ValueId child : children(value)) add_children(child);
    double sum = 0;
    for (const NodeId node : nodes_) sum += problem_.seconds[static_cast<size_t>(node.index)];
    return sum;
  }

 private:
  std::vector<ValueId> children(ValueId value) const {
    std::vector<ValueId> result;
    for (const Node& node : problem_.graph->nodes()) {
      if (std::ranges::count(node.inputs, value) == 0) continue;
      result.insert(result.end(), node.outputs.begin(), node.outputs.end());
    }
    return result;
  }
  bool counts(ValueId value) const {
    if (!evicted_.contains(value)) return false;
    return read_again_.contains(value) ||
           std::ranges::any_of(children(value), [&](ValueId v) { return counts(v); });
  }
  void add_parents(ValueId value) {
    for (const ValueId input : problem_.graph->node(problem_.graph->value(value).producer).inputs) {
      if (!evicted_.contains(input)) continue;
      nodes_.insert(problem_.graph->value(input).producer);
      add_parents(input);
    }
  }
  void add_children(ValueId value) {
    if (!counts(value)) return;
    nodes_.insert(problem_.graph->value(value).producer);
    for (const ValueId child : children(value)) add_children(child);
  }

  const Problem& problem_;
  const std::set<ValueId>& evicted_;
  const std::set<ValueId>& read_again_;
  std::set<NodeId> nodes_;
};

TEST(Dtr, NeighbourhoodsAreThoseOfTheDefinition) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RandomGraph random(seed, true);
    std::mt19937_64 numbers(seed);
    EvictedValues evicted(random.problem);
    std::set<ValueId> gone;
    std::set<ValueId> read_again;
    const size_t nodes = random.graph.nodes().size();
    for (size_t step = 0; step < 2 * nodes; ++step) {
      // As in a run: an evicted value comes back only after what it is made from.
      const ValueId value = random.graph.nodes()[numbers() % nodes].outputs[0];
      const auto& inputs = random.graph.node(random.graph.value(value).producer).inputs;
      const bool can_return =
          std::ranges::none_of(inputs, [&](ValueId input) { return gone.contains(input); });
      if (!gone.contains(value)) {
        const bool again = numbers() % 2 == 0;
        gone.insert(value);
        if (again) read_again.insert(value);
        evicted.leave(value, again);
      } else if (can_return) {
        gone.erase(value);
        read_again.erase(value);
        evicted.come_back(value);
      }
      const ValueId asked = random.graph.nodes()[numbers() % nodes].outputs[0];
      if (gone.contains(asked)) continue;
      EXPECT_EQ(evicted.remake_seconds(asked),
                PlainNeighbourhood(random.problem, gone, read_again).seconds(asked))
          << "graph " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace olm2
