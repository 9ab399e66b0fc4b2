#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/threads.h"
#include "kernels/reference_backend.h"

namespace olm2 {
namespace {

struct Row {
  std::string_view op;
  cpu::KernelFactory make = nullptr;
};
constexpr std::array kFastKernels = {
    Row{"adamw", cpu::make_adamw},
    Row{"add", cpu::make_add},
    Row{"attention", cpu::make_attention},
    Row{"attention_grad", cpu::make_attention_grad},
    Row{"dropout", cpu::make_dropout},
    Row{"embedding", cpu::make_embedding},
    Row{"embedding_grad_positions", cpu::make_embedding_grad_positions},
    Row{"embedding_grad_tokens", cpu::make_embedding_grad_tokens},
    Row{"fill", cpu::make_fill},
    Row{"gelu", cpu::make_gelu},
    Row{"gelu_grad", cpu::make_gelu_grad},
    Row{"global_norm", cpu::make_global_norm},
    Row{"layer_norm", cpu::make_layer_norm},
    Row{"layer_norm_grad", cpu::make_layer_norm_grad},
    Row{"linear", cpu::make_linear},
    Row{"linear_cross_entropy", cpu::make_linear_cross_entropy},
    Row{"linear_cross_entropy_grad", cpu::make_linear_cross_entropy_grad},
    Row{"linear_grad_input", cpu::make_linear_grad_input},
    Row{"linear_grad_weight", cpu::make_linear_grad_weight},
    Row{"select_position", cpu::make_select_position},
    Row{"softmax_cross_entropy", cpu::make_softmax_cross_entropy},
    Row{"softmax_cross_entropy_grad", cpu::make_softmax_cross_entropy_grad},
};

cpu::KernelFactory fast_kernel_of(std::string_view op) {
  const auto* const row = std::ranges::find(kFastKernels, op, &Row::op);
  return row == kFastKernels.end() ? nullptr : row->make;
}

// The fast kernels compute in f32 and index by i32, and leave empty values to the reference.
bool is_fast_type(const ValueType& type) {
  return (type.dtype == DType::f32 || type.dtype == DType::i32) && element_count(type.shape) > 0;
}

}  // namespace

CpuBackend::CpuBackend(const CpuOptions& options)
    : threads_(cpu::thread_count(options.threads)), use_onednn_(options.use_onednn) {
  if (options.threads < 0) {
    throw Error("cpu backend: threads must be 0 (all) or positive, got " +
                std::to_string(options.threads));
  }
  cpu::start_threads(threads_);
}

std::string CpuBackend::description() const {
  const std::string onednn = use_onednn_ ? cpu::onednn_description() : std::string{};
  return "cpu (" + (onednn.empty() ? "Eigen" : onednn) + ", " + std::to_string(threads_) +
         (threads_ == 1 ? " thread)" : " threads)");
}

std::unique_ptr<Kernel> CpuBackend::prepare(const Graph& graph, const Node& node) {
  expect_computable(*this, graph, node);
  const std::vector<ValueType> in = types_of(graph, node.inputs);
  const std::vector<ValueType> out = types_of(graph, node.outputs);
  const cpu::KernelFactory make = fast_kernel_of(node.op->name);
  if (make == nullptr || !std::ranges::all_of(in, is_fast_type) ||
      !std::ranges::all_of(out, is_fast_type)) {
    return make_reference_kernel(node);
  }
  return make(
      {.attrs = node.attrs, .in = in, .out = out, .threads = threads_, .use_onednn = use_onednn_});
}

}  // namespace olm2
