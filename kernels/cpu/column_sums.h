// Sums over the rows of a matrix, in a fixed tree: rows are cut into at most kRowBlocks blocks,
// whatever the number of threads; each block is summed by one thread, then the blocks in order.
#pragma once

#include <cstdint>

namespace olm2::cpu {

inline constexpr int64_t kRowBlocks = 32;

struct RowBlocks {
  int64_t count = 0;
  int64_t rows_per_block = 0;
};
RowBlocks row_blocks(int64_t rows);

// Bytes of the partial sums of `columns` columns, a multiple of 64.
int64_t column_sums_workspace(int64_t columns);

// out[c] = (start ? start[c] : 0) + the sum of partial[block * columns + c] over `blocks` blocks.
// `out` may be `start`.
void sum_blocks(int threads, int64_t blocks, int64_t columns, const float* partial,
                const float* start, float* out);

// out[c] = (start ? start[c] : 0) + sum over rows of x[row * columns + c].
void column_sums(int threads, int64_t rows, int64_t columns, const float* x, const float* start,
                 float* out, void* workspace);

}  // namespace olm2::cpu
