// The head with its loss against the two ops it joins, and the place it takes in a graph.
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "core/autograd.h"
#include "core/error.h"
#include "ops/ops.h"
#include "tests/ops/reference_runner.h"

namespace olm2 {
namespace {

using Numbers = std::vector<double>;

constexpr int64_t kRows = 7;
constexpr int64_t kInputs = 3;
constexpr int64_t kColumns = 6;
constexpr int64_t kClasses = 5;

// A head of kRows rows; its loss by the chunked op, or (chunks = 0) by the two ops it joins.
struct Case {
  Graph graph;
  ValueId loss;
  std::vector<ValueId> gradients;  // By x, weight, bias.
};

Case make_case(int64_t chunks, bool transposed, bool accumulate) {
  Case c;
  Graph& g = c.graph;
  const auto source = [&](const char* name, Shape shape, Role role) {
    return g.add_source(name, {std::move(shape), DType::f64}, role);
  };
  const Shape weight_shape = transposed ? Shape{kColumns, kInputs} : Shape{kInputs, kColumns};
  const ValueId x = source("x", {kRows, kInputs}, Role::parameter);
  const ValueId weight = source("weight", weight_shape, Role::parameter);
  const ValueId bias = source("bias", {kColumns}, Role::parameter);
  const ValueId targets = g.add_source("targets", {{kRows}, DType::i32}, Role::input);
  if (chunks > 0) {
    c.loss = linear_cross_entropy(g, "loss",
                                  {.x = x,
                                   .weight = weight,
                                   .targets = targets,
                                   .bias = bias,
                                   .classes = kClasses,
                                   .chunks = chunks,
                                   .transposed = transposed});
  } else {
    const ValueId logits = linear(g, "logits", x, weight, bias, transposed);
    c.loss = softmax_cross_entropy(g, "loss", logits, targets, kClasses);
  }
  std::vector<GradTarget> wrt{{.value = x}};
  for (const auto& [value, name] : {std::pair(weight, "weight.grad"), std::pair(bias, "bias.grad")})
    wrt.push_back({.value = value,
                   .home = source(name, g.type(value).shape, Role::gradient),
                   .accumulate = accumulate});
  c.gradients = differentiate(g, c.loss, wrt, 0.25);
  return c;
}

// The loss and every gradient, one after another.
Numbers run_case(const Case& c, const Numbers& targets) {
  ReferenceRunner runner(c.graph);
  std::mt19937_64 rng(3);
  for (const char* name : {"x", "weight", "bias", "weight.grad", "bias.grad"}) {
    const ValueId id = c.graph.find(name);
    runner.set(id, uniform(element_count(c.graph.type(id).shape), -2, 2, rng));
  }
  runner.set("targets", targets);
  runner.run();
  Numbers all = runner.get(c.loss);
  for (const ValueId gradient : c.gradients) {
    const Numbers more = runner.get(gradient);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

TEST(LinearCrossEntropy, HasTheLossAndGradientsOfTheOpsItJoins) {
  for (const Numbers& targets : {Numbers{0, 4, 2, 2, 1, 3, 0}, Numbers{-1, 4, -1, 2, 1, -7, 0}}) {
    for (const bool transposed : {false, true}) {
      for (const bool accumulate : {false, true}) {
        const Numbers expected = run_case(make_case(0, transposed, accumulate), targets);
        for (int64_t chunks = 1; chunks <= kRows; ++chunks) {
          const Numbers got = run_case(make_case(chunks, transposed, accumulate), targets);
          ASSERT_EQ(got.size(), expected.size());
          for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-13) << chunks;
        }
      }
    }
  }
}

TEST(LinearCrossEntropy, OfIgnoredRowsAloneIsZero) {
  const Numbers got = run_case(make_case(2, true, false), Numbers(kRows, -1.0));
  EXPECT_EQ(got, Numbers(got.size(), 0.0));
}

// A tied table whose gradient is kept from step to step, as GPT-2 has it.
TEST(LinearCrossEntropy, AddsItsGradientToTheTableWithoutASecondOne) {
  for (const bool accumulate : {false, true}) {
    Graph g;
    const ValueId tokens = g.add_source("tokens", {{2, 3}, DType::i32}, Role::input);
    const ValueId targets = g.add_source("targets", {{2, 3}, DType::i32}, Role::input);
    const ValueId table = g.add_source("wte", {{5, 4}, DType::f32}, Role::parameter);
    const ValueId positions = g.add_source("wpe", {{3, 4}, DType::f32}, Role::parameter);
    const ValueId x = gelu(g, "gelu", embedding(g, "embed", tokens, table, positions));
    const ValueId loss = linear_cross_entropy(g, "loss",
                                              {.x = x,
                                               .weight = table,
                                               .targets = targets,
                                               .classes = 5,
                                               .chunks = 2,
                                               .transposed = true});
    const ValueId home = g.add_source("wte.grad", {{5, 4}, DType::f32}, Role::gradient);
    const std::vector<GradTarget> wrt{{.value = table, .home = home, .accumulate = accumulate}};
    const ValueId gradient = differentiate(g, loss, wrt)[0];

    const Node& head = g.node(g.value(loss).producer);
    EXPECT_EQ(head.op->name, "linear_cross_entropy_grad");
    EXPECT_EQ(head.name, "loss");
    EXPECT_EQ(head.phase, Phase::forward);
    EXPECT_EQ(g.value(loss).name, "loss");
    const ValueId first = head.outputs.at(2);
    EXPECT_EQ(g.value(first).home, home);
    EXPECT_EQ(std::ranges::count(head.inputs, home), accumulate ? 1 : 0);
    const Node& last = g.node(g.value(gradient).producer);
    EXPECT_EQ(last.op->name, "embedding_grad_tokens");
    EXPECT_EQ(last.inputs.back(), first);
    // Nothing but versions of state has the size of the table, or of the logits.
    for (const Value& value : g.values()) {
      if (value.role != Role::activation) continue;
      EXPECT_LT(value.type.bytes(), 30 * 4) << value.name;
    }
  }
}

std::string refusal_to_differentiate(Graph& graph, ValueId loss, ValueId by) {
  try {
    differentiate(graph, loss, std::vector<GradTarget>{{.value = by}});
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(LinearCrossEntropy, IsDifferentiatedOnlyAsTheLossItself) {
  Graph g;
  const ValueId x = g.add_source("x", {{2, 3}, DType::f32}, Role::parameter);
  const ValueId weight = g.add_source("w", {{3, 3}, DType::f32}, Role::parameter);
  const ValueId targets = g.add_source("targets", {{2}, DType::i32}, Role::input);
  const ValueId loss =
      linear_cross_entropy(g, "loss", {.x = x, .weight = weight, .targets = targets, .classes = 3});
  EXPECT_EQ(refusal_to_differentiate(g, gelu(g, "gelu", loss), x),
            "differentiate: op linear_cross_entropy of loss has no gradient where its output is "
            "not the loss itself");
}

}  // namespace
}  // namespace olm2
