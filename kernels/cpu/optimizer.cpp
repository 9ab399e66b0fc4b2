// global_norm and adamw: everything a step does to parameters once their gradients are there.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "core/shape.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vec.h"

namespace olm2::cpu {
namespace {

constexpr int64_t kNormBlock = 16384;  // Elements summed by one thread into one double.
constexpr int64_t kStrands = 16;       // Independent sums within a block.

double sum_of_squares(const float* x, int64_t count) {
  std::array<double, kStrands> strands{};
  int64_t i = 0;
  for (; i + kStrands <= count; i += kStrands) {
    for (int64_t s = 0; s < kStrands; ++s) {
      const auto element = static_cast<double>(x[i + s]);
      strands[static_cast<size_t>(s)] += element * element;
    }
  }
  for (int64_t s = 0; i < count; ++i, ++s) {
    strands[static_cast<size_t>(s)] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  double total = 0;
  for (const double strand : strands) total += strand;
  return total;
}

class GlobalNorm : public Kernel {
 public:
  explicit GlobalNorm(const KernelRequest& request) : threads_(request.threads) {
    for (const ValueType& type : request.in) {
      blocks_ = std::max(blocks_, block_count(element_count(type.shape)));
    }
  }
  int64_t workspace_bytes() const override { return padded(blocks_ * int64_t{sizeof(double)}, 64); }

  void run(std::span<const Tensor> in, std::span<const Tensor> out, void* workspace) override {
    auto* const sums = static_cast<double*>(workspace);
    double total = 0;
    for (const Tensor& tensor : in) {
      const auto* const x = tensor.as<const float>();
      const int64_t count = tensor.elements();
      const int64_t blocks = block_count(count);
      parallel_for(threads_, blocks, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t block = begin; block < end; ++block) {
          const int64_t first = block * kNormBlock;
          sums[block] = sum_of_squares(x + first, std::min(kNormBlock, count - first));
        }
      });
      for (int64_t block = 0; block < blocks; ++block) total += sums[block];
    }
    out[0].as<float>()[0] = static_cast<float>(std::sqrt(total));
  }

 private:
  static int64_t block_count(int64_t count) { return (count + kNormBlock - 1) / kNormBlock; }
  int threads_;
  int64_t blocks_ = 0;
};

// The numbers of one step, reduced to what an element needs.
struct AdamWStep {
  float gradient_factor = 1;
  float beta1 = 0;
  float beta2 = 0;
  float shrink = 1;       // 1 - lr * weight_decay
  float step_size = 0;    // lr / bc1
  float root_of_bc2 = 1;  // 1 / sqrt(bc2)
  float epsilon = 0;
};

class AdamW : public Kernel {
 public:
  explicit AdamW(const KernelRequest& request)
      : threads_(request.threads),
        beta1_(attr_or(request.attrs, "beta1", 0)),
        beta2_(attr_or(request.attrs, "beta2", 0)),
        epsilon_(attr_or(request.attrs, "epsilon", 0)),
        weight_decay_(attr_or(request.attrs, "weight_decay", 0)),
        grad_clip_(attr_or(request.attrs, "grad_clip", 0)) {}

  // (parameter, gradient, m, v, norm, rates) -> parameter, m, v
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void*) override {
    const int64_t count = out[0].elements();
    const auto norm = static_cast<double>(in[4].as<float>()[0]);
    if (!std::isfinite(norm)) {
      copy_elements(threads_, count, in[0].as<float>(), out[0].as<float>());
      copy_elements(threads_, count, in[2].as<float>(), out[1].as<float>());
      copy_elements(threads_, count, in[3].as<float>(), out[2].as<float>());
      return;
    }
    const AdamWStep step = step_for(norm, in[5].as<float>());
    parallel_elements(threads_, count, kGrain, [&](int64_t begin, int64_t end, int) {
      update(step, end - begin, in[0].as<float>() + begin, in[1].as<float>() + begin,
             in[2].as<float>() + begin, in[3].as<float>() + begin, out[0].as<float>() + begin,
             out[1].as<float>() + begin, out[2].as<float>() + begin);
    });
  }

 private:
  AdamWStep step_for(double norm, const float* rates) const {
    const double rate = rates[0];
    const double factor = grad_clip_ > 0 ? std::min(1.0, grad_clip_ / (norm + 1e-6)) : 1.0;
    return {.gradient_factor = static_cast<float>(factor),
            .beta1 = static_cast<float>(beta1_),
            .beta2 = static_cast<float>(beta2_),
            .shrink = static_cast<float>(1 - rate * weight_decay_),
            .step_size = static_cast<float>(rate / static_cast<double>(rates[1])),
            .root_of_bc2 = static_cast<float>(1 / std::sqrt(static_cast<double>(rates[2]))),
            .epsilon = static_cast<float>(epsilon_)};
  }

  // Each new array may be the old one: elements depend on nothing but their own index.
  static void update(const AdamWStep& step, int64_t count, const float* parameter,
                     const float* gradient, const float* m_old, const float* v_old,
                     float* new_parameter, float* m_new, float* v_new) {
    const float share1 = 1 - step.beta1;
    const float share2 = 1 - step.beta2;
    for_each_vec(count, [&](int64_t i, auto lanes) {
      const Vec g = load(gradient + i, lanes) * step.gradient_factor;
      const Vec m = load(m_old + i, lanes) * step.beta1 + g * share1;
      const Vec v = load(v_old + i, lanes) * step.beta2 + (g * g) * share2;
      const Vec p = load(parameter + i, lanes);
      store(new_parameter + i,
            p * step.shrink - step.step_size * m / (sqrt(v) * step.root_of_bc2 + step.epsilon),
            lanes);
      store(m_new + i, m, lanes);
      store(v_new + i, v, lanes);
    });
  }

  int threads_;
  double beta1_;
  double beta2_;
  double epsilon_;
  double weight_decay_;
  double grad_clip_;
};

}  // namespace

std::unique_ptr<Kernel> make_global_norm(const KernelRequest& request) {
  return std::make_unique<GlobalNorm>(request);
}
std::unique_ptr<Kernel> make_adamw(const KernelRequest& request) {
  return std::make_unique<AdamW>(request);
}

}  // namespace olm2::cpu
