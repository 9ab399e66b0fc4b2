// What the ops of this folder ask about their operands, and how a reference kernel finds its
// scalar.  Every complaint names the op, the operand, what was found and what was expected.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/error.h"
#include "core/op.h"

namespace olm2 {

// Throws Error unless there are `count` inputs; `inputs` lists their names for the message.
void expect_count(std::string_view op, std::span<const ValueType> in, size_t count,
                  std::string_view inputs);
// Throws Error unless `type` is f32, f64 or bf16 and has at least `least_axes` axes.
void expect_floating(std::string_view op, std::string_view operand, const ValueType& type,
                     size_t least_axes = 0);
// Throws Error unless `type` has exactly this many axes.
void expect_axes(std::string_view op, std::string_view operand, const ValueType& type, size_t axes);
// Throws Error unless `type` is `expected`; `because` ends the message, e.g. "to fit x f32(2,3)".
void expect_type(std::string_view op, std::string_view operand, const ValueType& type,
                 const ValueType& expected, std::string_view because = {});
// Throws Error unless `key` is i32 (4), see dropout().
void expect_random_key(std::string_view op, const ValueType& key);
// Throws Error unless 0 <= probability < 1.
void expect_probability(std::string_view op, double probability);

// An attribute the op cannot do without.  Throws Error if it is missing.
double required_attr(std::string_view op, const Attrs& attrs, std::string_view key);
// A required whole number >= 1.
int64_t required_size(std::string_view op, const Attrs& attrs, std::string_view key);
bool is_set(const Attrs& attrs, std::string_view key);

// Throws Error if a gradient flows into any output but the first: the further ones are statistics
// kept for the gradient rule.
void expect_only_first_output(const GradRequest& request);

Shape without_last_axis(const Shape& shape);
Shape with_last_axis(Shape shape, int64_t size);
// Product of all axes but the last.
int64_t row_count(const Shape& shape);

// Cost of an op that streams its operands once.
Cost streaming_cost(double flops, std::span<const ValueType> in, std::span<const ValueType> out);

// What sums, statistics and losses of values of this type are kept in: bf16 has too few digits.
inline DType sum_dtype(DType dtype) {
  return dtype == DType::bf16 ? DType::f32 : dtype;
}

// Types of samples.
inline ValueType f32(Shape shape) {
  return {std::move(shape), DType::f32};
}
inline ValueType i32(Shape shape) {
  return {std::move(shape), DType::i32};
}

// A reference kernel that runs `single` or `twice` by the dtype of the first output.
template <ReferenceKernel single, ReferenceKernel twice>
void by_dtype(const KernelArgs& args) {
  const DType dtype = args.out[0].type->dtype;
  ensure(dtype == DType::f32 || dtype == DType::f64, "a reference kernel got this dtype");
  dtype == DType::f32 ? single(args) : twice(args);
}

// What an output that adds to an optional accumulator starts from.  Correct when it lies on it.
template <typename T>
void start_from(const Tensor& output, const Tensor* accumulator) {
  T* const to = output.as<T>();
  if (accumulator == nullptr) {
    std::fill_n(to, output.elements(), T{0});
  } else if (accumulator->data != output.data) {
    std::copy_n(accumulator->as<T>(), output.elements(), to);
  }
}

}  // namespace olm2
