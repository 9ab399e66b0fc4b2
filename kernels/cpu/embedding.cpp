// embedding and its two gradients.
//
// The gradient of the token table is a scatter: several positions may hold one token.  Threads own
// slices of the columns, and each adds all positions in order; no sum depends on the threads.
#include <algorithm>
#include <memory>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vec.h"

namespace olm2::cpu {
namespace {

void check_token(int32_t token, int64_t vocabulary) {
  if (token < 0 || token >= vocabulary) {
    throw Error("embedding: token " + std::to_string(token) + " is outside of the vocabulary [0, " +
                std::to_string(vocabulary) + "); do the data belong to this tokenizer?");
  }
}

// to[i] += from[i]
void add_row(int64_t count, const float* from, float* to) {
  for_each_vec(count, [&](int64_t i, auto lanes) {
    store(to + i, load(to + i, lanes) + load(from + i, lanes), lanes);
  });
}

class Embedding : public Kernel {
 public:
  explicit Embedding(const KernelRequest& request)
      : threads_(request.threads),
        tokens_per_sequence_(request.in[0].shape[1]),
        channels_(request.in[1].shape[1]) {}

  // (tokens, token table, position table) -> x
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void*) override {
    const auto* const tokens = in[0].as<const int32_t>();
    const int64_t vocabulary = in[1].shape()[0];
    for (int64_t i = 0; i < in[0].elements(); ++i) check_token(tokens[i], vocabulary);
    const int64_t grain = kGrain / channels_ + 1;
    parallel_for(threads_, in[0].elements(), grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const float* const token = in[1].as<float>() + tokens[i] * channels_;
        const float* const position = in[2].as<float>() + (i % tokens_per_sequence_) * channels_;
        float* const x = out[0].as<float>() + i * channels_;
        for_each_vec(channels_, [&](int64_t c, auto lanes) {
          store(x + c, load(token + c, lanes) + load(position + c, lanes), lanes);
        });
      }
    });
  }

 private:
  int threads_;
  int64_t tokens_per_sequence_;
  int64_t channels_;
};

// Zero, or the accumulator.
void start_gradient(int threads, const Tensor& gradient, const Tensor* accumulator) {
  auto* const to = gradient.as<float>();
  if (accumulator != nullptr) {
    copy_elements(threads, gradient.elements(), accumulator->as<float>(), to);
    return;
  }
  parallel_for(threads, gradient.elements(), kGrain,
               [&](int64_t begin, int64_t end, int) { std::fill(to + begin, to + end, 0.0F); });
}

class EmbeddingGradTokens : public Kernel {
 public:
  explicit EmbeddingGradTokens(const KernelRequest& request) : threads_(request.threads) {}

  // (tokens, dx[, accumulator]) -> d token table
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void*) override {
    start_gradient(threads_, out[0], in.size() > 2 ? &in[2] : nullptr);
    const auto* const tokens = in[0].as<const int32_t>();
    const int64_t channels = out[0].shape()[1];
    const int64_t positions = in[0].elements();
    const int64_t vectors = (channels + kLanes - 1) / kLanes;
    const int64_t grain = kGrain / (positions * kLanes) + 1;
    parallel_for(threads_, vectors, grain, [&](int64_t begin, int64_t end, int) {
      const int64_t first = begin * kLanes;
      const int64_t count = std::min(end * kLanes, channels) - first;
      for (int64_t i = 0; i < positions; ++i) {
        add_row(count, in[1].as<float>() + i * channels + first,
                out[0].as<float>() + tokens[i] * channels + first);
      }
    });
  }

 private:
  int threads_;
};

class EmbeddingGradPositions : public Kernel {
 public:
  explicit EmbeddingGradPositions(const KernelRequest& request) : threads_(request.threads) {}

  // (dx[, accumulator]) -> d position table: the sum over sequences; rows nobody read get zero.
  void run(std::span<const Tensor> in, std::span<const Tensor> out, void*) override {
    start_gradient(threads_, out[0], in.size() > 1 ? &in[1] : nullptr);
    const Shape& dx = in[0].shape();
    const int64_t channels = dx[2];
    const int64_t grain = kGrain / (dx[0] * channels) + 1;
    parallel_for(threads_, dx[1], grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t b = 0; b < dx[0]; ++b) {
        add_row((end - begin) * channels, in[0].as<float>() + (b * dx[1] + begin) * channels,
                out[0].as<float>() + begin * channels);
      }
    });
  }

 private:
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> make_embedding(const KernelRequest& request) {
  return std::make_unique<Embedding>(request);
}
std::unique_ptr<Kernel> make_embedding_grad_tokens(const KernelRequest& request) {
  return std::make_unique<EmbeddingGradTokens>(request);
}
std::unique_ptr<Kernel> make_embedding_grad_positions(const KernelRequest& request) {
  return std::make_unique<EmbeddingGradPositions>(request);
}

}  // namespace olm2::cpu
