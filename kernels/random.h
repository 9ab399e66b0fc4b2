// Counter-based random numbers: a function of a key and a counter, without state, so that a
// recomputed dropout is the same dropout whatever the plan, the threads or the micro batching.
// Philox 4x32 with 10 rounds.  Source: Salmon et al. 2011, "Parallel random numbers: as easy as
// 1, 2, 3".
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace olm2 {

inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint32_t key0,
                                      uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = uint64_t{0xD2511F53U} * counter[0];
    const uint64_t right = uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<uint32_t>(right >> 32U) ^ counter[1] ^ key0,
               static_cast<uint32_t>(right), static_cast<uint32_t>(left >> 32U) ^ counter[3] ^ key1,
               static_cast<uint32_t>(left)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

// What a dropout's `key` input holds, and which op asks.
struct RandomKey {
  uint32_t seed_low = 0;
  uint32_t seed_high = 0;
  uint32_t step = 0;
  uint32_t first_sample = 0;  // Number, within the step, of the batch's first sequence.
  uint32_t stream = 0;        // stream_of(name of the op).
};

// Four uniform 32-bit numbers, for the elements 4 * block ... 4 * block + 3 of a sample (counted
// within the batch).
inline std::array<uint32_t, 4> random_block(const RandomKey& key, uint32_t sample, uint64_t block) {
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32U) ^ key.stream,
                 key.first_sample + sample, key.step},
                key.seed_low, key.seed_high);
}

// An element is kept if its 32-bit number is at least this.
constexpr uint32_t drop_threshold(double probability) {
  return static_cast<uint32_t>(probability * 4294967296.0);
}

// FNV-1a, 32 bits: exact in the double of an attribute.
constexpr uint32_t stream_of(std::string_view name) {
  uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

}  // namespace olm2
