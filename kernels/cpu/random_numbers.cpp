#include "kernels/cpu/random_numbers.h"

#include <algorithm>
#include <array>

namespace olm2::cpu {
namespace {

constexpr size_t kBlocks = 16;  // Philox blocks side by side, four numbers each.
using Words = std::array<uint32_t, kBlocks>;

// philox() of kernels/random.h in the lanes of a loop that compilers turn into vectors.
void philox_blocks(std::array<Words, 4>& counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < kBlocks; ++i) {
      const uint64_t left = uint64_t{0xD2511F53U} * counter[0][i];
      const uint64_t right = uint64_t{0xCD9E8D57U} * counter[2][i];
      counter[0][i] = static_cast<uint32_t>(right >> 32U) ^ counter[1][i] ^ key0;
      counter[1][i] = static_cast<uint32_t>(right);
      counter[2][i] = static_cast<uint32_t>(left >> 32U) ^ counter[3][i] ^ key1;
      counter[3][i] = static_cast<uint32_t>(left);
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
}

void random_group(const RandomKey& key, uint32_t sample, uint64_t group,
                  std::array<uint32_t, kGroup>& numbers) {
  std::array<Words, 4> counter;            // NOLINT(cppcoreguidelines-pro-type-member-init)
  const uint64_t first = group * kBlocks;  // Its low 4 bits are 0: adding i carries nothing.
  for (size_t i = 0; i < kBlocks; ++i) {
    counter[0][i] = static_cast<uint32_t>(first) + static_cast<uint32_t>(i);
    counter[1][i] = static_cast<uint32_t>(first >> 32U) ^ key.stream;
    counter[2][i] = key.first_sample + sample;
    counter[3][i] = key.step;
  }
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
