#include "kernels/cpu/attention_tiles.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace olm2::cpu {

AttentionShape AttentionShape::of(const ValueType& qkv, const Attrs& attrs) {
  AttentionShape shape{.batch = qkv.shape[0],
                       .tokens = qkv.shape[1],
                       .channels = qkv.shape[2] / 3,
                       .heads = static_cast<int64_t>(attr_or(attrs, "heads", 1))};
  shape.head_size = shape.channels / shape.heads;
  shape.row = padded(shape.head_size, kLanes);
  shape.tiles = (shape.tokens + kTile - 1) / kTile;
  shape.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_size)));
  return shape;
}

AttentionDropout attention_dropout(const Attrs& attrs) {
  const double probability = attr_or(attrs, "dropout", 0);
  if (probability <= 0) return {};
  return {.key = {.stream = static_cast<uint32_t>(attr_or(attrs, "stream", 0))},
          .threshold = drop_threshold(probability),
          .scale = static_cast<float>(1 / (1 - probability)),
          .active = true};
}

void attention_keep_factors(const AttentionShape& shape, const AttentionDropout& dropout,
                            const TilePlace& place, float* factors) {
  std::array<float, kTile> row;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (int64_t q = 0; q < place.queries; ++q) {
    const int64_t first = (place.head * shape.tokens + place.query + q) * shape.tokens + place.key;
    keep_factors(dropout.key, static_cast<uint32_t>(place.sample), static_cast<uint64_t>(first),
                 place.keys, dropout.threshold, dropout.scale, row.data());
    for (int64_t s = 0; s < place.keys; ++s) {
      factors[s * kTile + q] = row[static_cast<size_t>(s)];
    }
  }
}

void pack_rows(const AttentionShape& shape, int64_t count, const float* from, int64_t stride,
               float scale, float* packed) {
  for (int64_t r = 0; r < count; ++r) {
    for_each_vec(shape.head_size, [&](int64_t i, auto lanes) {
      store(packed + r * shape.row + i, load(from + r * stride + i, lanes) * scale);
    });
  }
}

void transpose_rows(const AttentionShape& shape, int64_t count, const float* packed,
                    float* transposed) {
  for (int64_t c = 0; c < shape.head_size; ++c) {
    float* const to = transposed + c * kTile;
    for (int64_t r = 0; r < count; ++r) to[r] = packed[r * shape.row + c];
    std::fill(to + count, to + kTile, 0.0F);
  }
}

}  // namespace olm2::cpu
