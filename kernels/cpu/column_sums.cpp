#include "kernels/cpu/column_sums.h"

#include <algorithm>

#include "core/shape.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vec.h"

namespace olm2::cpu {

RowBlocks row_blocks(int64_t rows) {
  const int64_t rows_per_block = std::max<int64_t>(1, (rows + kRowBlocks - 1) / kRowBlocks);
  return {.count = (rows + rows_per_block - 1) / rows_per_block, .rows_per_block = rows_per_block};
}

int64_t column_sums_workspace(int64_t columns) {
  return padded(kRowBlocks * columns * int64_t{sizeof(float)}, 64);
}

void sum_blocks(int threads, int64_t blocks, int64_t columns, const float* partial,
                const float* start, float* out) {
  // Threads take whole vectors, so that a column is summed in the same way by any of them.
  const int64_t vectors = (columns + kLanes - 1) / kLanes;
  parallel_for(threads, vectors, kGrain / kLanes, [&](int64_t begin, int64_t end, int) {
    const int64_t first = begin * kLanes;
    for_each_vec(std::min(end * kLanes, columns) - first, [&](int64_t i, auto lanes) {
      Vec total{};
      for (int64_t block = 0; block < blocks; ++block) {
        total += load(partial + block * columns + first + i, lanes);
      }
      if (start != nullptr) total += load(start + first + i, lanes);
      store(out + first + i, total, lanes);
    });
  });
}

void column_sums(int threads, int64_t rows, int64_t columns, const float* x, const float* start,
                 float* out, void* workspace) {
  auto* const partial = static_cast<float*>(workspace);
  const RowBlocks blocks = row_blocks(rows);
  const int64_t grain = kGrain / (blocks.rows_per_block * columns) + 1;
  parallel_for(threads, blocks.count, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t block = begin; block < end; ++block) {
      float* const sums = partial + block * columns;
      std::fill_n(sums, columns, 0.0F);
      const int64_t last = std::min(rows, (block + 1) * blocks.rows_per_block);
      for (int64_t row = block * blocks.rows_per_block; row < last; ++row) {
        const float* const from = x + row * columns;
        for_each_vec(columns, [&](int64_t i, auto lanes) {
          store(sums + i, load(sums + i, lanes) + load(from + i, lanes), lanes);
        });
      }
    }
  });
  sum_blocks(threads, blocks.count, columns, partial, start, out);
}

}  // namespace olm2::cpu
