#include "data/permutation.h"

#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace olm2 {
namespace {

TEST(Permutation, HitsEveryIndexOnce) {
  for (int64_t size = 1; size <= 130; ++size) {
    for (const uint64_t key : {0ULL, 1ULL, 0xFFFFFFFFFFFFFFFFULL}) {
      std::set<int64_t> hit;
      for (int64_t i = 0; i < size; ++i) hit.insert(permuted(i, size, key));
      ASSERT_EQ(hit.size(), static_cast<size_t>(size));
      ASSERT_EQ(*hit.begin(), 0);
      ASSERT_EQ(*hit.rbegin(), size - 1);
    }
  }
}

TEST(Permutation, StaysInsideAHugeRange) {
  const int64_t size = (int64_t{1} << 62) - 57;
  std::set<int64_t> hit;
  for (int64_t i = 0; i < 1000; ++i) hit.insert(permuted(size - 1 - i, size, 7));
  EXPECT_EQ(hit.size(), 1000U);
  EXPECT_GE(*hit.begin(), 0);
  EXPECT_LT(*hit.rbegin(), size);
}

// With 6000 keys each of the 6 orders of three things is expected 1000 times; the deviation
// allowed is more than five times the standard deviation of 29.
TEST(Permutation, ChoosesOrdersEvenly) {
  std::map<std::vector<int64_t>, int> seen;
  for (int64_t epoch = 0; epoch < 6000; ++epoch) {
    const uint64_t key = epoch_key(1337, epoch);
    ++seen[{permuted(0, 3, key), permuted(1, 3, key), permuted(2, 3, key)}];
  }
  ASSERT_EQ(seen.size(), 6U);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 150);
}

// Windows that are neighbours in the text must not stay neighbours.
TEST(Permutation, PartsNeighbours) {
  const int64_t size = 10000;
  int together = 0;
  for (int64_t i = 0; i + 1 < size; ++i) {
    if (permuted(i + 1, size, 42) == permuted(i, size, 42) + 1) ++together;
  }
  EXPECT_LT(together, 12);  // One is expected.
}

}  // namespace
}  // namespace olm2
