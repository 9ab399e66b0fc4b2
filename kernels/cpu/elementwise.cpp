// add, fill, select_position, gelu and its gradient: one pass over memory each.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vec.h"

namespace olm2::cpu {

void copy_elements(int threads, int64_t count, const float* from, float* to) {
  if (from == to) return;
  parallel_for(threads, count, kGrain, [&](int64_t begin, int64_t end, int) {
    std::copy(from + begin, from + end, to + begin);
  });
}

namespace {

// A kernel without attributes and scratch.
using Run = void (*)(int threads, std::span<const Tensor> in, std::span<const Tensor> out);

class Stateless : public Kernel {
 public:
  Stateless(int threads, Run run) : threads_(threads), run_(run) {}
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void*) override {
    run_(threads_, in, out);
  }

 private:
  int threads_;
  Run run_;
};

// to[i] = function(a[i], b[i]); `to` may be `a` or `b`.
template <typename Function>
void map_pairs(int threads, int64_t count, const float* a, const float* b, float* to,
               const Function& function) {
  parallel_elements(threads, count, kGrain, [&](int64_t begin, int64_t end, int) {
    for_each_vec(end - begin, [&](int64_t i, auto lanes) {
      store(to + begin + i, function(load(a + begin + i, lanes), load(b + begin + i, lanes)),
            lanes);
    });
  });
}

void run_add(int threads, std::span<const Tensor> in, std::span<const Tensor> out) {
  map_pairs(threads, out[0].elements(), in[0].as<float>(), in[1].as<float>(), out[0].as<float>(),
            [](Vec a, Vec b) { return a + b; });
}

void run_select_position(int, std::span<const Tensor> in, std::span<const Tensor> out) {
  const Shape& x = in[0].shape();
  const auto* const position = in[1].as<const int32_t>();
  for (int64_t b = 0; b < x[0]; ++b) {
    const float* const row = in[0].as<const float>() + (b * x[1] + position[b]) * x[2];
    std::copy_n(row, x[2], out[0].as<float>() + b * x[2]);
  }
}

// 0.5 x (1 + tanh u) = x / (1 + e^(-2u)) with u = sqrt(2/pi) (x + 0.044715 x^3): the right side
// keeps its relative precision where tanh is close to -1.
constexpr float kTwoRootTwoOverPi = 1.59576912F;
constexpr float kCubic = 0.044715F;

Vec gelu_exponential(Vec x) {
  return exp(x * (-kTwoRootTwoOverPi * kCubic * (x * x) - kTwoRootTwoOverPi));
}
Vec gelu(Vec x) {
  return x / (1.0F + gelu_exponential(x));
}
// s + x s (1 - s) d(2u)/dx with s = 1 / (1 + e^(-2u)).
Vec gelu_slope(Vec x) {
  const Vec e = gelu_exponential(x);
  const Vec s = 1.0F / (1.0F + e);
  const Vec inner = (3 * kTwoRootTwoOverPi * kCubic) * (x * x) + kTwoRootTwoOverPi;
  return s + (x * inner) * (s * (e * s));
}

void run_gelu(int threads, std::span<const Tensor> in, std::span<const Tensor> out) {
  const auto* const x = in[0].as<const float>();
  auto* const y = out[0].as<float>();
  parallel_elements(threads, out[0].elements(), kGrain / 4, [&](int64_t begin, int64_t end, int) {
    for_each_vec(end - begin, [&](int64_t i, auto lanes) {
      store(y + begin + i, gelu(load(x + begin + i, lanes)), lanes);
    });
  });
}

void run_gelu_grad(int threads, std::span<const Tensor> in, std::span<const Tensor> out) {
  map_pairs(threads, out[0].elements(), in[0].as<float>(), in[1].as<float>(), out[0].as<float>(),
            [](Vec x, Vec dy) { return gelu_slope(x) * dy; });
}

class Fill : public Kernel {
 public:
  explicit Fill(const KernelRequest& request)
      : threads_(request.threads), value_(static_cast<float>(attr_or(request.attrs, "value", 0))) {}
  void run(std::span<const Tensor>, std::span<const Tensor> out, void*) override {
    auto* const to = out[0].as<float>();
    parallel_for(threads_, out[0].elements(), kGrain,
                 [&](int64_t begin, int64_t end, int) { std::fill(to + begin, to + end, value_); });
  }

 private:
  int threads_;
  float value_;
};

}  // namespace

std::unique_ptr<Kernel> make_add(const KernelRequest& request) {
  return std::make_unique<Stateless>(request.threads, run_add);
}
std::unique_ptr<Kernel> make_fill(const KernelRequest& request) {
  return std::make_unique<Fill>(request);
}
std::unique_ptr<Kernel> make_gelu(const KernelRequest& request) {
  return std::make_unique<Stateless>(request.threads, run_gelu);
}
std::unique_ptr<Kernel> make_gelu_grad(const KernelRequest& request) {
  return std::make_unique<Stateless>(request.threads, run_gelu_grad);
}
std::unique_ptr<Kernel> make_select_position(const KernelRequest& request) {
  return std::make_unique<Stateless>(request.threads, run_select_position);
}

}  // namespace olm2::cpu
