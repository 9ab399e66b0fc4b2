// dropout, and its own gradient: threads take groups of 64 elements, whose random numbers are made
// together.
#include <algorithm>
#include <array>
#include <memory>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/random_numbers.h"
#include "kernels/cpu/threads.h"

namespace olm2::cpu {
namespace {

class Dropout : public Kernel {
 public:
  explicit Dropout(const KernelRequest& request)
      : threads_(request.threads),
        probability_(attr_or(request.attrs, "probability", 0)),
        stream_(static_cast<uint32_t>(attr_or(request.attrs, "stream", 0))) {}

  // (x, key) -> y, which may be x
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void*) override {
    const RandomKey key = random_key_of(in[1], stream_);
    const int64_t samples = in[0].shape()[0];
    const int64_t size = in[0].elements() / samples;
    const int64_t groups = (size + kGroup - 1) / kGroup;
    const uint32_t threshold = drop_threshold(probability_);
    const auto scale = static_cast<float>(1 / (1 - probability_));
    const int64_t grain = kGrain / 4 / kGroup;
    parallel_for(threads_, samples * groups, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t sample = unit / groups;
        const int64_t first = unit % groups * kGroup;
        const int64_t count = std::min(kGroup, size - first);
        const float* const x = in[0].as<float>() + sample * size + first;
        float* const y = out[0].as<float>() + sample * size + first;
        std::array<float, kGroup> factors;  // NOLINT(cppcoreguidelines-pro-type-member-init)
        keep_factors(key, static_cast<uint32_t>(sample), static_cast<uint64_t>(first), count,
                     threshold, scale, factors.data());
        for (int64_t i = 0; i < count; ++i) {
          const float factor = factors[static_cast<size_t>(i)];
          y[i] = factor == 0.0F ? 0.0F : x[i] * factor;
        }
      }
    });
  }

 private:
  int threads_;
  double probability_;
  uint32_t stream_;
};

}  // namespace

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request) {
  return std::make_unique<Dropout>(request);
}

}  // namespace olm2::cpu
