// Gradients against central differences, in double, through differentiate().
#include <string>

#include <gtest/gtest.h>

#include "core/autograd.h"
#include "ops/ops.h"
#include "tests/ops/reference_runner.h"

namespace olm2 {
namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-7;
constexpr double kSeed = 1.7;

using Numbers = std::vector<double>;

// d(loss)/d(value), element by element.  Leaves the runner's values as they were.
Numbers central_differences(ReferenceRunner& runner, ValueId value, ValueId loss) {
  const Numbers start = runner.get(value);
  Numbers slopes;
  for (size_t i = 0; i < start.size(); ++i) {
    Numbers moved = start;
    const auto loss_at = [&](double x) {
      moved[i] = x;
      runner.set(value, moved);
      runner.run();
      return runner.get(loss)[0];
    };
    slopes.push_back((loss_at(start[i] + kStep) - loss_at(start[i] - kStep)) / (2 * kStep));
  }
  runner.set(value, start);
  return slopes;
}

void expect_near(const Numbers& got, const Numbers& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], kTolerance * (1 + std::abs(expected[i])))
        << what << " element " << i;
  }
}

// An op on the inputs of a sample, and behind it a loss: a fixed projection and cross-entropy, or
// the op's own output where that is one number.
struct Case {
  Graph graph;
  std::vector<ValueId> inputs;      // Of the op.
  std::vector<size_t> floating;     // Which of them have gradients.
  std::vector<ValueId> grad_homes;  // Per input, for the floating ones.
  ValueId loss;
};

Case make_case(const OpDef& op, const Sample& sample) {
  Case c;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const bool floating = sample.inputs[i].dtype == DType::f64;
    const std::string name = "in" + std::to_string(i);
    c.inputs.push_back(
        c.graph.add_source(name, sample.inputs[i], floating ? Role::parameter : Role::input));
    c.grad_homes.push_back(
        floating ? c.graph.add_source("d_" + name, sample.inputs[i], Role::gradient) : ValueId{});
    if (floating) c.floating.push_back(i);
  }
  const ValueId y = c.graph.add_value(op.name, "op", c.inputs, sample.attrs);
  const ValueType type = c.graph.type(y);
  if (type.shape == Shape{1} && op.name.ends_with("cross_entropy")) {
    c.loss = y;
    return c;
  }
  const ValueId projection =
      c.graph.add_source("projection", {{type.shape.back(), 3}, DType::f64}, Role::input);
  Shape rows = type.shape;
  rows.pop_back();
  const ValueId targets = c.graph.add_source("targets", {rows, DType::i32}, Role::input);
  c.loss = softmax_cross_entropy(c.graph, "loss", linear(c.graph, "logits", y, projection, {}),
                                 targets, 3);
  return c;
}

void set_sources(ReferenceRunner& runner, const Case& c, const Sample& sample) {
  std::vector<ValueBuffer> drawn = draw_inputs(sample, 5);
  std::mt19937_64 rng(6);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    runner.set(c.inputs[i], drawn[i].read());
    if (!c.grad_homes[i].valid()) continue;
    const int64_t count = element_count(c.graph.type(c.grad_homes[i]).shape);
    runner.set(c.grad_homes[i], uniform(count, -1, 1, rng));
  }
  const ValueId projection = c.graph.find_or_invalid("projection");
  if (!projection.valid()) return;
  runner.set(projection, uniform(element_count(c.graph.type(projection).shape), -2, 2, rng));
  Numbers targets;
  const int64_t rows = element_count(c.graph.type(c.graph.find("targets")).shape);
  for (int64_t i = 0; i < rows; ++i) targets.push_back(static_cast<double>(i % 3));
  runner.set("targets", targets);
}

// Bits of `wanted` and `accumulate` count the floating inputs.
void check_gradients(const OpDef& op, const Sample& sample, unsigned wanted, unsigned accumulate,
                     const std::vector<Numbers>& slopes) {
  Case c = make_case(op, sample);
  std::vector<GradTarget> targets;
  std::vector<size_t> which;
  for (size_t k = 0; k < c.floating.size(); ++k) {
    if ((wanted >> k & 1U) == 0) continue;
    const bool adds = (accumulate >> k & 1U) != 0;
    which.push_back(k);
    targets.push_back({.value = c.inputs[c.floating[k]],
                       .home = adds ? c.grad_homes[c.floating[k]] : ValueId{},
                       .accumulate = adds});
  }
  const std::vector<ValueId> grads = differentiate(c.graph, c.loss, targets, kSeed);
  ReferenceRunner runner(c.graph);
  set_sources(runner, c, sample);
  const auto before = [&](size_t i) { return runner.get(targets[i].home); };
  std::vector<Numbers> expected;
  for (size_t i = 0; i < which.size(); ++i) {
    Numbers sum = slopes[which[i]];
    for (size_t e = 0; e < sum.size(); ++e) {
      sum[e] = kSeed * sum[e] + (targets[i].accumulate ? before(i)[e] : 0.0);
    }
    expected.push_back(sum);
  }
  runner.run();
  for (size_t i = 0; i < which.size(); ++i) {
    expect_near(runner.get(grads[i]), expected[i], "input " + std::to_string(c.floating[which[i]]));
  }
}

TEST(Gradient, AgreesWithCentralDifferencesForAllWantedAndAccumulatedInputs) {
  int differentiable = 0;
  for (const OpDef* op : all_ops()) {
    if (op->grad == nullptr && op->grad_with_loss == nullptr) continue;
    ++differentiable;
    for (const Sample& single : op->samples()) {
      const Sample sample = in_double(single);
      Case c = make_case(*op, sample);
      ReferenceRunner runner(c.graph);
      set_sources(runner, c, sample);
      std::vector<Numbers> slopes;
      for (const size_t i : c.floating) {
        slopes.push_back(central_differences(runner, c.inputs[i], c.loss));
      }
      const unsigned all = (1U << c.floating.size()) - 1;
      for (unsigned wanted = 1; wanted <= all; ++wanted) {
        for (unsigned accumulate = 0; accumulate <= all; ++accumulate) {
          if ((accumulate & ~wanted) != 0) continue;
          SCOPED_TRACE(std::string(op->name) + " " + to_string(sample.inputs[0]) + " wanted " +
                       std::to_string(wanted) + " accumulated " + std::to_string(accumulate));
          check_gradients(*op, sample, wanted, accumulate, slopes);
        }
      }
    }
  }
  EXPECT_GE(differentiable, 9);
}

TEST(Gradient, OfATiedTableIsTheSumOfBothUses) {
  Graph graph;
  const ValueId tokens = graph.add_source("tokens", {{2, 3}, DType::i32}, Role::input);
  const ValueId targets = graph.add_source("targets", {{2, 3}, DType::i32}, Role::input);
  const ValueId table = graph.add_source("wte", {{5, 4}, DType::f64}, Role::parameter);
  const ValueId home = graph.add_source("wte.grad", {{5, 4}, DType::f64}, Role::gradient);
  const ValueId positions = graph.add_source("wpe", {{3, 4}, DType::f64}, Role::parameter);
  const ValueId x = gelu(graph, "gelu", embedding(graph, "embed", tokens, table, positions));
  const ValueId logits = linear(graph, "head", x, table, {}, /*transposed=*/true);
  const ValueId loss = softmax_cross_entropy(graph, "loss", logits, targets, 5);
  const std::vector<GradTarget> wrt{{.value = table, .home = home}};
  const ValueId gradient = differentiate(graph, loss, wrt)[0];

  ReferenceRunner runner(graph);
  std::mt19937_64 rng(11);
  runner.set(tokens, Numbers{0, 3, 3, 1, 0, 3});
  runner.set(targets, Numbers{3, 3, 1, 0, 3, 4});
  runner.set(table, uniform(20, -1, 1, rng));
  runner.set(positions, uniform(12, -1, 1, rng));
  const Numbers slopes = central_differences(runner, table, loss);
  runner.run();
  expect_near(runner.get(gradient), slopes, "wte");

  // The second use adds to the first in place: both are versions of one home.
  const Node& last = graph.node(graph.value(gradient).producer);
  EXPECT_EQ(last.op->name, "embedding_grad_tokens");
  ASSERT_EQ(last.inputs.size(), 3U);
  EXPECT_EQ(graph.value(last.inputs[2]).home, home);
  EXPECT_EQ(graph.newest(home), gradient);
}

}  // namespace
}  // namespace olm2
