#include "kernels/cpu/gemm.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "one_node.h"

namespace olm2::testing {
namespace {

using cpu::make_product;
using cpu::Product;
using cpu::ProductShape;

// A product's operands with drawn numbers.
struct Operands {
  ProductShape shape;
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> bias;
  std::vector<float> c;  // What is added to; NaN where nothing is.

  explicit Operands(const ProductShape& of) : shape(of) {
    std::mt19937 random(7);
    const auto draw = [&](int64_t count) {
      std::vector<float> numbers(static_cast<size_t>(count));
      for (float& x : numbers) x = static_cast<float>(random() % 2001) / 1000 - 1;
      return numbers;
    };
    a = draw(shape.m * shape.k);
    b = draw(shape.k * shape.n);
    bias = draw(shape.n);
    c = draw(shape.m * shape.n);
    if (!shape.accumulate) c.assign(c.size(), std::nanf(""));
  }

  double exact(int64_t row, int64_t column) const {
    const auto [m, n, k, transpose_a, transpose_b, accumulate, has_bias] = shape;
    double sum = accumulate ? c[static_cast<size_t>(row * n + column)] : 0;
    if (has_bias) sum += bias[static_cast<size_t>(column)];
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at_a = transpose_a ? i * m + row : row * k + i;
      const int64_t at_b = transpose_b ? column * k + i : i * n + column;
      sum += static_cast<double>(a[static_cast<size_t>(at_a)]) * b[static_cast<size_t>(at_b)];
    }
    return sum;
  }

  // C, at addresses that are multiples of 64.
  std::vector<float> run(Product& product, bool shifted = false) const {
    const auto place = [&](const std::vector<float>& numbers) {
      Bytes bytes(static_cast<int64_t>(numbers.size() * sizeof(float)), shifted);
      std::memcpy(bytes.data(), numbers.data(), numbers.size() * sizeof(float));
      return bytes;
    };
    const Bytes at_a = place(a);
    const Bytes at_b = place(b);
    const Bytes at_bias = place(bias);
    const Bytes at_c = place(c);
    const Bytes workspace(product.workspace_bytes(), shifted);
    const auto floats = [](const Bytes& bytes) { return static_cast<float*>(bytes.data()); };
    product.run(floats(at_a), floats(at_b), shape.bias ? floats(at_bias) : nullptr, floats(at_c),
                workspace.data());
    EXPECT_TRUE(workspace.is_fence_intact() && at_c.is_fence_intact()) << name();
    return {floats(at_c), floats(at_c) + c.size()};
  }

  std::string name() const {
    return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k) +
           (shape.transpose_a ? " T" : " N") + (shape.transpose_b ? "T" : "N") +
           (shape.accumulate ? " accumulate" : "") + (shape.bias ? " bias" : "");
  }
};

// Every combination of the four switches.
std::vector<ProductShape> all_variants(int64_t m, int64_t n, int64_t k) {
  std::vector<ProductShape> shapes;
  for (unsigned bits = 0; bits < 16; ++bits) {
    shapes.push_back({.m = m,
                      .n = n,
                      .k = k,
                      .transpose_a = (bits & 1U) != 0,
                      .transpose_b = (bits & 2U) != 0,
                      .accumulate = (bits & 4U) != 0,
                      .bias = (bits & 8U) != 0});
  }
  return shapes;
}

void expect_right(const ProductShape& shape, int threads, bool use_onednn) {
  const Operands operands(shape);
  const auto product = make_product(shape, threads, use_onednn);
  const std::vector<float> c = operands.run(*product);
  for (int64_t row = 0; row < shape.m; ++row) {
    for (int64_t column = 0; column < shape.n; ++column) {
      const double want = operands.exact(row, column);
      const double scale = std::sqrt(static_cast<double>(shape.k)) + 1;
      ASSERT_NEAR(c[static_cast<size_t>(row * shape.n + column)], want, 1e-6 * scale)
          << operands.name() << " by " << product->implementation() << ", element " << row << ","
          << column;
    }
  }
}

TEST(Gemm, IsRightOnOddSizesOnBothSidesOfTheSeam) {
  for (const bool use_onednn : {true, false}) {
    for (const auto& [m, n, k] :
         {std::array<int64_t, 3>{1, 1, 1}, std::array<int64_t, 3>{1, 17, 5},
          std::array<int64_t, 3>{5, 1, 33}, std::array<int64_t, 3>{3, 7, 1},
          std::array<int64_t, 3>{47, 49, 51}, std::array<int64_t, 3>{64, 96, 128}}) {
      for (const ProductShape& shape : all_variants(m, n, k)) expect_right(shape, 2, use_onednn);
    }
  }
}

TEST(Gemm, IsRightOnEveryNumberOfThreads) {
  for (const int threads : {1, 2, 3, 4, 7}) {
    for (const bool use_onednn : {true, false}) {
      expect_right({.m = 130, .n = 67, .k = 40, .bias = true}, threads, use_onednn);
      expect_right({.m = 20, .n = 301, .k = 40, .transpose_b = true}, threads, use_onednn);
    }
  }
}

TEST(Gemm, IsRightWhenDepthAndWidthExceedTheCacheBlocks) {
  for (const bool use_onednn : {true, false}) {
    expect_right({.m = 19, .n = 40, .k = 3001, .accumulate = true}, 2, use_onednn);
    expect_right({.m = 9, .n = 5003, .k = 70, .transpose_b = true}, 2, use_onednn);
    expect_right({.m = 2003, .n = 33, .k = 31, .transpose_a = true}, 2, use_onednn);
  }
}

TEST(Gemm, GivesTheSameBitsAgainAndElsewhere) {
  for (const bool use_onednn : {true, false}) {
    for (const ProductShape& shape : all_variants(129, 83, 77)) {
      const Operands operands(shape);
      const auto product = make_product(shape, 2, use_onednn);
      const auto bits = [&](bool shifted) {
        const std::vector<float> c = operands.run(*product, shifted);
        return std::string(reinterpret_cast<const char*>(c.data()), c.size() * sizeof(float));
      };
      const std::string first = bits(false);
      EXPECT_TRUE(bits(false) == first) << operands.name();
      EXPECT_TRUE(bits(true) == first) << operands.name();
    }
  }
}

TEST(Gemm, UsesOnednnOnlyWhereItKeepsItsScratchInTheWorkspace) {
  for (const ProductShape& shape : all_variants(100, 200, 300)) {
    const auto product = make_product(shape, 2, true);
    const std::string_view name = product->implementation();
    EXPECT_TRUE(name == "eigen" || name.starts_with("brg")) << name;
    EXPECT_EQ(make_product(shape, 2, false)->implementation(), "eigen");
  }
}

TEST(Gemm, RefusesSizesThatAreNotPositive) {
  EXPECT_THROW(make_product({.m = 0, .n = 1, .k = 1}, 1, true), Error);
  EXPECT_THROW(make_product({.m = 1, .n = 1, .k = -1}, 1, false), Error);
}

}  // namespace
}  // namespace olm2::testing
