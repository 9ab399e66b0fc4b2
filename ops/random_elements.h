// Which elements a dropout keeps, one by one: the definition that fast kernels must agree with.
#pragma once

#include <cstdint>

#include "core/op.h"
#include "kernels/random.h"

namespace olm2 {

// Reads the `key` input of a dropout, i32 (4).
inline RandomKey random_key(const Tensor& key, uint32_t stream) {
  const auto* const words = key.as<uint32_t>();
  return {.seed_low = words[0],
          .seed_high = words[1],
          .step = words[2],
          .first_sample = words[3],
          .stream = stream};
}

// Element `element` of sequence `sample` of the batch.
inline bool is_kept(const RandomKey& key, int64_t sample, int64_t element, uint32_t threshold) {
  const auto block =
      random_block(key, static_cast<uint32_t>(sample), static_cast<uint64_t>(element) / 4);
  return block[static_cast<size_t>(element % 4)] >= threshold;
}

}  // namespace olm2
