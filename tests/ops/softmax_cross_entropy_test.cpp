// The loss where it is easy to get wrong: padding columns, ignored targets, huge logits.
#include <cmath>

#include <gtest/gtest.h>

#include "core/autograd.h"
#include "ops/ops.h"
#include "tests/ops/reference_runner.h"

namespace olm2 {
namespace {

using Numbers = std::vector<double>;

struct LossAndGradient {
  double loss = 0;
  Numbers gradient;  // By the logits.
};

LossAndGradient evaluate(const Numbers& logits, int64_t width, int64_t classes,
                         const Numbers& targets, DType dtype = DType::f64) {
  Graph graph;
  const auto rows = static_cast<int64_t>(targets.size());
  const ValueId x = graph.add_source("logits", {{rows, width}, dtype}, Role::parameter);
  const ValueId y = graph.add_source("targets", {{rows}, DType::i32}, Role::input);
  const ValueId loss = softmax_cross_entropy(graph, "loss", x, y, classes);
  const ValueId gradient = differentiate(graph, loss, std::vector<GradTarget>{{.value = x}})[0];
  ReferenceRunner runner(graph);
  runner.set(x, logits);
  runner.set(y, targets);
  runner.run();
  return {.loss = runner.get(loss)[0], .gradient = runner.get(gradient)};
}

TEST(SoftmaxCrossEntropy, OfEqualLogitsIsTheLogOfTheClasses) {
  EXPECT_NEAR(evaluate(Numbers(10, 3.5), 5, 5, {0, 4}).loss, std::log(5.0), 1e-12);
}

TEST(SoftmaxCrossEntropy, DoesNotSeePaddingColumns) {
  const Numbers plain{0.3, -1, 2, 0.5, 0.1, -0.7};
  const Numbers padded{0.3, -1, 2, 1e30, 1e30, 0.5, 0.1, -0.7, 1e30, 1e30};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const LossAndGradient expected = evaluate(plain, 3, 3, {2, 0}, dtype);
    const LossAndGradient got = evaluate(padded, 5, 3, {2, 0}, dtype);
    EXPECT_EQ(got.loss, expected.loss);
    const Numbers& g = expected.gradient;
    EXPECT_EQ(got.gradient, (Numbers{g[0], g[1], g[2], 0, 0, g[3], g[4], g[5], 0, 0}));
  }
}

TEST(SoftmaxCrossEntropy, LeavesIgnoredRowsOutOfTheMean) {
  const LossAndGradient two = evaluate({0.3, -1, 2, 0.5, 0.1, -0.7}, 3, 3, {2, 0});
  const LossAndGradient four =
      evaluate({9, 8, 7, 0.3, -1, 2, 4, 4, 4, 0.5, 0.1, -0.7}, 3, 3, {-1, 2, -100, 0});
  EXPECT_EQ(four.loss, two.loss);
  const Numbers& g = two.gradient;
  EXPECT_EQ(four.gradient, (Numbers{0, 0, 0, g[0], g[1], g[2], 0, 0, 0, g[3], g[4], g[5]}));
}

TEST(SoftmaxCrossEntropy, OfIgnoredRowsAloneIsZero) {
  const LossAndGradient got = evaluate({1, 2, 3, 4}, 2, 2, {-1, -1});
  EXPECT_EQ(got.loss, 0);
  EXPECT_EQ(got.gradient, Numbers(4, 0.0));
}

TEST(SoftmaxCrossEntropy, StaysFiniteForHugeLogits) {
  const LossAndGradient got = evaluate({30000, -30000, 0, 30000}, 2, 2, {0, 0}, DType::f32);
  EXPECT_EQ(got.loss, 15000);  // Row 0: certain.  Row 1: 30000 nats wrong.
  EXPECT_EQ(got.gradient, (Numbers{0, 0, -0.5, 0.5}));
}

// A vocabulary padded to a multiple: rows of the tied table that no token reads and no column
// counts stay without gradient, whatever they hold.
TEST(SoftmaxCrossEntropy, KeepsPaddedRowsOfATiedTableUnused) {
  const auto run = [](int64_t rows, double filling) {
    Graph graph;
    const ValueId tokens = graph.add_source("tokens", {{1, 3}, DType::i32}, Role::input);
    const ValueId targets = graph.add_source("targets", {{1, 3}, DType::i32}, Role::input);
    const ValueId table = graph.add_source("wte", {{rows, 2}, DType::f64}, Role::parameter);
    const ValueId positions = graph.add_source("wpe", {{3, 2}, DType::f64}, Role::parameter);
    const ValueId x = embedding(graph, "embed", tokens, table, positions);
    const ValueId loss = softmax_cross_entropy(
        graph, "loss", linear(graph, "head", x, table, {}, /*transposed=*/true), targets, 3);
    const ValueId gradient =
        differentiate(graph, loss, std::vector<GradTarget>{{.value = table}})[0];
    Numbers weights{0.1, -0.4, 0.3, 0.9, -0.8, 0.2};
    weights.resize(static_cast<size_t>(rows * 2), filling);
    ReferenceRunner runner(graph);
    runner.set(tokens, Numbers{0, 2, 2});
    runner.set(targets, Numbers{2, 2, 1});
    runner.set(table, weights);
    runner.set(positions, Numbers{0.5, 0.1, -0.2, 0.3, 0.6, 0.7});
    runner.run();
    return LossAndGradient{.loss = runner.get(loss)[0], .gradient = runner.get(gradient)};
  };
  const LossAndGradient plain = run(3, 0);
  const LossAndGradient padded = run(5, 1e6);
  Numbers expected = plain.gradient;
  expected.resize(10, 0.0);
  EXPECT_EQ(padded.loss, plain.loss);
  EXPECT_EQ(padded.gradient, expected);
}

}  // namespace
}  // namespace olm2
