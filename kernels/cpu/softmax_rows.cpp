// The sum of exponentials takes one pass over memory.  A chunk that fits the nearest cache is read
// for its maximum, then for its exponentials; when the maximum grows, the sum so far is scaled
// down.  Source: Milakov and Gimelshein 2018, algorithm 3.
#include "kernels/cpu/softmax_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"
#include "kernels/cpu/vec.h"

namespace olm2::cpu {
namespace {

constexpr int64_t kChunk = 2048;  // Logits: 8 KiB.
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

}  // namespace

float log_sum_exp(const float* logits, int64_t count) {
  float largest = kMinusInfinity;
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const float* const chunk = logits + begin;
    const int64_t size = std::min(kChunk, count - begin);
    Vec maxima = broadcast(kMinusInfinity);
    for_each_vec(size, [&](int64_t i, auto lanes) {
      maxima = max(load(chunk + i, lanes, kMinusInfinity), maxima);
    });
    const float chunk_largest = max(maxima);
    if (chunk_largest > largest) {
      total *= std::exp(static_cast<double>(largest) - static_cast<double>(chunk_largest));
      largest = chunk_largest;
    }
    Vec sums{};
    for_each_vec(size, [&](int64_t i, auto lanes) {
      sums += exp(load(chunk + i, lanes, kMinusInfinity) - largest);
    });
    total += static_cast<double>(sum(sums));
  }
  return static_cast<float>(static_cast<double>(largest) + std::log(total));
}

void differentiate_row(const float* logits, int64_t columns, int64_t classes, int32_t target,
                       float lse, float scale, float* gradient) {
  if (target < 0) {
    std::fill_n(gradient, columns, 0.0F);
    return;
  }
  for_each_vec(classes, [&](int64_t i, auto lanes) {
    store(gradient + i, exp(load(logits + i, lanes) - lse) * scale, lanes);
  });
  gradient[target] -= scale;
  std::fill(gradient + classes, gradient + columns, 0.0F);
}

int64_t count_targets(const Tensor& targets, int64_t classes) {
  const auto* const target = targets.as<const int32_t>();
  int64_t counted = 0;
  for (int64_t i = 0; i < targets.elements(); ++i) {
    if (target[i] >= classes) {
      throw Error("cross-entropy: target " + std::to_string(target[i]) +
                  " is outside of the classes [0, " + std::to_string(classes) +
                  "); do the data belong to this tokenizer?");
    }
    if (target[i] >= 0) ++counted;
  }
  return counted;
}

}  // namespace olm2::cpu
