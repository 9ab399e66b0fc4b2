// What the ops compute, against the textbook written out or against numbers known from elsewhere.
#include <cmath>

#include <gtest/gtest.h>

#include "ops/ops.h"
#include "tests/ops/reference_runner.h"

namespace olm2 {
namespace {

using Numbers = std::vector<double>;

ValueBuffer buffer(const Shape& shape, const Numbers& numbers, DType dtype = DType::f64) {
  ValueBuffer made(ValueType{shape, dtype});
  made.write(numbers);
  return made;
}

Numbers run_op(std::string_view op, const Attrs& attrs, std::vector<ValueBuffer> inputs,
               size_t output = 0) {
  return run_reference(find_op(op), attrs, inputs).at(output).read();
}

TEST(Linear, ReadsBothStorageOrders) {
  const ValueBuffer x = buffer({2, 2}, {1, 2, 3, 4});
  const ValueBuffer weight = buffer({2, 3}, {1, 2, 3, 4, 5, 6});
  const ValueBuffer transposed = buffer({3, 2}, {1, 4, 2, 5, 3, 6});
  const ValueBuffer bias = buffer({3}, {100, 200, 300});
  EXPECT_EQ(run_op("linear", {}, {x, weight}), (Numbers{9, 12, 15, 19, 26, 33}));
  EXPECT_EQ(run_op("linear", {{"transposed", 1}, {"bias", 1}}, {x, transposed, bias}),
            (Numbers{109, 212, 315, 119, 226, 333}));
}

TEST(Embedding, GradientAddsEqualTokensAndLeavesOthersAlone) {
  const ValueBuffer tokens = buffer({2, 2}, {3, 1, 3, 3}, DType::i32);
  const ValueBuffer dx = buffer({2, 2, 1}, {1, 10, 100, 1000});
  const Attrs attrs{{"vocabulary", 5}};
  EXPECT_EQ(run_op("embedding_grad_tokens", attrs, {tokens, dx}), (Numbers{0, 10, 0, 1101, 0}));
  EXPECT_EQ(run_op("embedding_grad_tokens", attrs,
                   {tokens, dx, buffer({5, 1}, {0.5, 1.5, 2.5, 3.5, 4.5})}),
            (Numbers{0.5, 11.5, 2.5, 1104.5, 4.5}));
  EXPECT_EQ(run_op("embedding_grad_positions", {{"positions", 3}}, {dx}), (Numbers{101, 1010, 0}));
}

TEST(LayerNorm, GivesMeanZeroAndVarianceOne) {
  const Numbers y =
      run_op("layer_norm", {{"epsilon", 0}},
             {buffer({1, 4}, {1, 3, 5, 7}), buffer({4}, {1, 1, 1, 2}), buffer({4}, {0, 0, 0, 10})});
  const double deviation = std::sqrt(5.0);
  const Numbers expected{-3 / deviation, -1 / deviation, 1 / deviation, 10 + 6 / deviation};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], expected[i], 1e-14);
}

TEST(LayerNorm, KeepsTheVarianceOfRowsFarFromZero) {
  const Numbers y = run_op("layer_norm", {{"epsilon", 1e-5}},
                           {buffer({1, 2}, {10000, 10002}, DType::f32),
                            buffer({2}, {1, 1}, DType::f32), buffer({2}, {0, 0}, DType::f32)});
  EXPECT_NEAR(y[0], -1, 1e-5);
  EXPECT_NEAR(y[1], 1, 1e-5);
}

TEST(Gelu, HasTheValuesOfTheTanhForm) {
  const Numbers y = run_op("gelu", {}, {buffer({5}, {-100, -1, 0, 1, 100})});
  const Numbers expected{0, -0.15880800939172324, 0, 0.84119199060827676, 100};
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(y[i], expected[i], 1e-14);
}

TEST(SelectPosition, PicksOneRowOfEachSequence) {
  EXPECT_EQ(run_op("select_position", {},
                   {buffer({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
                    buffer({2}, {2, 0}, DType::i32)}),
            (Numbers{4, 5, 6, 7}));
}

// The textbook: a T x T matrix of probabilities per head, masked, normalised, multiplied.
Numbers textbook_attention(const Numbers& qkv, size_t batch, size_t tokens, size_t heads,
                           size_t size) {
  const size_t channels = heads * size;
  Numbers out(batch * tokens * channels, 0.0);
  const auto at = [&](size_t part, size_t b, size_t t, size_t h, size_t c) {
    return qkv[(b * tokens + t) * 3 * channels + part * channels + h * size + c];
  };
  for (size_t b = 0; b < batch; ++b) {
    for (size_t h = 0; h < heads; ++h) {
      for (size_t t = 0; t < tokens; ++t) {
        Numbers p;
        double total = 0;
        for (size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (size_t c = 0; c < size; ++c) score += at(0, b, t, h, c) * at(1, b, s, h, c);
          p.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          total += p.back();
        }
        for (size_t s = 0; s <= t; ++s) {
          for (size_t c = 0; c < size; ++c) {
            out[(b * tokens + t) * channels + h * size + c] += p[s] / total * at(2, b, s, h, c);
          }
        }
      }
    }
  }
  return out;
}

TEST(Attention, AgreesWithTheMatrixOfProbabilities) {
  std::mt19937_64 rng(7);
  const Numbers qkv = uniform(2 * 5 * 3 * 6, -2, 2, rng);
  const Numbers got = run_op("attention", {{"heads", 2}}, {buffer({2, 5, 18}, qkv)});
  const Numbers expected = textbook_attention(qkv, 2, 5, 2, 3);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-13);
}

TEST(Attention, NeverLooksAhead) {
  std::mt19937_64 rng(8);
  Numbers qkv = uniform(5 * 6, -2, 2, rng);
  const Numbers before = run_op("attention", {{"heads", 1}}, {buffer({1, 5, 6}, qkv)});
  for (size_t i = 3 * 6; i < 5 * 6; ++i) qkv[i] = 50;
  const Numbers after = run_op("attention", {{"heads", 1}}, {buffer({1, 5, 6}, qkv)});
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 3 * 2, after.begin()));
  EXPECT_NE(before, after);
}

TEST(Attention, StaysFiniteForHugeScores) {
  const Numbers out = run_op("attention", {{"heads", 1}},
                             {buffer({1, 2, 3}, {100, 100, 1, 100, -100, 5}, DType::f32)});
  EXPECT_EQ(out, (Numbers{1, 1}));
}

}  // namespace
}  // namespace olm2
