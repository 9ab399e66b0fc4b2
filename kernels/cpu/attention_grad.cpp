// The gradient of attention: probabilities are made again, tile by tile, from lse.
//
// A unit of work is one head of one sequence.  Tiles of queries are the outer loop: dq of a tile is
// summed in scratch, dk and dv are added to the output tile by tile.  With r = dout . out per
// query:
//   dv = p~^T dout,  ds = p (keep dout v^T - r),  dq = scale ds k,  dk = ds^T (scale q).
// Source: Dao et al. 2022, algorithm 4.
#include <memory>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/tile.h"

namespace olm2::cpu {
namespace {

// One thread's workspace.  Packed: (kTile, row).  Transposed: (head_size, kTile).
struct Scratch {
  float* queries = nullptr;             // packed, scaled
  float* queries_transposed = nullptr;  // scaled
  float* dout = nullptr;                // packed
  float* dout_transposed = nullptr;
  float* keys = nullptr;     // packed
  float* values = nullptr;   // packed
  float* dq = nullptr;       // packed
  float* product = nullptr;  // packed: what is added to dk or dv
  float* p = nullptr;        // (keys, queries)
  float* ds = nullptr;       // (keys, queries)
  float* keep = nullptr;     // (keys, queries)
  float* lse = nullptr;      // per query
  float* r = nullptr;        // per query: dout . out

  Scratch(const AttentionShape& shape, float* memory) {
    for (float** packed :
         {&queries, &queries_transposed, &dout, &dout_transposed, &keys, &values, &dq, &product}) {
      *packed = memory;
      memory += shape.packed_elements();
    }
    for (float** tile : {&p, &ds, &keep}) {
      *tile = memory;
      memory += kTileElements;
    }
    lse = memory;
    r = memory + kTile;
  }
  static int64_t bytes(const AttentionShape& shape) {
    const int64_t elements = 8 * shape.packed_elements() + 3 * kTileElements + 2 * kTile;
    return elements * int64_t{sizeof(float)};
  }
};

// One head of one sequence: pointers to its first token.
struct Head {
  const float* queries = nullptr;  // qkv; keys and values follow at channels and 2 * channels.
  const float* out = nullptr;
  const float* dout = nullptr;
  const float* lse = nullptr;
  float* dqueries = nullptr;  // dqkv
};

class AttentionGrad : public Kernel {
 public:
  explicit AttentionGrad(const KernelRequest& request)
      : threads_(request.threads),
        shape_(AttentionShape::of(request.in[0], request.attrs)),
        dropout_(attention_dropout(request.attrs)) {}

  int64_t workspace_bytes() const override {
    return team_of(threads_, units()) * Scratch::bytes(shape_);
  }

  // (qkv, out, lse, dout[, key]) -> dqkv
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void* workspace) override {
    AttentionDropout dropout = dropout_;
    if (dropout.active) dropout.key = random_key_of(in[4], dropout_.key.stream);
    parallel_units(threads_, units(), [&](int64_t unit, int thread) {
      auto* const memory = static_cast<char*>(workspace) + thread * Scratch::bytes(shape_);
      const Scratch scratch(shape_, reinterpret_cast<float*>(memory));
      TilePlace place{.sample = unit / shape_.heads, .head = unit % shape_.heads};
      const Head head = head_at(place, in, out);
      for (int64_t tile = 0; tile < shape_.tiles; ++tile) {
        place.query = tile * kTile;
        place.queries = shape_.tile_size(tile);
        differentiate_queries(place, dropout, head, scratch);
      }
    });
  }

 private:
  Head head_at(const TilePlace& place, std::span<const Tensor> in,
               std::span<const Tensor> out) const {
    const int64_t first = place.sample * shape_.tokens * shape_.channels;
    const int64_t channel = place.head * shape_.head_size;
    return {.queries = in[0].as<float>() + 3 * first + channel,
            .out = in[1].as<float>() + first + channel,
            .dout = in[3].as<float>() + first + channel,
            .lse = in[2].as<float>() + (place.sample * shape_.heads + place.head) * shape_.tokens,
            .dqueries = out[0].as<float>() + 3 * first + channel};
  }

  // Everything that the queries of one tile contribute.
  void differentiate_queries(TilePlace place, const AttentionDropout& dropout, const Head& head,
                             const Scratch& scratch) const {
    const int64_t stride = 3 * shape_.channels;
    const int64_t row = shape_.row;
    prepare_queries(place, head, scratch);
    for (int64_t tile = 0; tile * kTile <= place.query; ++tile) {
      place.key = tile * kTile;
      place.keys = shape_.tile_size(tile);
      const float* const keys = head.queries + shape_.channels + place.key * stride;
      pack_rows(shape_, place.keys, keys, stride, 1, scratch.keys);
      pack_rows(shape_, place.keys, keys + shape_.channels, stride, 1, scratch.values);
      differentiate_scores(place, dropout, scratch);
      // A tile of keys is first met on its diagonal, by the first queries that may see it.
      const bool is_first = place.key == place.query;
      float* const dkeys = head.dqueries + shape_.channels + place.key * stride;
      multiply_tile(place.keys, row, place.queries, {scratch.ds, kTile}, scratch.queries, row,
                    scratch.product, row, false);
      add_rows(place.keys, scratch.product, is_first, dkeys);
      multiply_tile(place.keys, row, place.queries, {scratch.p, kTile}, scratch.dout, row,
                    scratch.product, row, false);
      add_rows(place.keys, scratch.product, is_first, dkeys + shape_.channels);
      multiply_tile(place.queries, row, place.keys, {scratch.ds, 1, kTile}, scratch.keys, row,
                    scratch.dq, row, tile > 0);
    }
    for (int64_t q = 0; q < place.queries; ++q) {
      float* const to = head.dqueries + (place.query + q) * stride;
      for_each_vec(shape_.head_size, [&](int64_t i, auto lanes) {
        store(to + i, load(scratch.dq + q * row + i, lanes) * shape_.scale, lanes);
      });
    }
  }

  void prepare_queries(const TilePlace& place, const Head& head, const Scratch& scratch) const {
    const int64_t channels = shape_.channels;
    const float* const dout = head.dout + place.query * channels;
    pack_rows(shape_, place.queries, head.queries + place.query * 3 * channels, 3 * channels,
              shape_.scale, scratch.queries);
    pack_rows(shape_, place.queries, dout, channels, 1, scratch.dout);
    transpose_rows(shape_, place.queries, scratch.queries, scratch.queries_transposed);
    transpose_rows(shape_, place.queries, scratch.dout, scratch.dout_transposed);
    std::fill_n(scratch.lse, kTile, 0.0F);
    std::fill_n(scratch.r, kTile, 0.0F);
    for (int64_t q = 0; q < place.queries; ++q) {
      const float* const out = head.out + (place.query + q) * channels;
      Vec products{};
      for_each_vec(shape_.head_size, [&](int64_t i, auto lanes) {
        products += load(out + i, lanes) * load(dout + q * channels + i, lanes);
      });
      scratch.lse[q] = head.lse[place.query + q];
      scratch.r[q] = sum(products);
    }
  }

  // Fills scratch.p, dropped, and scratch.ds, the gradient of the scores.
  void differentiate_scores(const TilePlace& place, const AttentionDropout& dropout,
                            const Scratch& scratch) const {
    multiply_tile(place.keys, place.queries, shape_.head_size, {scratch.keys, shape_.row},
                  scratch.queries_transposed, kTile, scratch.p, kTile, false);
    multiply_tile(place.keys, place.queries, shape_.head_size, {scratch.values, shape_.row},
                  scratch.dout_transposed, kTile, scratch.ds, kTile, false);
    if (dropout.active) attention_keep_factors(shape_, dropout, place, scratch.keep);
    const bool diagonal = place.key == place.query;
    for (int64_t q = 0; q < place.queries; q += kLanes) {
      const Vec lse = load(scratch.lse + q);
      const Vec r = load(scratch.r + q);
      for (int64_t s = 0; s < place.keys; ++s) {
        const int64_t at = s * kTile + q;
        Vec p = exp(load(scratch.p + at) - lse);
        // Queries before key s do not see it.
        if (diagonal && s > q) p = without_first_lanes(p, s - q);
        const Vec keep = dropout.active ? load(scratch.keep + at) : broadcast(1);
        store(scratch.ds + at, p * (load(scratch.ds + at) * keep - r));
        store(scratch.p + at, p * keep);
      }
    }
  }

  static Vec without_first_lanes(Vec v, int64_t count) {
    constexpr IntVec kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return kLane >= static_cast<int32_t>(count) ? v : Vec{};
  }

  // Rows of dqkv = or += packed rows.
  void add_rows(int64_t count, const float* packed, bool write, float* to) const {
    for (int64_t r = 0; r < count; ++r, to += 3 * shape_.channels, packed += shape_.row) {
      for_each_vec(shape_.head_size, [&](int64_t i, auto lanes) {
        const Vec before = write ? Vec{} : load(to + i, lanes);
        store(to + i, before + load(packed + i, lanes), lanes);
      });
    }
  }

  int64_t units() const { return shape_.batch * shape_.heads; }

  int threads_;
  AttentionShape shape_;
  AttentionDropout dropout_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request) {
  return std::make_unique<AttentionGrad>(request);
}

}  // namespace olm2::cpu
