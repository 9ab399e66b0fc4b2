// A graph of one node with drawn operands, run by any backend: what the tests of kernels share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend.h"
#include "core/graph.h"
#include "core/op.h"

namespace olm2::testing {

// Bytes at an address that is a multiple of 64 but not of 128, or, shifted, of 128.
class Bytes {
 public:
  explicit Bytes(int64_t size, bool shifted = false)
      : size_(size),
        memory_(static_cast<char*>(::operator new(static_cast<size_t>(size) + 192, kPage))),
        data_(memory_ + (shifted ? 128 : 64)) {
    std::memset(memory_, kFence, static_cast<size_t>(size) + 192);
  }
  ~Bytes() { ::operator delete(memory_, kPage); }
  Bytes(Bytes&& other) noexcept : size_(other.size_), memory_(other.memory_), data_(other.data_) {
    other.memory_ = nullptr;
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  Bytes& operator=(Bytes&&) = delete;

  void* data() const { return data_; }
  int64_t size() const { return size_; }
  // Nobody wrote in front of it or behind it.
  bool is_fence_intact() const {
    const auto untouched = [](char byte) { return byte == kFence; };
    return std::all_of(memory_, data_, untouched) &&
           std::all_of(data_ + size_, memory_ + size_ + 192, untouched);
  }

 private:
  static constexpr std::align_val_t kPage{4096};
  static constexpr char kFence = 0x7f;
  int64_t size_ = 0;
  char* memory_ = nullptr;
  char* data_ = nullptr;
};

// The node of a sample.  `twice`: floating point inputs in f64, for the reference.
struct OneNode {
  Graph graph;
  NodeId node;

  OneNode(const OpDef& op, const Sample& sample, bool twice = false) {
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      ValueType type = sample.inputs[i];
      if (twice && type.dtype == DType::f32) type.dtype = DType::f64;
      inputs.push_back(graph.add_source("input." + std::to_string(i), type, Role::input));
    }
    node = graph.add(op.name, "node", inputs, sample.attrs);
  }
  const Node& get() const { return graph.node(node); }
};

// Numbers for the inputs of a sample, the same for every backend and dtype.
inline std::vector<std::vector<double>> draw_inputs(const Sample& sample, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<std::vector<double>> inputs;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const int64_t limit = sample.integer_limit.empty() ? 0 : sample.integer_limit[i];
    const bool positive = std::ranges::count(sample.positive_inputs, i) > 0;
    auto& input = inputs.emplace_back();
    for (int64_t k = 0; k < element_count(sample.inputs[i].shape); ++k) {
      const double unit = (random() % 16384 + 0.5) / 16384;  // Exact in f32.
      if (limit > 0) {
        input.push_back(static_cast<double>(random() % static_cast<uint64_t>(limit)));
      } else {
        input.push_back(positive ? unit : 2 * unit - 1);
      }
    }
  }
  return inputs;
}

inline void write_numbers(const std::vector<double>& numbers, DType dtype, void* to) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (dtype == DType::f32) static_cast<float*>(to)[i] = static_cast<float>(numbers[i]);
    if (dtype == DType::f64) static_cast<double*>(to)[i] = numbers[i];
    if (dtype == DType::i32) static_cast<int32_t*>(to)[i] = static_cast<int32_t>(numbers[i]);
  }
}

inline std::vector<double> read_numbers(const void* from, const ValueType& type) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < element_count(type.shape); ++i) {
    if (type.dtype == DType::f32) numbers.push_back(static_cast<const float*>(from)[i]);
    if (type.dtype == DType::f64) numbers.push_back(static_cast<const double*>(from)[i]);
    if (type.dtype == DType::i32) numbers.push_back(static_cast<const int32_t*>(from)[i]);
  }
  return numbers;
}

// How a node is run.
struct RunOptions {
  std::vector<InPlace> in_place = {};  // Outputs that lie on inputs.
  bool shifted = false;                // Every operand at another address.
  int repeats = 1;
};

// Operands at their places, and the kernel.
class Launch {
 public:
  Launch(Backend& backend, const OneNode& one, const std::vector<std::vector<double>>& inputs,
         const RunOptions& options = {})
      : types_in_(types_of(one.graph, one.get().inputs)),
        types_out_(types_of(one.graph, one.get().outputs)),
        kernel_(backend.prepare(one.graph, one.get())),
        workspace_(kernel_->workspace_bytes(), options.shifted) {
    for (size_t i = 0; i < types_in_.size(); ++i) {
      buffers_.emplace_back(types_in_[i].bytes(), options.shifted);
      write_numbers(inputs[i], types_in_[i].dtype, buffers_.back().data());
      in_.push_back({buffers_.back().data(), &types_in_[i]});
    }
    for (size_t o = 0; o < types_out_.size(); ++o) {
      void* data = nullptr;
      for (const InPlace& pair : options.in_place) {
        if (pair.output == static_cast<int>(o)) data = in_[static_cast<size_t>(pair.input)].data;
      }
      if (data == nullptr)
        data = buffers_.emplace_back(types_out_[o].bytes(), options.shifted).data();
      out_.push_back({data, &types_out_[o]});
    }
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void operator()() { kernel_->run(in_, out_, workspace_.data()); }

  size_t outputs() const { return out_.size(); }
  std::vector<double> numbers(size_t output) const {
    return read_numbers(out_[output].data, types_out_[output]);
  }
  bool are_fences_intact() const {
    return workspace_.is_fence_intact() &&
           std::ranges::all_of(buffers_, [](const Bytes& b) { return b.is_fence_intact(); });
  }
  // The bytes of all outputs.
  std::string bits() const {
    std::string bytes;
    for (const Tensor& tensor : out_) {
      bytes.append(tensor.as<char>(), static_cast<size_t>(tensor.type->bytes()));
    }
    return bytes;
  }

 private:
  std::vector<ValueType> types_in_;
  std::vector<ValueType> types_out_;
  std::unique_ptr<Kernel> kernel_;
  Bytes workspace_;
  std::vector<Bytes> buffers_;
  std::vector<Tensor> in_;
  std::vector<Tensor> out_;
};

inline std::string bits_of(Backend& backend, const OneNode& one,
                           const std::vector<std::vector<double>>& inputs,
                           const RunOptions& options = {}) {
  Launch launch(backend, one, inputs, options);
  launch();
  return launch.bits();
}

// "attention(f32(2,5,12)) {dropout=0.3}", for messages.
inline std::string describe(const OneNode& one) {
  return signature(one.graph, one.get());
}

}  // namespace olm2::testing
