// Products of small matrices that live in the nearest caches: what attention is made of.
#pragma once

#include <cstdint>

#include "kernels/cpu/vec.h"

namespace olm2::cpu {

// Element (row, column) is data[row * row_stride + column * column_stride].
struct TileView {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

// C (+)= A B.  A (m, k) with any strides; B (k, n) and C (m, n) with rows of b_stride and c_stride
// elements.  n is rounded up to whole Vecs: B must be readable, C writable up to there.
void multiply_tile(int64_t m, int64_t n, int64_t k, TileView a, const float* b, int64_t b_stride,
                   float* c, int64_t c_stride, bool accumulate);

}  // namespace olm2::cpu
