// linear and its gradients: three matrix products through the seam of gemm.h, and the column sums
// that are the gradient of the bias.
#include <memory>
#include <utility>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"

namespace olm2::cpu {
namespace {

std::unique_ptr<Product> product_for(const KernelRequest& request, const ProductShape& shape) {
  return make_product(shape, request.threads, request.use_onednn);
}

// y = x W [+ bias]
class Linear : public Kernel {
 public:
  explicit Linear(const KernelRequest& request)
      : has_bias_(request.in.size() > 2),
        product_(product_for(request, {.m = matrix_of(request.in[0]).rows,
                                       .n = request.out[0].shape.back(),
                                       .k = matrix_of(request.in[0]).columns,
                                       .transpose_b = request.flag("transposed"),
                                       .bias = has_bias_})) {}
  int64_t workspace_bytes() const override { return product_->workspace_bytes(); }
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void* workspace) override {
    product_->run(in[0].as<float>(), in[1].as<float>(), has_bias_ ? in[2].as<float>() : nullptr,
                  out[0].as<float>(), workspace);
  }

 private:
  bool has_bias_;
  std::unique_ptr<Product> product_;
};

// dx = dy W^T [+ accumulator]
class LinearGradInput : public Kernel {
 public:
  explicit LinearGradInput(const KernelRequest& request)
      : threads_(request.threads),
        accumulate_(request.in.size() > 2),
        product_(product_for(request, {.m = matrix_of(request.in[0]).rows,
                                       .n = request.out[0].shape.back(),
                                       .k = matrix_of(request.in[0]).columns,
                                       .transpose_b = !request.flag("transposed"),
                                       .accumulate = accumulate_})) {}
  int64_t workspace_bytes() const override { return product_->workspace_bytes(); }
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void* workspace) override {
    if (accumulate_) {
      copy_elements(threads_, out[0].elements(), in[2].as<float>(), out[0].as<float>());
    }
    product_->run(in[0].as<float>(), in[1].as<float>(), nullptr, out[0].as<float>(), workspace);
  }

 private:
  int threads_;
  bool accumulate_;
  std::unique_ptr<Product> product_;
};

// dW = x^T dy, or dy^T x if transposed [+ accumulator];  db = column sums of dy [+ accumulator]
class LinearGradWeight : public Kernel {
 public:
  explicit LinearGradWeight(const KernelRequest& request)
      : threads_(request.threads),
        transposed_(request.flag("transposed")),
        accumulate_weight_(request.flag("accumulate_weight")),
        accumulate_bias_(request.flag("accumulate_bias")),
        dy_(matrix_of(request.in[1])),
        product_(product_for(request, {.m = request.out[0].shape[0],
                                       .n = request.out[0].shape[1],
                                       .k = dy_.rows,
                                       .transpose_a = true,
                                       .accumulate = accumulate_weight_})) {}
  int64_t workspace_bytes() const override {
    return std::max(product_->workspace_bytes(), column_sums_workspace(dy_.columns));
  }
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void* workspace) override {
    const auto* x = in[0].as<const float>();
    const auto* dy = in[1].as<const float>();
    size_t next = 2;
    if (accumulate_weight_) {
      copy_elements(threads_, out[0].elements(), in[next++].as<float>(), out[0].as<float>());
    }
    const float* a = transposed_ ? dy : x;
    product_->run(a, transposed_ ? x : dy, nullptr, out[0].as<float>(), workspace);
    if (out.size() < 2) return;
    const float* start = accumulate_bias_ ? in[next].as<float>() : nullptr;
    column_sums(threads_, dy_.rows, dy_.columns, dy, start, out[1].as<float>(), workspace);
  }

 private:
  int threads_;
  bool transposed_;
  bool accumulate_weight_;
  bool accumulate_bias_;
  Matrix dy_;
  std::unique_ptr<Product> product_;
};

}  // namespace

std::unique_ptr<Kernel> make_linear(const KernelRequest& request) {
  return std::make_unique<Linear>(request);
}
std::unique_ptr<Kernel> make_linear_grad_input(const KernelRequest& request) {
  return std::make_unique<LinearGradInput>(request);
}
std::unique_ptr<Kernel> make_linear_grad_weight(const KernelRequest& request) {
  return std::make_unique<LinearGradWeight>(request);
}

}  // namespace olm2::cpu
