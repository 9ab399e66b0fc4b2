#include "train/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/random.h"

namespace olm2 {
namespace {

// In (0, 1): never 0, whose logarithm is infinite.
double uniform(uint32_t bits) {
  return (static_cast<double>(bits) + 0.5) / 4294967296.0;
}

}  // namespace

void initialize(std::span<float> parameter, const ParameterInit& init, uint64_t seed,
                std::string_view name) {
  if (init.kind != ParameterInit::Kind::normal) {
    std::ranges::fill(parameter, init.kind == ParameterInit::Kind::ones ? 1.0F : 0.0F);
    return;
  }
  const RandomKey key{.seed_low = static_cast<uint32_t>(seed),
                      .seed_high = static_cast<uint32_t>(seed >> 32U),
                      .step = 0,
                      .first_sample = 0,
                      .stream = stream_of(name)};
  for (size_t i = 0; i < parameter.size(); i += 4) {
    const std::array<uint32_t, 4> bits = random_block(key, 0, i / 4);
    for (size_t k = 0; k < 4 && i + k < parameter.size(); ++k) {
      const size_t pair = k & ~size_t{1};
      const double radius = std::sqrt(-2.0 * std::log(uniform(bits[pair])));
      const double angle = 2.0 * std::numbers::pi * uniform(bits[pair + 1]);
      const double normal = radius * (k == pair ? std::cos(angle) : std::sin(angle));
      parameter[i + k] = static_cast<float>(normal * init.std);
    }
  }
}

}  // namespace olm2
