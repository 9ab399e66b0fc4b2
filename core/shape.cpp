#include "core/shape.h"

#include <array>

#include "core/error.h"

namespace olm2 {
namespace {

constexpr std::array<std::string_view, 4> kDTypeNames = {"f32", "f64", "bf16", "i32"};
constexpr std::array<int64_t, 4> kDTypeBytes = {4, 8, 2, 4};
constexpr int64_t kMaxElements = int64_t{1} << 56;

}  // namespace

int64_t byte_size(DType dtype) {
  return kDTypeBytes.at(static_cast<size_t>(dtype));
}

std::string_view to_string(DType dtype) {
  return kDTypeNames.at(static_cast<size_t>(dtype));
}

DType parse_dtype(std::string_view name) {
  for (size_t i = 0; i < kDTypeNames.size(); ++i) {
    if (kDTypeNames[i] == name) return static_cast<DType>(i);
  }
  throw Error("dtype: got '" + std::string(name) + "', expected f32, f64, bf16 or i32");
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t axis : shape) {
    if (axis < 0) throw Error("shape " + to_string(shape) + ": an axis is negative");
    if (axis > 0 && count > kMaxElements / axis) {
      throw Error("shape " + to_string(shape) + ": more than 2^56 elements");
    }
    count *= axis;
  }
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(shape[i]);
  }
  return text + ")";
}

std::string to_string(const ValueType& type) {
  return std::string(to_string(type.dtype)) + to_string(type.shape);
}

}  // namespace olm2
