// Every op on every one of its samples: types, bits, places.  A new op is tested without a line
// here.
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/ops.h"
#include "tests/ops/reference_runner.h"

namespace olm2 {
namespace {

// Calls visit(op, sample) for all, with a trace that names the case.
template <typename Visit>
void for_each_sample(Visit visit) {
  for (const OpDef* op : all_ops()) {
    size_t number = 0;
    for (const Sample& sample : op->samples()) {
      SCOPED_TRACE(std::string(op->name) + " sample " + std::to_string(number++));
      visit(*op, sample);
    }
  }
}

TEST(Samples, CoverEveryOpOfTheCatalogue) {
  std::vector<std::string> names;
  for (const OpDef* op : all_ops()) {
    names.emplace_back(op->name);
    EXPECT_FALSE(op->summary.empty()) << op->name;
    EXPECT_FALSE(op->samples().empty()) << op->name;
  }
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_THAT(names, testing::IsSupersetOf({"adamw",
                                            "add",
                                            "attention",
                                            "attention_grad",
                                            "dropout",
                                            "embedding",
                                            "embedding_grad_positions",
                                            "embedding_grad_tokens",
                                            "fill",
                                            "gelu",
                                            "gelu_grad",
                                            "global_norm",
                                            "layer_norm",
                                            "layer_norm_grad",
                                            "linear",
                                            "linear_cross_entropy",
                                            "linear_cross_entropy_grad",
                                            "linear_grad_input",
                                            "linear_grad_weight",
                                            "select_position",
                                            "softmax_cross_entropy",
                                            "softmax_cross_entropy_grad"}));
}

TEST(Samples, EveryElementIsWrittenAndFinite) {
  for_each_sample([](const OpDef& op, const Sample& sample) {
    // Outputs start filled with a pattern, so that an unwritten element shows.
    std::vector<ValueBuffer> inputs = draw_inputs(sample, 1);
    const std::vector<ValueBuffer> outputs = run_reference(op, sample.attrs, inputs);
    ASSERT_FALSE(outputs.empty());
    for (const ValueBuffer& output : outputs) {
      const double unwritten = ValueBuffer(ValueType{{1}, output.type().dtype}).read()[0];
      for (const double number : output.read()) {
        EXPECT_TRUE(std::isfinite(number));
        EXPECT_NE(number, unwritten);
      }
    }
  });
}

TEST(Samples, CostIsPositiveAndFinite) {
  for_each_sample([](const OpDef& op, const Sample& sample) {
    const std::vector<ValueType> outputs = op.infer(sample.attrs, sample.inputs);
    const Cost cost = op.cost(sample.attrs, sample.inputs, outputs);
    EXPECT_TRUE(std::isfinite(cost.flops) && cost.flops >= 0);
    EXPECT_TRUE(std::isfinite(cost.bytes) && cost.bytes > 0);
  });
}

TEST(Samples, SingleAgreesWithDouble) {
  for_each_sample([](const OpDef& op, const Sample& sample) {
    std::vector<ValueBuffer> single = draw_inputs(sample, 2);
    const Sample sample64 = in_double(sample);
    std::vector<ValueBuffer> twice;
    for (size_t i = 0; i < single.size(); ++i) {
      twice.emplace_back(sample64.inputs[i]);
      twice.back().write(single[i].read());
    }
    const auto out32 = run_reference(op, sample.attrs, single);
    const auto out64 = run_reference(op, sample64.attrs, twice);
    ASSERT_EQ(out32.size(), out64.size());
    for (size_t k = 0; k < out32.size(); ++k) {
      EXPECT_EQ(out32[k].type().shape, out64[k].type().shape);
      const std::vector<double> a = out32[k].read();
      const std::vector<double> b = out64[k].read();
      for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6 * (1 + std::abs(b[i])));
    }
  });
}

// The pairs whose bit is set; empty unless no operand is in two of them.
std::vector<InPlace> choose(const std::vector<InPlace>& pairs, unsigned set) {
  std::vector<InPlace> chosen;
  for (size_t k = 0; k < pairs.size(); ++k) {
    if ((set >> k & 1U) == 0) continue;
    for (const InPlace& other : chosen) {
      if (other.input == pairs[k].input || other.output == pairs[k].output) return {};
    }
    chosen.push_back(pairs[k]);
  }
  return chosen;
}

// Runs the sample with each chosen output on its input, and compares all outputs.
void expect_same_bits(const OpDef& op, const Sample& sample, const std::vector<InPlace>& chosen,
                      const std::vector<ValueBuffer>& expected) {
  std::vector<ValueBuffer> inputs = draw_inputs(sample, 3);
  std::vector<ValueBuffer> outputs;
  for (const ValueBuffer& output : expected) outputs.emplace_back(output.type());
  const std::vector<Tensor> in = tensors_of(inputs);
  std::vector<Tensor> out = tensors_of(outputs);
  for (const InPlace& pair : chosen) {
    const auto input = static_cast<size_t>(pair.input);
    const auto output = static_cast<size_t>(pair.output);
    ASSERT_EQ(inputs.at(input).type(), outputs.at(output).type());
    out[output].data = in[input].data;
  }
  op.reference({.attrs = sample.attrs, .in = in, .out = out});
  for (size_t o = 0; o < out.size(); ++o) {
    const std::vector<std::byte>& bytes = expected[o].bytes();
    EXPECT_EQ(std::memcmp(out[o].data, bytes.data(), bytes.size()), 0) << "output " << o;
  }
}

// Every set of pairs that share no operand, as a planner may choose them.
TEST(Samples, InPlaceGivesTheSameBits) {
  int tried = 0;
  for_each_sample([&](const OpDef& op, const Sample& sample) {
    if (op.in_place == nullptr) return;
    const std::vector<InPlace> pairs = op.in_place(sample.attrs, sample.inputs.size());
    std::vector<ValueBuffer> untouched = draw_inputs(sample, 3);
    const std::vector<ValueBuffer> expected = run_reference(op, sample.attrs, untouched);
    for (unsigned set = 1; set < 1U << pairs.size(); ++set) {
      const std::vector<InPlace> chosen = choose(pairs, set);
      if (chosen.empty()) continue;
      SCOPED_TRACE("set of pairs " + std::to_string(set));
      expect_same_bits(op, sample, chosen, expected);
      ++tried;
    }
  });
  EXPECT_GT(tried, 40);
}

}  // namespace
}  // namespace olm2
