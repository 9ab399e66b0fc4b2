#include "ops/operands.h"

#include <cmath>
#include <string>

namespace olm2 {

void expect_count(std::string_view op, std::span<const ValueType> in, size_t count,
                  std::string_view inputs) {
  if (in.size() == count) return;
  throw Error(std::string(op) + ": got " + std::to_string(in.size()) + " inputs, expected " +
              std::to_string(count) + ": " + std::string(inputs));
}

void expect_floating(std::string_view op, std::string_view operand, const ValueType& type,
                     size_t least_axes) {
  if (type.dtype != DType::f32 && type.dtype != DType::f64 && type.dtype != DType::bf16) {
    throw Error(std::string(op) + ": " + std::string(operand) + " is " + to_string(type) +
                ", expected f32, f64 or bf16");
  }
  if (type.shape.size() < least_axes) {
    throw Error(std::string(op) + ": " + std::string(operand) + " is " + to_string(type) +
                ", expected at least " + std::to_string(least_axes) + " axes");
  }
}

void expect_axes(std::string_view op, std::string_view operand, const ValueType& type,
                 size_t axes) {
  if (type.shape.size() == axes) return;
  throw Error(std::string(op) + ": " + std::string(operand) + " is " + to_string(type) +
              ", expected " + std::to_string(axes) + " axes");
}

void expect_type(std::string_view op, std::string_view operand, const ValueType& type,
                 const ValueType& expected, std::string_view because) {
  if (type == expected) return;
  std::string text = std::string(op) + ": " + std::string(operand) + " is " + to_string(type) +
                     ", expected " + to_string(expected);
  if (!because.empty()) text += " " + std::string(because);
  throw Error(text);
}

void expect_random_key(std::string_view op, const ValueType& key) {
  expect_type(op, "key", key, {{4}, DType::i32}, "{seed low, seed high, step, first sample}");
}

void expect_probability(std::string_view op, double probability) {
  if (probability >= 0 && probability < 1) return;
  throw Error(std::string(op) + ": probability is " + std::to_string(probability) +
              ", expected at least 0 and below 1");
}

double required_attr(std::string_view op, const Attrs& attrs, std::string_view key) {
  const auto found = attrs.find(key);
  if (found != attrs.end()) return found->second;
  throw Error(std::string(op) + ": attribute " + std::string(key) + " is missing");
}

int64_t required_size(std::string_view op, const Attrs& attrs, std::string_view key) {
  const double number = required_attr(op, attrs, key);
  if (number >= 1 && number < 9e15 && std::floor(number) == number) {
    return static_cast<int64_t>(number);
  }
  throw Error(std::string(op) + ": attribute " + std::string(key) + " is " +
              std::to_string(number) + ", expected a whole number of at least 1");
}

bool is_set(const Attrs& attrs, std::string_view key) {
  return attr_or(attrs, key, 0) != 0;
}

void expect_only_first_output(const GradRequest& request) {
  for (size_t i = 1; i < request.output_grads.size(); ++i) {
    if (!request.output_grads[i].valid()) continue;
    throw Error(std::string(request.node.op->name) + " of " + request.node.name + ": output " +
                std::to_string(i) + " is a statistic of the gradient rule and has no gradient");
  }
}

Shape without_last_axis(const Shape& shape) {
  return {shape.begin(), shape.end() - 1};
}

Shape with_last_axis(Shape shape, int64_t size) {
  shape.back() = size;
  return shape;
}

int64_t row_count(const Shape& shape) {
  return element_count(without_last_axis(shape));
}

Cost streaming_cost(double flops, std::span<const ValueType> in, std::span<const ValueType> out) {
  Cost cost{.flops = flops, .bytes = 0};
  for (const ValueType& type : in) cost.bytes += static_cast<double>(type.bytes());
  for (const ValueType& type : out) cost.bytes += static_cast<double>(type.bytes());
  return cost;
}

}  // namespace olm2
