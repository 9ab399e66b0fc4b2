// layer_norm and its gradient.  A row fits the nearest cache, so it is read from there as often as
// precision asks for: mean first, then the variance around it.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vec.h"

namespace olm2::cpu {
namespace {

class LayerNorm : public Kernel {
 public:
  explicit LayerNorm(const KernelRequest& request)
      : threads_(request.threads),
        size_(matrix_of(request.in[0])),
        epsilon_(static_cast<float>(attr_or(request.attrs, "epsilon", 1e-5))) {}

  // (x, weight, bias) -> y, mean, rstd
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void*) override {
    const int64_t grain = kGrain / size_.columns + 1;
    parallel_for(threads_, size_.rows, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * size_.columns;
        normalize(in[0].as<float>() + at, in[1].as<float>(), in[2].as<float>(),
                  out[0].as<float>() + at, out[1].as<float>()[row], out[2].as<float>()[row]);
      }
    });
  }

 private:
  void normalize(const float* x, const float* weight, const float* bias, float* y, float& mean_out,
                 float& rstd_out) const {
    const int64_t columns = size_.columns;
    const auto count = static_cast<float>(columns);
    Vec sums{};
    for_each_vec(columns, [&](int64_t i, auto lanes) { sums += load(x + i, lanes); });
    const float mean = sum(sums) / count;
    Vec squares{};
    for_each_vec(columns, [&](int64_t i, auto lanes) {
      const Vec centred = load(x + i, lanes, mean) - mean;
      squares += centred * centred;
    });
    const float rstd = 1.0F / std::sqrt(sum(squares) / count + epsilon_);
    for_each_vec(columns, [&](int64_t i, auto lanes) {
      const Vec normal = (load(x + i, lanes) - mean) * rstd;
      store(y + i, normal * load(weight + i, lanes) + load(bias + i, lanes), lanes);
    });
    mean_out = mean;
    rstd_out = rstd;
  }

  int threads_;
  Matrix size_;
  float epsilon_;
};

// With n = (x - mean) rstd and g = dy weight:  dx = rstd (g - mean(g) - n mean(g n));
// dw and db are column sums of dy n and dy, over blocks of rows as in column_sums.h.
class LayerNormGrad : public Kernel {
 public:
  explicit LayerNormGrad(const KernelRequest& request)
      : threads_(request.threads), size_(matrix_of(request.in[0])) {
    size_t next = 5;
    if (request.flag("accumulate_x")) accumulator_x_ = next++;
    if (request.flag("accumulate_weight")) accumulator_weight_ = next++;
    if (request.flag("accumulate_bias")) accumulator_bias_ = next++;
  }

  int64_t workspace_bytes() const override { return 2 * column_sums_workspace(size_.columns); }

  void run(std::span<const Tensor> in, std::span<const Tensor> out, void* workspace) override {
    const int64_t columns = size_.columns;
    const auto optional = [&](size_t index) {
      return index == 0 ? nullptr : in[index].as<const float>();
    };
    auto* const weight_sums = static_cast<float*>(workspace);
    float* const bias_sums = weight_sums + column_sums_workspace(columns) / int64_t{sizeof(float)};
    const float* const start_x = optional(accumulator_x_);
    const RowBlocks blocks = row_blocks(size_.rows);
    const int64_t grain = kGrain / (blocks.rows_per_block * columns) + 1;
    parallel_for(threads_, blocks.count, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block) {
        float* const weight_sum = weight_sums + block * columns;
        float* const bias_sum = bias_sums + block * columns;
        std::fill_n(weight_sum, columns, 0.0F);
        std::fill_n(bias_sum, columns, 0.0F);
        const int64_t last = std::min(size_.rows, (block + 1) * blocks.rows_per_block);
        for (int64_t row = block * blocks.rows_per_block; row < last; ++row) {
          const int64_t at = row * columns;
          differentiate_row({.x = in[0].as<float>() + at,
                             .weight = in[1].as<float>(),
                             .dy = in[4].as<float>() + at,
                             .start = start_x == nullptr ? nullptr : start_x + at,
                             .mean = in[2].as<float>()[row],
                             .rstd = in[3].as<float>()[row]},
                            out[0].as<float>() + at, weight_sum, bias_sum);
        }
      }
    });
    sum_blocks(threads_, blocks.count, columns, weight_sums, optional(accumulator_weight_),
               out[1].as<float>());
    sum_blocks(threads_, blocks.count, columns, bias_sums, optional(accumulator_bias_),
               out[2].as<float>());
  }

 private:
  struct Row {
    const float* x = nullptr;
    const float* weight = nullptr;
    const float* dy = nullptr;
    const float* start = nullptr;  // What dx is added to; null: nothing.
    float mean = 0;
    float rstd = 0;
  };

  // `dx` may be row.dy or row.start: every pass reads an element before it writes it.
  void differentiate_row(const Row& row, float* dx, float* weight_sum, float* bias_sum) const {
    const int64_t columns = size_.columns;
    Vec g_sums{};
    Vec gn_sums{};
    for_each_vec(columns, [&](int64_t i, auto lanes) {
      const Vec dy = load(row.dy + i, lanes);
      const Vec normal = (load(row.x + i, lanes) - row.mean) * row.rstd;
      const Vec g = dy * load(row.weight + i, lanes);
      g_sums += g;
      gn_sums += g * normal;
      store(weight_sum + i, load(weight_sum + i, lanes) + dy * normal, lanes);
      store(bias_sum + i, load(bias_sum + i, lanes) + dy, lanes);
    });
    const float g_mean = sum(g_sums) / static_cast<float>(columns);
    const float gn_mean = sum(gn_sums) / static_cast<float>(columns);
    for_each_vec(columns, [&](int64_t i, auto lanes) {
      const Vec normal = (load(row.x + i, lanes) - row.mean) * row.rstd;
      const Vec g = load(row.dy + i, lanes) * load(row.weight + i, lanes);
      const Vec gradient = (g - g_mean - normal * gn_mean) * row.rstd;
      const Vec start = row.start == nullptr ? Vec{} : load(row.start + i, lanes);
      store(dx + i, start + gradient, lanes);
    });
  }

  int threads_;
  Matrix size_;
  // Which inputs are accumulators; 0: none.
  size_t accumulator_x_ = 0;
  size_t accumulator_weight_ = 0;
  size_t accumulator_bias_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_layer_norm(const KernelRequest& request) {
  return std::make_unique<LayerNorm>(request);
}
std::unique_ptr<Kernel> make_layer_norm_grad(const KernelRequest& request) {
  return std::make_unique<LayerNormGrad>(request);
}

}  // namespace olm2::cpu
