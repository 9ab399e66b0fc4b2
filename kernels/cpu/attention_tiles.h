// What attention and its gradient share: the layout of qkv, tiles of 64 positions, and dropout.
//
// A tile of scores is kept transposed, (keys, queries): the softmax over keys then runs down the
// rows, with 16 queries side by side in a Vec, and needs no sum across lanes.
#pragma once

#include <cstdint>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/random_numbers.h"
#include "kernels/cpu/vec.h"

namespace olm2::cpu {

inline constexpr int64_t kTile = 64;  // Queries, and keys, of a tile: also its row stride.
inline constexpr int64_t kTileElements = kTile * kTile;

struct AttentionShape {
  int64_t batch = 0;
  int64_t tokens = 0;
  int64_t channels = 0;  // C
  int64_t heads = 0;
  int64_t head_size = 0;  // C / H
  int64_t row = 0;        // head_size rounded up to whole Vecs: the row stride of packed tiles.
  int64_t tiles = 0;      // Of a sequence.
  float scale = 0;        // 1 / sqrt(head_size)

  static AttentionShape of(const ValueType& qkv, const Attrs& attrs);
  int64_t tile_size(int64_t tile) const { return std::min(kTile, tokens - tile * kTile); }
  int64_t packed_elements() const { return kTile * row; }
};

// Dropout on probabilities: element (head * T + query) * T + key of the sample.
struct AttentionDropout {
  RandomKey key = {};
  uint32_t threshold = 0;
  float scale = 1;  // 1 / (1 - probability)
  bool active = false;
};
AttentionDropout attention_dropout(const Attrs& attrs);

// Where a tile lies.
struct TilePlace {
  int64_t sample = 0;
  int64_t head = 0;
  int64_t query = 0;  // First query.
  int64_t queries = 0;
  int64_t key = 0;  // First key.
  int64_t keys = 0;
};

// factors (keys, queries): 0 or dropout.scale.
void attention_keep_factors(const AttentionShape& shape, const AttentionDropout& dropout,
                            const TilePlace& place, float* factors);

// packed (count, shape.row) = scale * rows of `from`, which are `stride` apart; padded with zeros.
void pack_rows(const AttentionShape& shape, int64_t count, const float* from, int64_t stride,
               float scale, float* packed);
// transposed (head_size, kTile) of a packed tile of `count` rows; columns behind them are zero.
void transpose_rows(const AttentionShape& shape, int64_t count, const float* packed,
                    float* transposed);

}  // namespace olm2::cpu
