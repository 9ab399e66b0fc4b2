// Every refusal says which operand of which op was found how, and what it should have been.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

constexpr DType kF32 = DType::f32;
constexpr DType kI32 = DType::i32;

std::string refusal(std::string_view op, const Attrs& attrs, const std::vector<ValueType>& in) {
  try {
    find_op(op).infer(attrs, in);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Refusal, NamesTheShapesOfAProduct) {
  EXPECT_EQ(refusal("linear", {}, {{{8, 512}, kF32}, {{256, 64}, kF32}}),
            "linear: inner sizes or dtypes differ: f32(8,512) x f32(256,64); is the weight stored "
            "the other way round?");
  EXPECT_EQ(refusal("linear", {{"bias", 1}}, {{{8, 5}, kF32}, {{5, 6}, kF32}, {{5}, kF32}}),
            "linear: bias is f32(5), expected f32(6) to fit weight f32(5,6)");
  EXPECT_EQ(refusal("linear_grad_input", {}, {{{2, 7}, kF32}, {{7, 5}, kF32}}),
            "linear_grad_input: inner sizes or dtypes differ: dy f32(2,7), weight f32(7,5)");
  EXPECT_EQ(refusal("linear_grad_weight", {}, {{{2, 7}, kF32}, {{3, 5}, kF32}}),
            "linear_grad_weight: dy is f32(3,5), expected f32(2,5) to fit x f32(2,7)");
  EXPECT_EQ(refusal("linear_grad_weight", {{"accumulate_bias", 1}}, {{{2, 7}, kF32}}),
            "linear_grad_weight: accumulate_bias without bias");
}

TEST(Refusal, CountsTheInputs) {
  EXPECT_EQ(refusal("layer_norm", {}, {{{8}, kF32}}),
            "layer_norm: got 1 inputs, expected 3: x, weight, bias");
  EXPECT_EQ(refusal("attention", {{"heads", 2}, {"dropout", 0.1}}, {{{1, 1, 6}, kF32}}),
            "attention: got 1 inputs, expected 2: qkv, key");
  EXPECT_EQ(refusal("global_norm", {}, {}), "global_norm: got no inputs, expected at least 1");
}

TEST(Refusal, SaysWhatAnOperandShouldBe) {
  EXPECT_EQ(refusal("add", {}, {{{2}, kF32}, {{3}, kF32}}),
            "add: b is f32(3), expected f32(2) like a");
  EXPECT_EQ(refusal("gelu", {}, {{{2}, kI32}}), "gelu: x is i32(2), expected f32, f64 or bf16");
  EXPECT_EQ(refusal("embedding", {}, {{{2, 9}, kI32}, {{5, 4}, kF32}, {{8, 4}, kF32}}),
            "embedding: tokens i32(2,9) are longer than position_table f32(8,4); shorten the "
            "sequence or enlarge the context");
  EXPECT_EQ(refusal("embedding", {}, {{{2, 9}, kF32}, {{5, 4}, kF32}, {{9, 4}, kF32}}),
            "embedding: tokens is f32(2,9), expected i32(2,9)");
  EXPECT_EQ(
      refusal("attention", {{"heads", 5}}, {{{2, 3, 12}, kF32}}),
      "attention: qkv is f32(2,3,12), expected a last axis that is a multiple of 3 x 5 heads");
  EXPECT_EQ(refusal("softmax_cross_entropy", {{"classes", 9}}, {{{2, 8}, kF32}, {{2}, kI32}}),
            "softmax_cross_entropy: 9 classes, but logits are f32(2,8)");
  EXPECT_EQ(refusal("softmax_cross_entropy", {{"classes", 8}}, {{{2, 8}, kF32}, {{3}, kI32}}),
            "softmax_cross_entropy: targets is i32(3), expected i32(2) to fit logits f32(2,8)");
  EXPECT_EQ(refusal("dropout", {{"probability", 0.1}, {"stream", 1}}, {{{2}, kF32}, {{3}, kI32}}),
            "dropout: key is i32(3), expected i32(4) {seed low, seed high, step, first sample}");
}

TEST(Refusal, SaysWhatAHeadWithItsLossNeeds) {
  const std::vector<ValueType> in{{{2, 3, 4}, kF32}, {{9, 4}, kF32}, {{2, 3}, kI32}};
  const Attrs attrs{{"transposed", 1}, {"classes", 9}, {"chunks", 6}};
  const auto with = [&](const char* key, double number) {
    Attrs changed = attrs;
    changed[key] = number;
    return changed;
  };
  EXPECT_EQ(refusal("linear_cross_entropy", attrs, in), "accepted");
  EXPECT_EQ(refusal("linear_cross_entropy", with("chunks", 7), in),
            "linear_cross_entropy: 7 chunks, but x is f32(2,3,4), 6 rows");
  EXPECT_EQ(refusal("linear_cross_entropy", with("classes", 10), in),
            "linear_cross_entropy: 10 classes, but weight f32(9,4) gives 9 columns");
  EXPECT_EQ(refusal("linear_cross_entropy", with("transposed", 0), in),
            "linear_cross_entropy: inner sizes or dtypes differ: f32(2,3,4) x f32(9,4); is the "
            "weight stored the other way round?");
  EXPECT_EQ(refusal("linear_cross_entropy", with("bias", 1), in),
            "linear_cross_entropy: got 3 inputs, expected 4: x, weight, targets[, bias]");
  EXPECT_EQ(refusal("linear_cross_entropy_grad", attrs, in),
            "linear_cross_entropy_grad: attribute seed is missing");
}

TEST(Refusal, ChecksAttributes) {
  const std::vector<ValueType> in{{{2}, kF32}, {{4}, kI32}};
  EXPECT_EQ(refusal("dropout", {{"stream", 1}}, in), "dropout: attribute probability is missing");
  EXPECT_EQ(refusal("dropout", {{"probability", 1}, {"stream", 1}}, in),
            "dropout: probability is 1.000000, expected at least 0 and below 1");
  EXPECT_THAT(refusal("attention", {{"heads", 1.5}}, {{{1, 1, 6}, kF32}}),
              testing::HasSubstr("heads is 1.500000, expected a whole number of at least 1"));
}

TEST(Refusal, NamesTheNodeWhenAGraphGrows) {
  Graph graph;
  const ValueId a = graph.add_source("a", {{2}, kF32}, Role::input);
  const ValueId b = graph.add_source("b", {{3}, kF32}, Role::input);
  const Scope scope(graph, "h.1");
  try {
    add(graph, "residual", a, b);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "h.1.residual: add: b is f32(3), expected f32(2) like a");
  }
}

}  // namespace
}  // namespace olm2
