// linear_cross_entropy and the same with its gradients: chunk by chunk three products through the
// seam of gemm.h, with a softmax in place between the first and the others.
//
// The logits of one chunk live in the workspace.  A row's gradient is made while the row is still
// in a cache, right after its sum of exponentials.
#include <algorithm>
#include <memory>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/threads.h"

namespace olm2::cpu {
namespace {

// Both ops, told apart by which gradients are made.
struct HeadShape {
  explicit HeadShape(const KernelRequest& request)
      : x(matrix_of(request.in[0])),
        columns(request.in[1].shape[request.flag("transposed") ? 0 : 1]),
        classes(static_cast<int64_t>(attr_or(request.attrs, "classes", 0))),
        chunks(static_cast<int64_t>(attr_or(request.attrs, "chunks", 1))),
        transposed(request.flag("transposed")),
        bias(request.flag("bias")),
        to_x(request.flag("grad_x")),
        to_weight(request.flag("grad_weight")),
        to_bias(request.flag("grad_bias")),
        add_weight(request.flag("accumulate_weight")),
        add_bias(request.flag("accumulate_bias")) {}

  int64_t begin_of(int64_t chunk) const { return x.rows * chunk / chunks; }
  int64_t rows_of(int64_t chunk) const { return begin_of(chunk + 1) - begin_of(chunk); }
  int64_t most_rows() const { return (x.rows + chunks - 1) / chunks; }
  int64_t logits_bytes() const {
    return padded(most_rows() * columns * int64_t{sizeof(float)}, 64);
  }

  Matrix x;
  int64_t columns;
  int64_t classes;
  int64_t chunks;
  bool transposed;
  bool bias;
  bool to_x;
  bool to_weight;
  bool to_bias;
  bool add_weight;
  bool add_bias;
};

// The products of a chunk of so many rows; null: not wanted.
struct ChunkProducts {
  ChunkProducts(const HeadShape& head, int64_t rows, int threads, bool use_onednn) {
    const auto prepare = [&](const ProductShape& shape) {
      return make_product(shape, threads, use_onednn);
    };
    logits = prepare({.m = rows,
                      .n = head.columns,
                      .k = head.x.columns,
                      .transpose_b = head.transposed,
                      .bias = head.bias});
    if (head.to_x) {
      to_x = prepare(
          {.m = rows, .n = head.x.columns, .k = head.columns, .transpose_b = !head.transposed});
    }
    if (!head.to_weight) return;
    ProductShape shape{.m = head.transposed ? head.columns : head.x.columns,
                       .n = head.transposed ? head.x.columns : head.columns,
                       .k = rows,
                       .transpose_a = true};
    if (!head.add_weight) set_weight = prepare(shape);
    shape.accumulate = true;
    add_weight = prepare(shape);
  }
  int64_t workspace_bytes() const {
    int64_t most = 0;
    for (const auto* product : {&logits, &to_x, &set_weight, &add_weight}) {
      if (*product != nullptr) most = std::max(most, (*product)->workspace_bytes());
    }
    return most;
  }

  std::unique_ptr<Product> logits;
  std::unique_ptr<Product> to_x;
  std::unique_ptr<Product> set_weight;  // The first chunk's, where nothing is added to.
  std::unique_ptr<Product> add_weight;
};

class LinearCrossEntropy : public Kernel {
 public:
  explicit LinearCrossEntropy(const KernelRequest& request)
      : threads_(request.threads),
        seed_(static_cast<float>(attr_or(request.attrs, "seed", 0))),
        head_(request),
        // Chunks have one of two sizes that differ by a row.
        small_(head_, head_.rows_of(0), threads_, request.use_onednn),
        large_(head_, head_.most_rows(), threads_, request.use_onednn) {}

  // [logits of a chunk][what each row adds to the loss][scratch of products and sums]
  int64_t workspace_bytes() const override {
    int64_t scratch = std::max(small_.workspace_bytes(), large_.workspace_bytes());
    if (head_.to_bias) scratch = std::max(scratch, column_sums_workspace(head_.columns));
    return head_.logits_bytes() + losses_bytes() + scratch;
  }

  void run(std::span<const Tensor> in, std::span<const Tensor> out, void* workspace) override {
    const Run run = bind(in, out, workspace);
    const int64_t counted = count_targets(in[2], head_.classes);
    const float scale = seed_ / static_cast<float>(std::max<int64_t>(1, counted));
    double total = 0;
    for (int64_t chunk = 0; chunk < head_.chunks; ++chunk) {
      ChunkProducts& products = head_.rows_of(chunk) == head_.rows_of(0) ? small_ : large_;
      const float* const x = run.x + head_.begin_of(chunk) * head_.x.columns;
      products.logits->run(x, run.weight, run.bias, run.logits, run.scratch);
      softmax(run, chunk, scale);
      for (int64_t row = 0; row < head_.rows_of(chunk); ++row) total += run.losses[row];
      differentiate(run, chunk, products);
    }
    out[0].as<float>()[0] =
        counted == 0 ? 0.0F : static_cast<float>(total / static_cast<double>(counted));
  }

 private:
  // Where everything is; null: not wanted.
  struct Run {
    const float* x = nullptr;
    const float* weight = nullptr;
    const int32_t* targets = nullptr;
    const float* bias = nullptr;
    float* dx = nullptr;
    float* dweight = nullptr;
    float* dbias = nullptr;
    float* logits = nullptr;
    double* losses = nullptr;
    char* scratch = nullptr;
  };

  int64_t losses_bytes() const { return padded(head_.most_rows() * int64_t{sizeof(double)}, 64); }

  // Finds the operands; a gradient that is added to starts as what it is added to.
  Run bind(std::span<const Tensor> in, std::span<const Tensor> out, void* workspace) const {
    auto* const scratch = static_cast<char*>(workspace);
    Run run{.x = in[0].as<float>(),
            .weight = in[1].as<float>(),
            .targets = in[2].as<int32_t>(),
            .logits = reinterpret_cast<float*>(scratch),
            .losses = reinterpret_cast<double*>(scratch + head_.logits_bytes()),
            .scratch = scratch + head_.logits_bytes() + losses_bytes()};
    size_t next_in = 3;
    size_t next_out = 1;
    const auto start = [&](bool adds) {
      const Tensor& to = out[next_out++];
      if (adds) copy_elements(threads_, to.elements(), in[next_in++].as<float>(), to.as<float>());
      return to.as<float>();
    };
    if (head_.bias) run.bias = in[next_in++].as<float>();
    if (head_.to_x) run.dx = out[next_out++].as<float>();
    if (head_.to_weight) run.dweight = start(head_.add_weight);
    if (head_.to_bias) run.dbias = start(head_.add_bias);
    return run;
  }

  bool makes_gradients() const { return head_.to_x || head_.to_weight || head_.to_bias; }

  // What each row of a chunk adds to the loss; then its logits become their gradient, if wanted.
  void softmax(const Run& run, int64_t chunk, float scale) const {
    const int32_t* const targets = run.targets + head_.begin_of(chunk);
    const int64_t grain = kGrain / 4 / head_.classes + 1;
    parallel_for(threads_, head_.rows_of(chunk), grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        float* const logits = run.logits + row * head_.columns;
        const int32_t target = targets[row];
        const float lse = log_sum_exp(logits, head_.classes);
        run.losses[row] =
            target < 0 ? 0.0 : static_cast<double>(lse) - static_cast<double>(logits[target]);
        if (!makes_gradients()) continue;
        differentiate_row(logits, head_.columns, head_.classes, target, lse, scale, logits);
      }
    });
  }

  // dx last: it may lie on x.
  void differentiate(const Run& run, int64_t chunk, const ChunkProducts& products) const {
    const int64_t offset = head_.begin_of(chunk) * head_.x.columns;
    const bool is_first = chunk == 0;
    if (head_.to_weight) {
      const float* a = head_.transposed ? run.logits : run.x + offset;
      const float* b = head_.transposed ? run.x + offset : run.logits;
      Product& product =
          is_first && !head_.add_weight ? *products.set_weight : *products.add_weight;
      product.run(a, b, nullptr, run.dweight, run.scratch);
    }
    if (head_.to_bias) {
      const float* const start = is_first && !head_.add_bias ? nullptr : run.dbias;
      column_sums(threads_, head_.rows_of(chunk), head_.columns, run.logits, start, run.dbias,
                  run.scratch);
    }
    if (head_.to_x) {
      products.to_x->run(run.logits, run.weight, nullptr, run.dx + offset, run.scratch);
    }
  }

  int threads_;
  float seed_;
  HeadShape head_;
  ChunkProducts small_;
  ChunkProducts large_;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_cross_entropy(const KernelRequest& request) {
  return std::make_unique<LinearCrossEntropy>(request);
}
std::unique_ptr<Kernel> make_linear_cross_entropy_grad(const KernelRequest& request) {
  return std::make_unique<LinearCrossEntropy>(request);
}

}  // namespace olm2::cpu
