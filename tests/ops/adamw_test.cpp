// The optimizer against the formulas written out, and what it does with a broken gradient.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ops/ops.h"
#include "tests/ops/reference_runner.h"

namespace olm2 {
namespace {

using Numbers = std::vector<double>;

// One parameter of three elements with its optimizer state, stepped again and again.
struct Optimizer {
  Graph graph;
  ValueId parameter;
  ValueId gradient;
  ValueId m;
  ValueId v;
  ValueId rates;
};

Optimizer make_optimizer(const AdamW& options, DType dtype) {
  Optimizer o;
  const ValueType type{{3}, dtype};
  o.parameter = o.graph.add_source("p", type, Role::parameter);
  o.gradient = o.graph.add_source("p.grad", type, Role::gradient);
  o.m = o.graph.add_source("p.m", type, Role::moment);
  o.v = o.graph.add_source("p.v", type, Role::moment);
  o.rates = o.graph.add_source("rates", {{3}, dtype}, Role::input);
  const ValueId norm = global_norm(o.graph, "norm", {o.gradient});
  const NodeId step =
      adamw(o.graph, "step", o.parameter, o.gradient, o.m, o.v, norm, o.rates, options);
  const std::vector<ValueId> outputs = o.graph.node(step).outputs;
  o.graph.set_home(outputs.at(0), o.parameter);
  o.graph.set_home(outputs.at(1), o.m);
  o.graph.set_home(outputs.at(2), o.v);
  return o;
}

const Numbers kStart{0.5, -1.25, 2};
const std::vector<Numbers> kGradients{{0.3, -2, 0.01}, {0.1, 0.2, -0.3}, {-3, 0, 4}, {0, 0, 0}};

Numbers rates_of(size_t step, const AdamW& options) {
  const auto t = static_cast<double>(step + 1);
  return {0.01 * t, 1 - std::pow(options.beta1, t), 1 - std::pow(options.beta2, t)};
}

// The formulas of the declaration, in double, for kGradients one after another.
Numbers expected_parameter(const AdamW& options) {
  Numbers p = kStart;
  Numbers m(3, 0.0);
  Numbers v(3, 0.0);
  for (size_t step = 0; step < kGradients.size(); ++step) {
    Numbers g = kGradients[step];
    const double norm = std::sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]);
    const Numbers rates = rates_of(step, options);
    for (size_t i = 0; i < 3; ++i) {
      if (options.grad_clip > 0) g[i] *= std::min(1.0, options.grad_clip / (norm + 1e-6));
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g[i];
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g[i] * g[i];
      p[i] *= 1 - rates[0] * options.weight_decay;
      p[i] -= rates[0] * (m[i] / rates[1]) / (std::sqrt(v[i] / rates[2]) + options.epsilon);
    }
  }
  return p;
}

TEST(AdamW, FollowsTheFormulasOverSeveralSteps) {
  for (const AdamW& options : {AdamW{}, AdamW{.weight_decay = 0}, AdamW{.grad_clip = 0},
                               AdamW{.beta1 = 0, .beta2 = 0.5, .epsilon = 0.1}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Optimizer o = make_optimizer(options, dtype);
      ReferenceRunner runner(o.graph);
      runner.set(o.parameter, kStart);
      for (size_t step = 0; step < kGradients.size(); ++step) {
        runner.set(o.gradient, kGradients[step]);
        runner.set(o.rates, rates_of(step, options));
        runner.run();
        runner.advance_state();
      }
      const Numbers expected = expected_parameter(options);
      const Numbers got = runner.get(o.parameter);
      const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-13;
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], expected[i], tolerance);
    }
  }
}

TEST(AdamW, LeavesEverythingUnchangedWhereTheNormIsNotFinite) {
  for (const double broken :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Optimizer o = make_optimizer({}, DType::f32);
    ReferenceRunner runner(o.graph);
    runner.set(o.parameter, kStart);
    runner.set(o.m, Numbers{0.5, 0.25, -1});
    runner.set(o.v, Numbers{0.125, 4, 2});
    runner.set(o.gradient, Numbers{1, broken, 1});
    runner.set(o.rates, rates_of(0, {}));
    runner.run();
    runner.advance_state();
    EXPECT_EQ(runner.get(o.parameter), kStart);
    EXPECT_EQ(runner.get(o.m), (Numbers{0.5, 0.25, -1}));
    EXPECT_EQ(runner.get(o.v), (Numbers{0.125, 4, 2}));
  }
}

TEST(GlobalNorm, SumsAllInputsBeyondTheRangeOfFloatSums) {
  Graph graph;
  const ValueId a = graph.add_source("a", {{2, 2}, DType::f32}, Role::input);
  const ValueId b = graph.add_source("b", {{20000}, DType::f32}, Role::input);
  const ValueId norm = global_norm(graph, "norm", {a, b});
  ReferenceRunner runner(graph);
  runner.set(a, Numbers{1e4, 0, 0, 0});
  runner.set(b, Numbers(20000, 1.0));  // Each too small to change 1e8 in a float sum.
  runner.run();
  EXPECT_EQ(runner.get(norm)[0], static_cast<float>(std::sqrt(1e8 + 20000)));
}

}  // namespace
}  // namespace olm2
