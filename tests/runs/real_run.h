// A small GPT-2 with the schedules of a plan that recomputes some of its tensors and swaps others.
#pragma once

#include "tests/promises/tiny_run.h"

namespace olm2 {

// One program, dropout, sizes that neither vectors nor the alignment divide; large enough that
// activations, not the kernels' scratch, fill the memory.
inline Config odd_gpt2() {
  Config config = tiny_config({.type = "gpt2",
                               .n_layer = 3,
                               .n_head = 3,
                               .n_embd = 33,
                               .vocab_size = 37,
                               .context_length = 25,
                               .dropout = 0.1},
                              4, 17, 1);
  config.memory.device_budget = {.bytes = 0, .percent = 50};
  config.memory.host_budget = {.bytes = int64_t{1} << 22};
  config.planner.gap = 0.03;  // Good enough to recompute and to swap.
  return config;
}

// Estimated kernels, and links so slow that mixing is best.
struct MixedRun : TinyRun {
  explicit MixedRun(const Config& c) : TinyRun(c) {
    Profile profile = profile_of(config, programs, backend, {});
    profile.device_to_host =
        profile.host_to_device = {.bytes_per_s = 5e8, .latency_s = 2e-6, .compute_slowdown = 1.1};
    problems = problems_of(programs, profile, backend.alignment());
    const MemoryConfig& memory = config.memory;
    const Budgets budgets = resolve_budgets(memory.device_budget, memory.host_budget, problems);
    plan = plan_run(programs, problems, budgets, plan_options_of(config));
  }
  RunPlan plan;
};

}  // namespace olm2
