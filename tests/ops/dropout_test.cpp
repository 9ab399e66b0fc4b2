// What "at random" promises: the right rate, and the same elements whenever the same are asked for.
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/random.h"
#include "ops/ops.h"
#include "tests/ops/reference_runner.h"

namespace olm2 {
namespace {

using Numbers = std::vector<double>;

// Dropout of a batch of ones, (samples, elements), as a node of this name.
Numbers drop_ones(std::string_view name, const Numbers& key, int64_t samples, int64_t elements,
                  double probability) {
  Graph graph;
  const ValueId x = graph.add_source("x", {{samples, elements}, DType::f32}, Role::input);
  const ValueId key_id = graph.add_source("key", {{4}, DType::i32}, Role::input);
  const ValueId y = dropout(graph, name, x, key_id, probability);
  ReferenceRunner runner(graph);
  runner.set(x, Numbers(static_cast<size_t>(samples * elements), 1.0));
  runner.set(key_id, key);
  runner.run();
  return runner.get(y);
}

Numbers slice(const Numbers& numbers, size_t begin, size_t end) {
  return {numbers.begin() + static_cast<std::ptrdiff_t>(begin),
          numbers.begin() + static_cast<std::ptrdiff_t>(end)};
}

TEST(Dropout, KeepsTheGivenShareAndTheMean) {
  for (const double probability : {0.0, 0.1, 0.5, 0.9}) {
    const Numbers y = drop_ones("drop", {1, 2, 3, 0}, 4, 25000, probability);
    double kept = 0;
    double sum = 0;
    for (const double number : y) {
      kept += number != 0 ? 1 : 0;
      sum += number;
    }
    const double count = 100000;
    const double sigma = std::sqrt(count * probability * (1 - probability));
    EXPECT_NEAR(kept, count * (1 - probability), 5 * sigma + 1e-9) << probability;
    EXPECT_NEAR(sum, kept / (1 - probability), 1e-6 * count) << probability;
  }
}

TEST(Dropout, IsAFunctionOfSeedStepSampleAndName) {
  const Numbers base = drop_ones("drop", {1, 2, 3, 0}, 2, 101, 0.5);
  EXPECT_EQ(drop_ones("drop", {1, 2, 3, 0}, 2, 101, 0.5), base);
  EXPECT_NE(drop_ones("drop2", {1, 2, 3, 0}, 2, 101, 0.5), base);
  EXPECT_NE(drop_ones("drop", {9, 2, 3, 0}, 2, 101, 0.5), base);
  EXPECT_NE(drop_ones("drop", {1, 9, 3, 0}, 2, 101, 0.5), base);
  EXPECT_NE(drop_ones("drop", {1, 2, 9, 0}, 2, 101, 0.5), base);
  EXPECT_NE(drop_ones("drop", {1, 2, 3, 9}, 2, 101, 0.5), base);
  EXPECT_NE(slice(base, 0, 101), slice(base, 101, 202));
}

TEST(Dropout, DoesNotCareHowABatchIsSplit) {
  const Numbers whole = drop_ones("drop", {5, 6, 7, 0}, 5, 33, 0.3);
  Numbers parts = drop_ones("drop", {5, 6, 7, 0}, 2, 33, 0.3);
  const Numbers rest = drop_ones("drop", {5, 6, 7, 2}, 3, 33, 0.3);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
}

TEST(Dropout, TakesItsStreamFromTheFullNameOfItsNode) {
  Graph graph;
  const ValueId x = graph.add_source("x", {{1, 4}, DType::f32}, Role::input);
  const ValueId key = graph.add_source("key", {{4}, DType::i32}, Role::input);
  const Scope scope(graph, "h.0");
  for (const std::string_view expected : {"h.0.drop", "h.0.drop#2"}) {
    const ValueId y = dropout(graph, "drop", x, key, 0.1);
    const Node& node = graph.node(graph.value(y).producer);
    EXPECT_EQ(node.name, expected);
    EXPECT_EQ(attr_or(node.attrs, "stream", -1), stream_of(expected));
  }
}

// Attention on the samples [first, first + count) of a fixed batch of 3.
Numbers attend(int64_t first, int64_t count, double step) {
  constexpr int64_t kPerSample = 5 * 12;
  Graph graph;
  const ValueId qkv = graph.add_source("qkv", {{count, 5, 12}, DType::f32}, Role::input);
  const ValueId key = graph.add_source("key", {{4}, DType::i32}, Role::input);
  const ValueId out = attention(graph, "attn", qkv, 2, 0.4, key);
  std::mt19937_64 rng(3);
  const Numbers batch = uniform(3 * kPerSample, -1, 1, rng);
  ReferenceRunner runner(graph);
  runner.set(qkv, slice(batch, static_cast<size_t>(first * kPerSample),
                        static_cast<size_t>((first + count) * kPerSample)));
  runner.set(key, Numbers{8, 9, step, static_cast<double>(first)});
  runner.run();
  return runner.get(out);
}

TEST(Dropout, OfAttentionDoesNotCareHowABatchIsSplit) {
  const Numbers whole = attend(0, 3, 1);
  Numbers parts = attend(0, 1, 1);
  const Numbers rest = attend(1, 2, 1);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
  EXPECT_NE(attend(0, 3, 2), whole);
}

}  // namespace
}  // namespace olm2
