// A seeded permutation of 0 .. size-1 that needs no table: the shuffled order of an epoch.
#pragma once

#include <cstdint>

namespace olm2 {

// Where `index` goes in the permutation that `key` selects; 0 <= index < size <= 2^62.
// A Feistel network over the next power of four, walked until it lands inside: on average fewer
// than four passes.  Source: Black and Rogaway 2002, "Ciphers with arbitrary finite domains".
int64_t permuted(int64_t index, int64_t size, uint64_t key);

// A key for each (seed, epoch).
uint64_t epoch_key(uint64_t seed, int64_t epoch);

}  // namespace olm2
