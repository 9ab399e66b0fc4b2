#include "core/autograd.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/op.h"
#include "ops/ops.h"
#include "tests/ops/reference_runner.h"

namespace olm2 {
namespace {

using Numbers = std::vector<double>;
const ValueType kScalar{{1}, DType::f64};

// x -> w x, so that slopes are numbers one can see.
ValueId times(Graph& graph, std::string_view name, ValueId x, ValueId weight) {
  return linear(graph, name, x, weight, {});
}

ValueId weight_of(Graph& graph, std::string_view name) {
  return graph.add_source(std::string(name), {{1, 1}, DType::f64}, Role::input);
}

template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Differentiate, SumsTheContributionsOfAllReaders) {
  Graph graph;
  const ValueId x = graph.add_source("x", kScalar, Role::parameter);
  const ValueId a = times(graph, "a", x, weight_of(graph, "wa"));
  const ValueId b = times(graph, "b", x, weight_of(graph, "wb"));
  const ValueId c = times(graph, "c", x, weight_of(graph, "wc"));
  const ValueId loss = add(graph, "loss", add(graph, "ab", a, b), c);
  const std::vector<GradTarget> targets{{.value = x}};
  const ValueId gradient = differentiate(graph, loss, targets, 10)[0];
  ReferenceRunner runner(graph);
  runner.set("x", Numbers{3});
  runner.set("wa", Numbers{2});
  runner.set("wb", Numbers{5});
  runner.set("wc", Numbers{-1});
  runner.run();
  EXPECT_EQ(runner.get(gradient), Numbers{60});
  // Nothing but the seed and one product per reader, each adding to the one before.
  size_t backward = 0;
  for (const Node& node : graph.nodes()) backward += node.phase == Phase::backward ? 1 : 0;
  EXPECT_EQ(backward, 4U);
}

TEST(Differentiate, CountsAValueReadTwiceByOneNode) {
  Graph graph;
  const ValueId x = graph.add_source("x", kScalar, Role::parameter);
  const ValueId y = times(graph, "y", x, weight_of(graph, "w"));
  const ValueId loss = add(graph, "loss", y, y);
  const ValueId square_x = graph.add_source("s", {{1, 1}, DType::f64}, Role::parameter);
  const ValueId square = linear(graph, "square", square_x, square_x, {});
  const std::vector<GradTarget> by_x{{.value = x}};
  const ValueId gradient = differentiate(graph, loss, by_x)[0];
  const std::vector<GradTarget> by_s{{.value = square_x}};
  const ValueId square_gradient = differentiate(graph, square, by_s)[0];
  ReferenceRunner runner(graph);
  runner.set(square_x, Numbers{3});
  runner.set("w", Numbers{7});
  runner.run();
  EXPECT_EQ(runner.get(gradient), Numbers{14});
  EXPECT_EQ(runner.get(square_gradient), Numbers{6});
}

TEST(Differentiate, StoresEveryPartialSumAtTheHome) {
  Graph graph;
  const ValueId x = graph.add_source("x", kScalar, Role::parameter);
  const ValueId home = graph.add_source("x.grad", kScalar, Role::gradient);
  const ValueId a = times(graph, "a", x, weight_of(graph, "wa"));
  const ValueId b = times(graph, "b", x, weight_of(graph, "wb"));
  const ValueId loss = add(graph, "loss", a, b);
  const std::vector<GradTarget> targets{{.value = x, .home = home}};
  const ValueId gradient = differentiate(graph, loss, targets)[0];
  EXPECT_EQ(graph.newest(home), gradient);
  EXPECT_EQ(graph.value(gradient).role, Role::gradient);
  const Node& last = graph.node(graph.value(gradient).producer);
  ASSERT_EQ(last.inputs.size(), 3U);
  const ValueId first = last.inputs[2];
  EXPECT_EQ(graph.value(first).home, home);
  EXPECT_NE(first, home);  // Written, not added to what the home held.
}

TEST(Differentiate, AddsToWhatTheHomeHolds) {
  Graph graph;
  const ValueId x = graph.add_source("x", kScalar, Role::parameter);
  const ValueId home = graph.add_source("x.grad", kScalar, Role::gradient);
  const ValueId loss = times(graph, "loss", x, weight_of(graph, "w"));
  const std::vector<GradTarget> targets{{.value = x, .home = home, .accumulate = true}};
  const ValueId gradient = differentiate(graph, loss, targets, 0.5)[0];
  ReferenceRunner runner(graph);
  runner.set("w", Numbers{8});
  runner.set(home, Numbers{100});
  for (const double expected : {104.0, 108.0, 112.0}) {
    runner.run();
    EXPECT_EQ(runner.get(gradient), Numbers{expected});
    runner.advance_state();
  }
}

TEST(Differentiate, GivesBackwardNodesTheScopeOfTheirForwardNode) {
  Graph graph;
  const ValueId x = graph.add_source("x", kScalar, Role::parameter);
  ValueId y = x;
  for (const std::string_view layer : {"h.0", "h.1"}) {
    const Scope scope(graph, layer);
    y = gelu(graph, "gelu", y);
  }
  const std::vector<GradTarget> targets{{.value = x}};
  differentiate(graph, y, targets);
  std::vector<std::string> backward;
  for (const Node& node : graph.nodes()) {
    if (node.phase != Phase::backward) continue;
    backward.push_back(node.name + " in " + std::to_string(node.scope));
  }
  EXPECT_EQ(backward, (std::vector<std::string>{"h.1.gelu.seed in -1", "h.1.gelu.grad in 1",
                                                "h.0.gelu.grad in 0"}));
  EXPECT_EQ(graph.phase(), Phase::forward);
  EXPECT_EQ(graph.node(graph.value(gelu(graph, "after", x)).producer).scope, -1);
}

TEST(Differentiate, MakesNoNodeForWhatNobodyWants) {
  Graph graph;
  const ValueId x = graph.add_source("x", kScalar, Role::parameter);
  const ValueId weight = weight_of(graph, "w");
  const ValueId loss = times(graph, "loss", gelu(graph, "frozen", x), weight);
  const std::vector<GradTarget> targets{{.value = weight}};
  differentiate(graph, loss, targets);
  for (const Node& node : graph.nodes()) {
    EXPECT_NE(node.op->name, "gelu_grad");
    EXPECT_NE(node.op->name, "linear_grad_input");
  }
}

TEST(Differentiate, RefusesALossOfSeveralElements) {
  Graph graph;
  const ValueId x = graph.add_source("x", {{2}, DType::f64}, Role::parameter);
  const ValueId y = gelu(graph, "y", x);
  const std::vector<GradTarget> targets{{.value = x}};
  EXPECT_EQ(refusal([&] { differentiate(graph, y, targets); }),
            "differentiate: y is f64(2), expected a loss of one element");
}

TEST(Differentiate, RefusesALossThatDoesNotDependOnATarget) {
  for (const bool accumulate : {false, true}) {
    Graph graph;
    const ValueId x = graph.add_source("x", kScalar, Role::parameter);
    const ValueId other = graph.add_source("other", kScalar, Role::parameter);
    const ValueId home = graph.add_source("other.grad", kScalar, Role::gradient);
    const ValueId y = gelu(graph, "y", x);
    const std::vector<GradTarget> targets{{.value = x},
                                          {.value = other, .home = home, .accumulate = accumulate}};
    EXPECT_EQ(refusal([&] { differentiate(graph, y, targets); }),
              "differentiate: the loss does not depend on other");
  }
}

TEST(Differentiate, RefusesAnOpWithoutGradient) {
  Graph graph;
  const ValueId x = graph.add_source("x", kScalar, Role::parameter);
  const ValueId norm = global_norm(graph, "norm", {x});
  const std::vector<GradTarget> targets{{.value = x}};
  EXPECT_EQ(refusal([&] { differentiate(graph, norm, targets); }),
            "differentiate: op global_norm of norm has no gradient");
}

TEST(Differentiate, RefusesTheGradientOfAStatistic) {
  Graph graph;
  const ValueId logits = graph.add_source("logits", {{1, 3}, DType::f64}, Role::parameter);
  const ValueId targets_id = graph.add_source("targets", {{1}, DType::i32}, Role::input);
  softmax_cross_entropy(graph, "loss", logits, targets_id, 3);
  const std::vector<GradTarget> targets{{.value = logits}};
  EXPECT_EQ(refusal([&] { differentiate(graph, graph.find("loss.1"), targets); }),
            "softmax_cross_entropy of loss: output 1 is a statistic of the gradient rule and has "
            "no gradient");
}

}  // namespace
}  // namespace olm2
