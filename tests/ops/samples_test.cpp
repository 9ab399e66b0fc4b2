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
                                            "linear_grad_input",
                                            "linear_grad_weight",
                                            "select_position",
                                            "softmax_cross_entropy",
                                            "softmax_cross_entropy_grad"}));
}

TEST(Samples, EveryElementIsWrittenAndFinite) {
  for_each_sample([](const OpDef& op, const Sample& sample) {
    // 0xA5 bytes are a tiny negative number: two different fillings show an unwritten element.
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

// Each pair alone, and every set of pairs that share no operand, as a planner may choose them.
TEST(Samples, InPlaceGivesTheSameBits) {
  int tried = 0;
  for_each_sample([&](const OpDef& op, const Sample& sample) {
    if (op.in_place == nullptr) return;
    const std::vector<InPlace> pairs = op.in_place(sample.attrs, sample.inputs.size());
    std::vector<ValueBuffer> untouched = draw_inputs(sample, 3);
    const std::vector<ValueBuffer> expected = run_reference(op, sample.attrs, untouched);
    for (unsigned set = 1; set < 1U << pairs.size(); ++set) {
      std::vector<ValueBuffer> inputs = draw_inputs(sample, 3);
      std::vector<ValueBuffer> outputs;
      std::vector<Tensor> in;
      std::vector<Tensor> out;
      for (ValueBuffer& input : inputs) in.push_back(input.tensor());
      for (const ValueBuffer& output : expected) outputs.emplace_back(output.type());
      for (ValueBuffer& output : outputs) out.push_back(output.tensor());
      bool disjoint = true;
      std::vector<bool> input_taken(in.size(), false);
      std::vector<bool> output_taken(out.size(), false);
      for (size_t k = 0; k < pairs.size(); ++k) {
        if ((set >> k & 1U) == 0) continue;
        const auto i = static_cast<size_t>(pairs[k].input);
        const auto o = static_cast<size_t>(pairs[k].output);
        ASSERT_EQ(inputs.at(i).type(), outputs.at(o).type());
        disjoint = disjoint && !input_taken[i] && !output_taken[o];
        input_taken[i] = output_taken[o] = true;
        out[o].data = in[i].data;
      }
      if (!disjoint) continue;
      ++tried;
      op.reference({.attrs = sample.attrs, .in = in, .out = out});
      for (size_t o = 0; o < out.size(); ++o) {
        EXPECT_EQ(std::memcmp(out[o].data, expected[o].bytes().data(), expected[o].bytes().size()),
                  0)
            << "output " << o << ", set of pairs " << set;
      }
    }
  });
  EXPECT_GT(tried, 40);
}

}  // namespace
}  // namespace olm2
