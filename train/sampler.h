// Draws text from a trained network, one token at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "train/executor.h"

namespace olm2 {

struct SampleOptions {
  int64_t tokens = 200;
  double temperature = 1.0;  // 0: always the likeliest token.
  int64_t top_k = 0;         // Only the k likeliest; 0: all.
  uint64_t seed = 1337;
};

// The id drawn from softmax(logits / temperature), among the top_k; `uniform` in [0, 1).
// Ties are broken towards the smaller id.  Throws Error if the logits hold no finite number.
uint32_t draw_token(std::span<const float> logits, const SampleOptions& options, double uniform);

// Continues `prompt` (at least one token) by options.tokens tokens and calls `each` with every new
// one.  `program` is a sampling program (models/model.h) of one sequence of `window` tokens, of
// which the newest `window` tokens are the context.  Ids >= vocab_size (padding) are never drawn.
// Random numbers are keyed by (seed, number of the token).
void generate(Executor& executor, size_t program, int64_t window, int64_t vocab_size,
              std::vector<uint32_t> prompt, const SampleOptions& options,
              const std::function<void(uint32_t)>& each);

}  // namespace olm2
