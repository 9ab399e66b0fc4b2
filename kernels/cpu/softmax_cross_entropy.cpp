// softmax_cross_entropy and its gradient, one row of logits per step of a thread.
//
// Forward: one pass over memory.  A chunk that fits the nearest cache is read for its maximum, then
// for its exponentials; when the maximum grows, the sum so far is scaled down.
// Source: Milakov and Gimelshein 2018, algorithm 3.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vec.h"

namespace olm2::cpu {
namespace {

constexpr int64_t kChunk = 2048;  // Logits: 8 KiB.
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// log of the sum of exp over a row.
float log_sum_exp(const float* logits, int64_t count) {
  float largest = kMinusInfinity;
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const float* const chunk = logits + begin;
    const int64_t size = std::min(kChunk, count - begin);
    Vec maxima = broadcast(kMinusInfinity);
    for_each_vec(size, [&](int64_t i, auto lanes) {
      maxima = max(load(chunk + i, lanes, kMinusInfinity), maxima);
    });
    const float chunk_largest = max(maxima);
    if (chunk_largest > largest) {
      total *= std::exp(static_cast<double>(largest) - static_cast<double>(chunk_largest));
      largest = chunk_largest;
    }
    Vec sums{};
    for_each_vec(size, [&](int64_t i, auto lanes) {
      sums += exp(load(chunk + i, lanes, kMinusInfinity) - largest);
    });
    total += static_cast<double>(sum(sums));
  }
  return static_cast<float>(static_cast<double>(largest) + std::log(total));
}

void check_target(int32_t target, int64_t classes) {
  if (target >= classes) {
    throw Error("softmax_cross_entropy: target " + std::to_string(target) +
                " is outside of the classes [0, " + std::to_string(classes) +
                "); do the data belong to this tokenizer?");
  }
}

int64_t count_targets(const Tensor& targets) {
  const auto* const target = targets.as<const int32_t>();
  return std::count_if(target, target + targets.elements(), [](int32_t t) { return t >= 0; });
}

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
    double total = 0;
    for (int64_t row = 0; row < logits_.rows; ++row) {
      if (targets[row] < 0) continue;
      check_target(targets[row], classes_);
      const float logit = logits[row * logits_.columns + targets[row]];
      total += static_cast<double>(lse[row]) - static_cast<double>(logit);
    }
    const int64_t counted = count_targets(in[1]);
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
    const int64_t counted = std::max<int64_t>(1, count_targets(in[1]));
    const float scale = in[3].as<float>()[0] / static_cast<float>(counted);
    const int64_t grain = kGrain / 4 / classes_ + 1;
    parallel_for(threads_, logits_.rows, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * logits_.columns;
        differentiate_row(in[0].as<float>() + at, targets[row], in[2].as<float>()[row], scale,
                          out[0].as<float>() + at);
      }
    });
  }

 private:
  void differentiate_row(const float* logits, int32_t target, float lse, float scale,
                         float* gradient) const {
    if (target < 0) {
      std::fill_n(gradient, logits_.columns, 0.0F);
      return;
    }
    for_each_vec(classes_, [&](int64_t i, auto lanes) {
      store(gradient + i, exp(load(logits + i, lanes) - lse) * scale, lanes);
    });
    gradient[target] -= scale;
    std::fill(gradient + classes_, gradient + logits_.columns, 0.0F);
  }

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
