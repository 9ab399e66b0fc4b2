// A block of C stays in registers while A and B stream past it.  Source: Goto and van de Geijn
// 2008, section 4.2; the blocks leave room for one row of B and one element of A.
#include "kernels/cpu/tile.h"

#include <algorithm>
#include <array>
#include <utility>

namespace olm2::cpu {
namespace {

constexpr int64_t kBlockRows = 6;
#ifdef __AVX512F__
constexpr int64_t kBlockVecs = 4;  // 24 of 32 registers.
#else
constexpr int64_t kBlockVecs = 1;  // 12 of 16 half-width registers.
#endif

struct Block {
  int64_t k = 0;
  TileView a;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  bool accumulate = false;
};

template <int64_t kRows, int64_t kVecs>
void multiply_block(const Block& block) {
  Vec sums[kRows][kVecs] = {};  // NOLINT: std::array of vectors stays in memory with gcc 12.
  const float* a = block.a.data;
  const float* b = block.b;
  for (int64_t i = 0; i < block.k; ++i, a += block.a.column_stride, b += block.b_stride) {
    Vec b_row[kVecs];  // NOLINT
    for (int64_t v = 0; v < kVecs; ++v) b_row[v] = load(b + v * kLanes);
    for (int64_t r = 0; r < kRows; ++r) {
      const Vec factor = broadcast(a[r * block.a.row_stride]);
      for (int64_t v = 0; v < kVecs; ++v) sums[r][v] += factor * b_row[v];
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t v = 0; v < kVecs; ++v) {
      float* const c = block.c + r * block.c_stride + v * kLanes;
      store(c, block.accumulate ? load(c) + sums[r][v] : sums[r][v]);
    }
  }
}

// multiply_block for every size up to the full block: entry (rows - 1) * kBlockVecs + vecs - 1.
using MultiplyBlock = void (*)(const Block&);
template <int64_t... kIndex>
constexpr auto blocks_of_all_sizes(std::integer_sequence<int64_t, kIndex...>) {
  return std::array<MultiplyBlock, sizeof...(kIndex)>{
      multiply_block<kIndex / kBlockVecs + 1, kIndex % kBlockVecs + 1>...};
}
constexpr auto kMultiplyBlock =
    blocks_of_all_sizes(std::make_integer_sequence<int64_t, kBlockRows * kBlockVecs>{});

}  // namespace

void multiply_tile(int64_t m, int64_t n, int64_t k, TileView a, const float* b, int64_t b_stride,
                   float* c, int64_t c_stride, bool accumulate) {
  const int64_t n_vecs = (n + kLanes - 1) / kLanes;
  for (int64_t vec = 0; vec < n_vecs; vec += kBlockVecs) {
    const int64_t vecs = std::min(kBlockVecs, n_vecs - vec);
    for (int64_t row = 0; row < m; row += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, m - row);
      const auto size = static_cast<size_t>((rows - 1) * kBlockVecs + vecs - 1);
      kMultiplyBlock[size]({.k = k,
                            .a = {a.data + row * a.row_stride, a.row_stride, a.column_stride},
                            .b = b + vec * kLanes,
                            .b_stride = b_stride,
                            .c = c + row * c_stride + vec * kLanes,
                            .c_stride = c_stride,
                            .accumulate = accumulate});
    }
  }
}

}  // namespace olm2::cpu
