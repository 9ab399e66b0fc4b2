// softmax_cross_entropy and its gradient, one row of logits per step of a thread.
#include <algorithm>
#include <memory>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/threads.h"

namespace olm2::cpu {
namespace {

class SoftmaxCrossEntropy : public Kernel {
 public:
  explicit SoftmaxCrossEntropy(const KernelRequest& request)
      : threads_(request.threads),
        logits_(matrix_of(request.in[0])),
        classes_(static_cast<int64_t>(
            attr_or(request.attrs, "classes", static_cast<double>(logits_.columns)))) {}

  // (logits, targets) -> loss, lse
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void*) override {
    const auto* const logits = in[0].as<const float>();
    const auto* const targets = in[1].as<const int32_t>();
    auto* const lse = out[1].as<float>();
    const int64_t grain = kGrain / 4 / classes_ + 1;
    parallel_for(threads_, logits_.rows, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        lse[row] = log_sum_exp(logits + row * logits_.columns, classes_);
      }
    });
    const int64_t counted = count_targets(in[1], classes_);
    double total = 0;
    for (int64_t row = 0; row < logits_.rows; ++row) {
      if (targets[row] < 0) continue;
      const float logit = logits[row * logits_.columns + targets[row]];
      total += static_cast<double>(lse[row]) - static_cast<double>(logit);
    }
    out[0].as<float>()[0] =
        counted == 0 ? 0.0F : static_cast<float>(total / static_cast<double>(counted));
  }

 private:
  int threads_;
  Matrix logits_;
  int64_t classes_;
};

class SoftmaxCrossEntropyGrad : public Kernel {
 public:
  explicit SoftmaxCrossEntropyGrad(const KernelRequest& request)
      : threads_(request.threads),
        logits_(matrix_of(request.in[0])),
        classes_(static_cast<int64_t>(
            attr_or(request.attrs, "classes", static_cast<double>(logits_.columns)))) {}

  // (logits, targets, lse, dloss) -> dlogits, which may be the logits
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void*) override {
    const auto* const targets = in[1].as<const int32_t>();
    const int64_t counted = std::max<int64_t>(1, count_targets(in[1], classes_));
    const float scale = in[3].as<float>()[0] / static_cast<float>(counted);
    const int64_t grain = kGrain / 4 / classes_ + 1;
    parallel_for(threads_, logits_.rows, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * logits_.columns;
        differentiate_row(in[0].as<float>() + at, logits_.columns, classes_, targets[row],
                          in[2].as<float>()[row], scale, out[0].as<float>() + at);
      }
    });
  }

 private:
  int threads_;
  Matrix logits_;
  int64_t classes_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_cross_entropy(const KernelRequest& request) {
  return std::make_unique<SoftmaxCrossEntropy>(request);
}
std::unique_ptr<Kernel> make_softmax_cross_entropy_grad(const KernelRequest& request) {
  return std::make_unique<SoftmaxCrossEntropyGrad>(request);
}

}  // namespace olm2::cpu
