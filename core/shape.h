// How many elements and bytes a value has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace olm2 {

// f64 exists for the reference kernels, so that gradients can be checked in double.
enum class DType : uint8_t { f32, f64, bf16, i32 };

int64_t byte_size(DType dtype);
std::string_view to_string(DType dtype);
// Throws Error for a name that to_string never returns.
DType parse_dtype(std::string_view name);

// Sizes of the axes, outermost first; an empty Shape is a scalar of one element.
using Shape = std::vector<int64_t>;

// Throws Error for a negative axis or a count beyond 2^56, so that sums of bytes
// fit into 64 bits, too.
int64_t element_count(const Shape& shape);
std::string to_string(const Shape& shape);  // "(8,1024,768)"

// Shape and dtype of a value: all that decides its bytes.
struct ValueType {
  Shape shape;
  DType dtype = DType::f32;
  int64_t bytes() const { return element_count(shape) * byte_size(dtype); }
  bool operator==(const ValueType&) const = default;
};
std::string to_string(const ValueType& type);  // "f32(8,1024,768)"

// The smallest multiple of `alignment` (a power of two) that holds `bytes`.
constexpr int64_t padded(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

}  // namespace olm2
