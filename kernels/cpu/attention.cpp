// attention: the softmax is taken tile by tile with a running maximum and sum per query, so a
// thread holds five tiles and never a row of probabilities.  A unit of work is one tile of queries
// of one head.  Source: Dao et al. 2022, algorithm 1.
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/tile.h"

namespace olm2::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// One thread's workspace.
struct Scratch {
  float* queries = nullptr;     // (head_size, kTile), transposed and scaled
  float* rows = nullptr;        // packed queries, keys or values
  float* scores = nullptr;      // (keys, queries)
  float* keep = nullptr;        // (keys, queries)
  float* sums = nullptr;        // (queries, row): unnormalized output
  float* largest = nullptr;     // per query
  float* total = nullptr;       // per query
  float* correction = nullptr;  // per query

  Scratch(const AttentionShape& shape, float* memory) {
    const auto take = [&](int64_t elements) {
      float* const taken = memory;
      memory += elements;
      return taken;
    };
    queries = take(shape.packed_elements());
    rows = take(shape.packed_elements());
    sums = take(shape.packed_elements());
    scores = take(kTileElements);
    keep = take(kTileElements);
    largest = take(kTile);
    total = take(kTile);
    correction = take(kTile);
  }
  static int64_t bytes(const AttentionShape& shape) {
    const int64_t elements = 3 * shape.packed_elements() + 2 * kTileElements + 3 * kTile;
    return elements * int64_t{sizeof(float)};
  }
};

// On the diagonal: keys behind their query score minus infinity.
void mask_future(const TilePlace& place, float* scores) {
  for (int64_t s = 0; s < place.keys; ++s) {
    const int64_t hidden = std::clamp<int64_t>(place.key + s - place.query, 0, kTile);
    std::fill_n(scores + s * kTile, hidden, kMinusInfinity);
  }
}

// Turns scores into exp(score - largest), after raising `largest` to cover them; `correction` is
// what older sums must be multiplied with.
void exponentiate(const TilePlace& place, const Scratch& scratch) {
  for (int64_t q = 0; q < place.queries; q += kLanes) {
    const Vec before = load(scratch.largest + q);
    Vec largest = before;
    for (int64_t s = 0; s < place.keys; ++s) {
      largest = max(load(scratch.scores + s * kTile + q), largest);
    }
    Vec total{};
    for (int64_t s = 0; s < place.keys; ++s) {
      float* const score = scratch.scores + s * kTile + q;
      const Vec p = exp(load(score) - largest);
      total += p;
      store(score, p);
    }
    const Vec correction = exp(before - largest);
    store(scratch.largest + q, largest);
    store(scratch.correction + q, correction);
    store(scratch.total + q, load(scratch.total + q) * correction + total);
  }
}

class Attention : public Kernel {
 public:
  explicit Attention(const KernelRequest& request)
      : threads_(request.threads),
        shape_(AttentionShape::of(request.in[0], request.attrs)),
        dropout_(attention_dropout(request.attrs)) {}

  int64_t workspace_bytes() const override {
    return team_of(threads_, units()) * Scratch::bytes(shape_);
  }

  // (qkv[, key]) -> out, lse
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void* workspace) override {
    AttentionDropout dropout = dropout_;
    if (dropout.active) dropout.key = random_key_of(in[1], dropout_.key.stream);
    parallel_units(threads_, units(), [&](int64_t unit, int thread) {
      auto* const memory = static_cast<char*>(workspace) + thread * Scratch::bytes(shape_);
      const Scratch scratch(shape_, reinterpret_cast<float*>(memory));
      // The longest units, the last tiles, come first: the threads then end together.
      const int64_t head = unit % (shape_.batch * shape_.heads);
      const int64_t tile = shape_.tiles - 1 - unit / (shape_.batch * shape_.heads);
      attend({.sample = head / shape_.heads,
              .head = head % shape_.heads,
              .query = tile * kTile,
              .queries = shape_.tile_size(tile)},
             dropout, in[0].as<float>(), out[0].as<float>(), out[1].as<float>(), scratch);
    });
  }

 private:
  void attend(TilePlace place, const AttentionDropout& dropout, const float* qkv, float* out,
              float* lse, const Scratch& scratch) const {
    const int64_t stride = 3 * shape_.channels;
    const int64_t row = shape_.row;
    const float* const queries =
        qkv + place.sample * shape_.tokens * stride + place.head * shape_.head_size;
    const float* const keys = queries + shape_.channels;
    const float* const values = keys + shape_.channels;
    pack_rows(shape_, place.queries, queries + place.query * stride, stride, shape_.scale,
              scratch.rows);
    transpose_rows(shape_, place.queries, scratch.rows, scratch.queries);
    std::fill_n(scratch.largest, kTile, kMinusInfinity);
    std::fill_n(scratch.total, kTile, 0.0F);
    for (int64_t tile = 0; tile * kTile <= place.query; ++tile) {
      place.key = tile * kTile;
      place.keys = shape_.tile_size(tile);
      pack_rows(shape_, place.keys, keys + place.key * stride, stride, 1, scratch.rows);
      multiply_tile(place.keys, place.queries, shape_.head_size, {scratch.rows, row},
                    scratch.queries, kTile, scratch.scores, kTile, false);
      if (place.key == place.query) mask_future(place, scratch.scores);
      exponentiate(place, scratch);
      if (dropout.active) drop(place, dropout, scratch);
      if (tile > 0) correct_sums(place, scratch);
      pack_rows(shape_, place.keys, values + place.key * stride, stride, 1, scratch.rows);
      multiply_tile(place.queries, row, place.keys, {scratch.scores, 1, kTile}, scratch.rows, row,
                    scratch.sums, row, tile > 0);
    }
    finish(place, scratch, out, lse);
  }

  void drop(const TilePlace& place, const AttentionDropout& dropout, const Scratch& scratch) const {
    attention_keep_factors(shape_, dropout, place, scratch.keep);
    for (int64_t s = 0; s < place.keys; ++s) {
      for (int64_t q = 0; q < place.queries; ++q) {
        scratch.scores[s * kTile + q] *= scratch.keep[s * kTile + q];
      }
    }
  }

  void correct_sums(const TilePlace& place, const Scratch& scratch) const {
    for (int64_t q = 0; q < place.queries; ++q) {
      float* const sums = scratch.sums + q * shape_.row;
      for (int64_t i = 0; i < shape_.row; i += kLanes) {
        store(sums + i, load(sums + i) * scratch.correction[q]);
      }
    }
  }

  // Divides by the sums of probabilities and writes what the op returns.
  void finish(const TilePlace& place, const Scratch& scratch, float* out, float* lse) const {
    const int64_t head = place.sample * shape_.heads + place.head;
    for (int64_t q = 0; q < place.queries; ++q) {
      const int64_t token = place.query + q;
      const float total = scratch.total[q];
      lse[head * shape_.tokens + token] = scratch.largest[q] + std::log(total);
      const float* const sums = scratch.sums + q * shape_.row;
      float* const to = out + (place.sample * shape_.tokens + token) * shape_.channels +
                        place.head * shape_.head_size;
      for_each_vec(shape_.head_size, [&](int64_t i, auto lanes) {
        store(to + i, load(sums + i, lanes) * (1 / total), lanes);
      });
    }
  }

  int64_t units() const { return shape_.batch * shape_.heads * shape_.tiles; }

  int threads_;
  AttentionShape shape_;
  AttentionDropout dropout_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  return std::make_unique<Attention>(request);
}

}  // namespace olm2::cpu
