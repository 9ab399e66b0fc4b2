// The fast kernels, f32 only: one factory per op, in the file named after it.
//
// A factory reads sizes and attributes once; run() then touches nothing but its operands and its
// workspace.  Operands, attributes and in-place rules of each op: ops/ops.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/backend.h"
#include "core/error.h"

namespace olm2::cpu {

// What a factory may know of a node.
struct KernelRequest {
  const Attrs& attrs;
  std::span<const ValueType> in;
  std::span<const ValueType> out;
  int threads = 1;
  bool use_onednn = true;

  bool flag(std::string_view key) const { return attr_or(attrs, key, 0) != 0; }
};

using KernelFactory = std::unique_ptr<Kernel> (*)(const KernelRequest& request);

std::unique_ptr<Kernel> make_adamw(const KernelRequest& request);
std::unique_ptr<Kernel> make_add(const KernelRequest& request);
std::unique_ptr<Kernel> make_attention(const KernelRequest& request);
std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request);
std::unique_ptr<Kernel> make_dropout(const KernelRequest& request);
std::unique_ptr<Kernel> make_embedding(const KernelRequest& request);
std::unique_ptr<Kernel> make_embedding_grad_positions(const KernelRequest& request);
std::unique_ptr<Kernel> make_embedding_grad_tokens(const KernelRequest& request);
std::unique_ptr<Kernel> make_fill(const KernelRequest& request);
std::unique_ptr<Kernel> make_gelu(const KernelRequest& request);
std::unique_ptr<Kernel> make_gelu_grad(const KernelRequest& request);
std::unique_ptr<Kernel> make_global_norm(const KernelRequest& request);
std::unique_ptr<Kernel> make_layer_norm(const KernelRequest& request);
std::unique_ptr<Kernel> make_layer_norm_grad(const KernelRequest& request);
std::unique_ptr<Kernel> make_linear(const KernelRequest& request);
std::unique_ptr<Kernel> make_linear_cross_entropy(const KernelRequest& request);
std::unique_ptr<Kernel> make_linear_cross_entropy_grad(const KernelRequest& request);
std::unique_ptr<Kernel> make_linear_grad_input(const KernelRequest& request);
std::unique_ptr<Kernel> make_linear_grad_weight(const KernelRequest& request);
std::unique_ptr<Kernel> make_select_position(const KernelRequest& request);
std::unique_ptr<Kernel> make_softmax_cross_entropy(const KernelRequest& request);
std::unique_ptr<Kernel> make_softmax_cross_entropy_grad(const KernelRequest& request);

// A value seen as a matrix: the last axis are the columns, all others the rows.
struct Matrix {
  int64_t rows = 1;
  int64_t columns = 1;
};
inline Matrix matrix_of(const ValueType& type) {
  const int64_t columns = type.shape.empty() ? 1 : type.shape.back();
  const int64_t elements = element_count(type.shape);
  return {.rows = columns == 0 ? 0 : elements / columns, .columns = columns};
}

// Elements below which a second thread costs more than it brings.
inline constexpr int64_t kGrain = 16384;

// Copies `from` to `to` on several threads, unless they are the same place.
void copy_elements(int threads, int64_t count, const float* from, float* to);

}  // namespace olm2::cpu
