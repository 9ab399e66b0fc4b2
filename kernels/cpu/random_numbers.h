// The numbers of kernels/random.h, 64 at a time.
#pragma once

#include <cstdint>

#include "core/op.h"
#include "kernels/random.h"

namespace olm2::cpu {

// Reads the `key` input of a dropout, i32 (4).
inline RandomKey random_key_of(const Tensor& key, uint32_t stream) {
  const auto* const words = key.as<const uint32_t>();
  return {.seed_low = words[0],
          .seed_high = words[1],
          .step = words[2],
          .first_sample = words[3],
          .stream = stream};
}

// Random numbers are made in groups: the elements 64 * group ... 64 * group + 63 of a sample.
inline constexpr int64_t kGroup = 64;

// What dropout multiplies the elements `first`, `first` + 1 ... of a sample with: `scale` where the
// element's number is at least `threshold`, else 0.
void keep_factors(const RandomKey& key, uint32_t sample, uint64_t first, int64_t count,
                  uint32_t threshold, float scale, float* factors);

}  // namespace olm2::cpu
