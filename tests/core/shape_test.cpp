#include "core/shape.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace olm2 {
namespace {

template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Shape, CountsElementsAndBytesOfEveryDType) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 5, 7}), 105);
  EXPECT_EQ(element_count({3, 0, 7}), 0);
  EXPECT_EQ((ValueType{{3, 5}, DType::f32}.bytes()), 60);
  EXPECT_EQ((ValueType{{3, 5}, DType::f64}.bytes()), 120);
  EXPECT_EQ((ValueType{{3, 5}, DType::bf16}.bytes()), 30);
  EXPECT_EQ((ValueType{{3, 5}, DType::i32}.bytes()), 60);
}

TEST(Shape, CountsBeyond32Bits) {
  EXPECT_EQ((ValueType{{65536, 65536, 3}, DType::f32}.bytes()), int64_t{12} << 32);
}

TEST(Shape, RefusesNegativeAxesAndOverflow) {
  EXPECT_EQ(refusal([] { element_count({2, -1}); }), "shape (2,-1): an axis is negative");
  const int64_t big = int64_t{1} << 28;
  EXPECT_EQ(element_count({big, big}), int64_t{1} << 56);
  EXPECT_EQ(refusal([&] {
              element_count({big, big, 2});
            }),
            "shape (268435456,268435456,2): more than 2^56 elements");
}

TEST(Shape, PrintsAsPeopleWriteIt) {
  EXPECT_EQ(to_string(Shape{}), "()");
  EXPECT_EQ(to_string(Shape{8, 1024}), "(8,1024)");
  EXPECT_EQ(to_string(ValueType{{8}, DType::bf16}), "bf16(8)");
}

TEST(DType, IsParsedFromItsOwnText) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32}) {
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  }
  EXPECT_EQ(refusal([] { parse_dtype("float"); }),
            "dtype: got 'float', expected f32, f64, bf16 or i32");
}

TEST(Padded, RoundsUpToTheAlignment) {
  EXPECT_EQ(padded(0, 64), 0);
  EXPECT_EQ(padded(1, 64), 64);
  EXPECT_EQ(padded(64, 64), 64);
  EXPECT_EQ(padded(65, 256), 256);
}

}  // namespace
}  // namespace olm2
