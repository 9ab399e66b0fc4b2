#include "data/permutation.h"

#include <bit>

#include "core/error.h"
#include "data/digest.h"

namespace olm2 {
namespace {

constexpr int kRounds = 8;

}  // namespace

uint64_t epoch_key(uint64_t seed, int64_t epoch) {
  return mixed(mixed(seed) ^ static_cast<uint64_t>(epoch));
}

int64_t permuted(int64_t index, int64_t size, uint64_t key) {
  ensure(0 <= index && index < size && size <= (int64_t{1} << 62), "index outside a permutation");
  const auto domain_bits = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(size - 1)));
  const unsigned half_bits = (domain_bits + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;

  auto x = static_cast<uint64_t>(index);
  do {
    uint64_t left = x >> half_bits;
    uint64_t right = x & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (mixed(mixed(key + round) ^ right) & mask);
      left = right;
      right = next;
    }
    x = (left << half_bits) | right;
  } while (x >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(x);
}

}  // namespace olm2
