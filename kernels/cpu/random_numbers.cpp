#include "kernels/cpu/random_numbers.h"

#include <algorithm>
#include <array>
#include <bit>

namespace olm2::cpu {
namespace {

constexpr size_t kBlocks = 16;  // Philox blocks side by side, four numbers each.
using Words = uint32_t __attribute__((vector_size(64)));
using Doubles = uint64_t __attribute__((vector_size(64)));  // Pairs of words.
constexpr uint64_t kLowHalf = 0xFFFFFFFFU;

struct WideProduct {
  Words low;
  Words high;
};
// The 64-bit products of the words and `factor`: those of the even lanes, then of the odd ones.
WideProduct multiply(Words words, uint32_t factor) {
  const auto pairs = std::bit_cast<Doubles>(words);
  const Doubles even = (pairs & kLowHalf) * factor;
  const Doubles odd = (pairs >> 32U) * factor;
  return {.low = std::bit_cast<Words>((even & kLowHalf) | (odd << 32U)),
          .high = std::bit_cast<Words>((even >> 32U) | (odd & ~kLowHalf))};
}

// philox() of kernels/random.h on 16 counters, one per lane.
void philox_blocks(Words (&counter)[4], uint32_t key0, uint32_t key1) {  // NOLINT
  for (int round = 0; round < 10; ++round) {
    const WideProduct left = multiply(counter[0], 0xD2511F53U);
    const WideProduct right = multiply(counter[2], 0xCD9E8D57U);
    counter[0] = right.high ^ counter[1] ^ key0;
    counter[1] = right.low;
    counter[2] = left.high ^ counter[3] ^ key1;
    counter[3] = left.low;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
}

void random_group(const RandomKey& key, uint32_t sample, uint64_t group,
                  std::array<uint32_t, kGroup>& numbers) {
  constexpr Words kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const uint64_t first = group * kBlocks;  // Its low 4 bits are 0: adding a lane carries nothing.
  Words counter[4] = {kLane + static_cast<uint32_t>(first),  // NOLINT: vectors, see tile.cpp.
                      Words{} + (static_cast<uint32_t>(first >> 32U) ^ key.stream),
                      Words{} + (key.first_sample + sample), Words{} + key.step};
  philox_blocks(counter, key.seed_low, key.seed_high);
  for (size_t i = 0; i < kBlocks; ++i) {
    for (size_t word = 0; word < 4; ++word) numbers[4 * i + word] = counter[word][i];
  }
}

}  // namespace

void keep_factors(const RandomKey& key, uint32_t sample, uint64_t first, int64_t count,
                  uint32_t threshold, float scale, float* factors) {
  std::array<uint32_t, kGroup> numbers;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  uint64_t group = first / kGroup;
  auto skip = static_cast<int64_t>(first % kGroup);
  for (int64_t done = 0; done < count; ++group, skip = 0) {
    random_group(key, sample, group, numbers);
    const int64_t size = std::min(kGroup - skip, count - done);
    for (int64_t i = 0; i < size; ++i) {
      factors[done + i] = numbers[static_cast<size_t>(skip + i)] >= threshold ? scale : 0.0F;
    }
    done += size;
  }
}

}  // namespace olm2::cpu
