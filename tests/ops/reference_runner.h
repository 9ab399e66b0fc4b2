// Runs graphs and single ops with their reference kernels, one buffer per value: the slow and
// simple executor that tests compare with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/graph.h"
#include "core/op.h"

namespace olm2 {

// The bytes of one value, read and written as doubles whatever the dtype (f32, f64 or i32).
class ValueBuffer {
 public:
  ValueBuffer() = default;
  // Not zero: a kernel that forgets an element shows.
  explicit ValueBuffer(ValueType type)
      : type_(std::move(type)), bytes_(static_cast<size_t>(type_.bytes()), std::byte{0xA5}) {}

  const ValueType& type() const { return type_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  // Valid while this buffer is neither moved nor destroyed.
  Tensor tensor() { return {.data = bytes_.data(), .type = &type_}; }

  void write(std::span<const double> numbers) {
    ensure(static_cast<int64_t>(numbers.size()) == element_count(type_.shape),
           "a test writes the wrong number of elements");
    switch (type_.dtype) {
      case DType::f32:
        return write_as<float>(numbers);
      case DType::f64:
        return write_as<double>(numbers);
      case DType::i32:
        return write_as<int32_t>(numbers);
      case DType::bf16:
        ensure(false, "tests hold no bf16");
    }
  }
  std::vector<double> read() const {
    switch (type_.dtype) {
      case DType::f32:
        return read_as<float>();
      case DType::f64:
        return read_as<double>();
      case DType::i32:
        return read_as<int32_t>();
      case DType::bf16:
        ensure(false, "tests hold no bf16");
    }
    return {};
  }

 private:
  template <typename T>
  void write_as(std::span<const double> numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const T value = static_cast<T>(numbers[i]);
      std::memcpy(bytes_.data() + i * sizeof(T), &value, sizeof(T));
    }
  }
  template <typename T>
  std::vector<double> read_as() const {
    std::vector<double> numbers(bytes_.size() / sizeof(T));
    for (size_t i = 0; i < numbers.size(); ++i) {
      T value{};
      std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
      numbers[i] = static_cast<double>(value);
    }
    return numbers;
  }

  ValueType type_;
  std::vector<std::byte> bytes_;
};

// The graph must outlive the runner and not grow.  Sources are zero until they are set.
class ReferenceRunner {
 public:
  explicit ReferenceRunner(const Graph& graph) : graph_(graph) {
    for (const Value& value : graph.values()) {
      buffers_.emplace_back(value.type);
      if (value.producer.valid()) continue;
      buffers_.back().write(
          std::vector<double>(static_cast<size_t>(element_count(value.type.shape)), 0.0));
    }
  }

  void set(ValueId id, std::span<const double> numbers) { buffer(id).write(numbers); }
  void set(std::string_view name, std::span<const double> numbers) {
    set(graph_.find(name), numbers);
  }
  std::vector<double> get(ValueId id) const {
    return buffers_.at(static_cast<size_t>(id.index)).read();
  }
  std::vector<double> get(std::string_view name) const { return get(graph_.find(name)); }
  ValueBuffer& buffer(ValueId id) { return buffers_.at(static_cast<size_t>(id.index)); }

  // Every node once, in order.
  void run() {
    for (const Node& node : graph_.nodes()) {
      const std::vector<Tensor> in = tensors(node.inputs);
      const std::vector<Tensor> out = tensors(node.outputs);
      node.op->reference({.attrs = node.attrs, .in = in, .out = out});
    }
  }
  // Between two steps: every state source takes its newest version.
  void advance_state() {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const ValueId source{static_cast<int32_t>(i)};
      if (graph_.value(source).home != source) continue;
      buffers_[i] = buffer(graph_.newest(source));
    }
  }

 private:
  std::vector<Tensor> tensors(std::span<const ValueId> ids) {
    std::vector<Tensor> tensors;
    tensors.reserve(ids.size());
    for (const ValueId id : ids) tensors.push_back(buffer(id).tensor());
    return tensors;
  }

  const Graph& graph_;
  std::vector<ValueBuffer> buffers_;
};

// Uniform numbers in (low, high), the same with every standard library.
inline std::vector<double> uniform(int64_t count, double low, double high, std::mt19937_64& rng) {
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& number : numbers) {
    const double unit = (static_cast<double>(rng() >> 12U) + 0.5) * 0x1p-52;
    number = low + (high - low) * unit;
  }
  return numbers;
}

// One buffer per input of a sample, filled as the sample asks.
inline std::vector<ValueBuffer> draw_inputs(const Sample& sample, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<ValueBuffer> buffers;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const ValueType& type = sample.inputs[i];
    const int64_t count = element_count(type.shape);
    std::vector<double> numbers;
    if (type.dtype == DType::i32) {
      const auto limit = static_cast<uint64_t>(sample.integer_limit.at(i));
      for (int64_t k = 0; k < count; ++k) numbers.push_back(static_cast<double>(rng() % limit));
    } else {
      const bool positive =
          std::ranges::find(sample.positive_inputs, i) != sample.positive_inputs.end();
      numbers = uniform(count, positive ? 0 : -1, 1, rng);
    }
    buffers.emplace_back(type);
    buffers.back().write(numbers);
  }
  return buffers;
}

// The sample with f64 in the place of f32.
inline Sample in_double(Sample sample) {
  for (ValueType& type : sample.inputs) {
    if (type.dtype == DType::f32) type.dtype = DType::f64;
  }
  if (sample.inputs.empty()) sample.attrs["f64"] = 1;  // fill has only its attribute.
  return sample;
}

// Valid while the buffers stay where they are.
inline std::vector<Tensor> tensors_of(std::vector<ValueBuffer>& buffers) {
  std::vector<Tensor> tensors;
  tensors.reserve(buffers.size());
  for (ValueBuffer& buffer : buffers) tensors.push_back(buffer.tensor());
  return tensors;
}

// Outputs of the reference kernel on these inputs, each in its own buffer.
inline std::vector<ValueBuffer> run_reference(const OpDef& op, const Attrs& attrs,
                                              std::vector<ValueBuffer>& inputs) {
  std::vector<ValueType> types;
  types.reserve(inputs.size());
  for (const ValueBuffer& input : inputs) types.push_back(input.type());
  std::vector<ValueBuffer> outputs;
  for (ValueType& type : op.infer(attrs, types)) outputs.emplace_back(std::move(type));
  const std::vector<Tensor> in = tensors_of(inputs);
  const std::vector<Tensor> out = tensors_of(outputs);
  op.reference({.attrs = attrs, .in = in, .out = out});
  return outputs;
}

}  // namespace olm2
