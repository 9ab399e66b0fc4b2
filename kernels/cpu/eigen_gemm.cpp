// Matrix products by Eigen's packed kernel.
//
// C is cut into a grid of rectangles, one per thread; each thread packs the panels of A and B it
// needs into its own part of the workspace.  Eigen multiplies column-major, so it is given the
// transposed problem: C^T = op(B)^T op(A)^T, where our row-major matrices are its column-major
// ones.
#include <algorithm>
#include <cstdint>
#include <memory>

// gcc 12 takes the deliberately undefined vectors of its own AVX-512 header for mistakes.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>

#include "core/shape.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/threads.h"

namespace olm2::cpu {
namespace {

using Eigen::ColMajor;
using Eigen::Index;
using Eigen::RowMajor;

// Eigen's block sizes with packed panels at an address of our choice.
class Blocking : public Eigen::internal::level3_blocking<float, float> {
 public:
  // For a product (rows, depth) x (depth, columns).
  Blocking(Index rows, Index columns, Index depth) {
    m_mc = rows;
    m_nc = columns;
    m_kc = depth;
    Eigen::internal::computeProductBlockingSizes<float, float>(m_kc, m_mc, m_nc, Index{1});
  }
  int64_t packed_a_bytes() const { return padded(m_mc * m_kc * int64_t{sizeof(float)}, 64); }
  int64_t bytes() const {
    return packed_a_bytes() + padded(m_kc * m_nc * int64_t{sizeof(float)}, 64);
  }
  void place(char* memory) {
    m_blockA = reinterpret_cast<float*>(memory);
    m_blockB = reinterpret_cast<float*>(memory + packed_a_bytes());
  }
};

// C^T += first second, column-major.
using Multiply = void (*)(Index rows, Index columns, Index depth, const float* first,
                          Index first_stride, const float* second, Index second_stride, float* c,
                          Index c_stride, Blocking& blocking);

template <int FirstOrder, int SecondOrder>
void multiply(Index rows, Index columns, Index depth, const float* first, Index first_stride,
              const float* second, Index second_stride, float* c, Index c_stride,
              Blocking& blocking) {
  Eigen::internal::general_matrix_matrix_product<Index, float, FirstOrder, false, float,
                                                 SecondOrder, false, ColMajor,
                                                 1>::run(rows, columns, depth, first, first_stride,
                                                         second, second_stride, c, 1, c_stride,
                                                         1.0F, blocking, nullptr);
}

Multiply multiply_for(const ProductShape& shape) {
  if (shape.transpose_b) {
    return shape.transpose_a ? multiply<RowMajor, RowMajor> : multiply<RowMajor, ColMajor>;
  }
  return shape.transpose_a ? multiply<ColMajor, RowMajor> : multiply<ColMajor, ColMajor>;
}

constexpr int64_t kTile = 16;  // Rectangles begin at multiples of this.

// [begin, end) of part `part` of `parts` of `size`.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};
Slice slice_of(int64_t size, int64_t part, int64_t parts) {
  const int64_t tiles = (size + kTile - 1) / kTile;
  return {std::min(size, tiles * part / parts * kTile),
          std::min(size, tiles * (part + 1) / parts * kTile)};
}

class EigenProduct : public Product {
 public:
  EigenProduct(const ProductShape& shape, int threads)
      : shape_(shape), multiply_(multiply_for(shape)) {
    cut(threads);
    for (int64_t part = 0; part < row_parts_ * column_parts_; ++part) {
      part_bytes_ = std::max(part_bytes_, blocking_of(part).bytes());
    }
  }
  std::string_view implementation() const override { return "eigen"; }
  int64_t workspace_bytes() const override { return part_bytes_ * row_parts_ * column_parts_; }

  void run(const float* a, const float* b, const float* bias, float* c, void* workspace) override {
    const int64_t parts = row_parts_ * column_parts_;
    parallel_for(static_cast<int>(parts), parts, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) {
        run_part(part, a, b, bias, c, static_cast<char*>(workspace) + part * part_bytes_);
      }
    });
  }

 private:
  // Chooses the grid whose threads pack the least: the smallest sum of rows and columns each.
  void cut(int threads) {
    const int64_t row_tiles = (shape_.m + kTile - 1) / kTile;
    const int64_t column_tiles = (shape_.n + kTile - 1) / kTile;
    const double work = 2.0 * static_cast<double>(shape_.m) * static_cast<double>(shape_.n) *
                        static_cast<double>(shape_.k);
    const int64_t useful = std::max<int64_t>(1, static_cast<int64_t>(work / 1e5));
    const int64_t wanted = std::min({int64_t{threads}, useful, row_tiles * column_tiles});
    double best = -1;
    for (int64_t rows = 1; rows <= std::min(wanted, row_tiles); ++rows) {
      const int64_t columns = std::min(wanted / rows, column_tiles);
      // Seconds, up to a factor: the largest rectangle's work, and its packing as if 8 times it.
      const double m = static_cast<double>(slice_of(shape_.m, rows - 1, rows).size());
      const double n = static_cast<double>(slice_of(shape_.n, columns - 1, columns).size());
      const double cost = m * n + 8 * (m + n);
      if (best >= 0 && cost >= best) continue;
      best = cost;
      row_parts_ = rows;
      column_parts_ = columns;
    }
  }

  Slice rows_of(int64_t part) const { return slice_of(shape_.m, part / column_parts_, row_parts_); }
  Slice columns_of(int64_t part) const {
    return slice_of(shape_.n, part % column_parts_, column_parts_);
  }
  Blocking blocking_of(int64_t part) const {
    return {columns_of(part).size(), rows_of(part).size(), shape_.k};
  }

  void run_part(int64_t part, const float* a, const float* b, const float* bias, float* c,
                char* memory) const {
    const auto [m, n, k, transpose_a, transpose_b, accumulate, has_bias] = shape_;
    const Slice rows = rows_of(part);
    const Slice columns = columns_of(part);
    if (rows.size() == 0 || columns.size() == 0) return;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      float* c_row = c + row * n;
      for (int64_t j = columns.begin; j < columns.end; ++j) {
        c_row[j] = (accumulate ? c_row[j] : 0.0F) + (has_bias ? bias[j] : 0.0F);
      }
    }
    Blocking blocking = blocking_of(part);
    blocking.place(memory);
    multiply_(columns.size(), rows.size(), k, b + columns.begin * (transpose_b ? k : 1),
              transpose_b ? k : n, a + rows.begin * (transpose_a ? 1 : k), transpose_a ? m : k,
              c + rows.begin * n + columns.begin, n, blocking);
  }

  ProductShape shape_;
  Multiply multiply_ = nullptr;
  int64_t row_parts_ = 1;
  int64_t column_parts_ = 1;
  int64_t part_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Product> make_eigen_product(const ProductShape& shape, int threads) {
  return std::make_unique<EigenProduct>(shape, threads);
}

}  // namespace olm2::cpu
