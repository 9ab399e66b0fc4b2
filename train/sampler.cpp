#include "train/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "core/error.h"
#include "kernels/random.h"
#include "train/step_runner.h"

namespace olm2 {
namespace {

double uniform_of(uint64_t seed, size_t token) {
  const RandomKey key{.seed_low = static_cast<uint32_t>(seed),
                      .seed_high = static_cast<uint32_t>(seed >> 32U),
                      .step = 0,
                      .first_sample = 0,
                      .stream = stream_of("sampling")};
  return static_cast<double>(random_block(key, 0, token)[0]) / 4294967296.0;
}

}  // namespace

uint32_t draw_token(std::span<const float> logits, const SampleOptions& options, double uniform) {
  std::vector<uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0U);
  std::erase_if(ids, [&](uint32_t id) { return !std::isfinite(logits[id]); });
  if (ids.empty()) throw Error("sampling: the network's logits hold no finite number");
  const auto likelier = [&](uint32_t a, uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (options.temperature == 0) return *std::ranges::min_element(ids, likelier);
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < ids.size()) {
    std::ranges::nth_element(ids, ids.begin() + options.top_k, likelier);
    ids.resize(static_cast<size_t>(options.top_k));
    std::ranges::sort(ids);
  }
  const double highest = logits[*std::ranges::min_element(ids, likelier)];
  std::vector<double> weights;
  weights.reserve(ids.size());
  for (const uint32_t id : ids) {
    weights.push_back(std::exp((logits[id] - highest) / options.temperature));
  }
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < ids.size(); ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids.back();
}

void generate(Executor& executor, size_t program, int64_t window, int64_t vocab_size,
              std::vector<uint32_t> prompt, const SampleOptions& options,
              const std::function<void(uint32_t)>& each) {
  if (prompt.empty()) throw Error("sampling: the prompt has no token; give at least one character");
  for (int64_t i = 0; i < options.tokens; ++i) {
    const size_t known = std::min(prompt.size(), static_cast<size_t>(window));
    const auto context = std::span(prompt).last(known);
    const auto tokens = view_as<int32_t>(executor.input(program, "tokens"));
    std::ranges::fill(tokens, 0);
    std::ranges::copy(context, tokens.begin());
    view_as<int32_t>(executor.input(program, "position"))[0] = static_cast<int32_t>(known) - 1;
    executor.run(program);
    const std::span<const std::byte> bytes = executor.result(program, "logits");
    const auto logits = view_as<float>(bytes).first(static_cast<size_t>(vocab_size));
    const uint32_t next =
        draw_token(logits, options, uniform_of(options.seed, static_cast<size_t>(i)));
    prompt.push_back(next);
    each(next);
  }
}

}  // namespace olm2
