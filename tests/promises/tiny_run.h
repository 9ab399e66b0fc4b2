// Small training runs for the tests that cross folders: a model, its programs, and what a plan of
// them leaves behind.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "train/initialize.h"
#include "train/measure.h"
#include "train/planning.h"
#include "train/step_runner.h"

namespace olm2 {

inline Config tiny_config(const ModelConfig& model, int64_t batch, int64_t tokens,
                          int64_t grad_accumulation) {
  Config config;
  config.model = model;
  config.train.batch_size = batch;
  config.train.sequence_length = tokens;
  config.train.steps = 10;
  config.train.grad_accumulation = grad_accumulation;
  config.optimizer.rate.schedule = RateSchedule::constant;
  config.optimizer.rate.lr = 1e-3;
  config.planner.profile = "estimate";
  return config;
}

inline Config with_head_chunks(Config config, int64_t chunks) {
  config.train.head_chunks = chunks;
  return config;
}

// Odd sizes throughout; dropout, so that recomputing has something to get wrong.
inline Config tiny_gpt2() {
  return tiny_config({.type = "gpt2",
                      .n_layer = 3,
                      .n_head = 3,
                      .n_embd = 21,
                      .vocab_size = 37,
                      .context_length = 13,
                      .dropout = 0.1},
                     2, 11, 2);
}
inline Config tiny_gpt2_wide() {
  return with_head_chunks(tiny_config({.type = "gpt2",
                                       .n_layer = 2,
                                       .n_head = 1,
                                       .n_embd = 40,
                                       .vocab_size = 101,
                                       .context_length = 7,
                                       .dropout = 0.2,
                                       .tie_embeddings = false},
                                      3, 7, 1),
                          4);
}
inline Config tiny_mlp() {
  return tiny_config({.type = "mlp",
                      .n_layer = 5,
                      .n_head = 1,
                      .n_embd = 19,
                      .vocab_size = 29,
                      .context_length = 9,
                      .tie_embeddings = false},
                     4, 9, 3);
}

inline std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Policy& policy : all_policies()) names.emplace_back(policy.name);
  return names;
}
// As part of a test's name: letters and digits only.
inline std::string test_name(std::string policy) {
  std::erase(policy, '-');
  return policy;
}

// A configuration with its graphs and costs, ready to be planned many times.
struct TinyRun {
  explicit TinyRun(Config c)
      : config(std::move(c)),
        backend(CpuOptions{.threads = 2}),
        programs(programs_of(config, backend.alignment())) {
    Profile profile = profile_of(config, programs, backend, {});
    // Numbers that make neither recomputing nor copying pointless at these sizes.
    for (auto& [key, kernel] : profile.kernels) kernel.seconds *= 20;
    profile.device_to_host =
        profile.host_to_device = {.bytes_per_s = 2e8, .latency_s = 1e-6, .compute_slowdown = 1.1};
    problems = problems_of(programs, profile, backend.alignment());
  }

  Config config;
  CpuBackend backend;
  RunPrograms programs;
  std::vector<Problem> problems;
};

// Losses, and parameters and moments after some steps, as bytes.  (Gradients are used up by then.)
struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<std::byte>> state;
  BytesPerTier peak{};
  bool operator==(const Outcome& other) const {
    return losses == other.losses && state == other.state;
  }
};

inline void fill_tokens(int64_t index, int64_t vocab, std::span<int32_t> tokens,
                        std::span<int32_t> targets) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto n = static_cast<uint64_t>(index) * tokens.size() + i;
    tokens[i] = static_cast<int32_t>(n * n * 7 % static_cast<uint64_t>(vocab));
    targets[i] = static_cast<int32_t>((n + 1) * (n + 1) * 7 % static_cast<uint64_t>(vocab));
  }
}

inline void start_state(TinyRun& run, Executor& executor) {
  for (const NamedParameter& p : run.programs.parameters) {
    initialize(view_as<float>(executor.state(p.name)), p.init, 1337, p.name);
  }
  for (const auto& [name, offset] : run.programs.state_offset) {
    if (name.ends_with(".m") || name.ends_with(".v")) {
      const std::span<std::byte> bytes = executor.state(name);
      std::memset(bytes.data(), 0, bytes.size());
    }
  }
}

// Initializes, runs `steps` optimizer steps and keeps what is left.
inline Outcome run_steps(TinyRun& run, std::vector<ExecutableProgram> programs, int64_t steps,
                         const ExecutorOptions& options = {}) {
  Executor executor(std::move(programs), run.backend, options);
  start_state(run, executor);
  StepRunner runner(executor, run.config);
  Outcome outcome;
  const int64_t vocab = run.config.model.vocab_size;
  for (int64_t step = 0; step < steps; ++step) {
    const StepResult result =
        runner.run(step, [&](int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) {
          fill_tokens(index, vocab, tokens, targets);
        });
    outcome.losses.push_back(result.loss);
    if (run.config.output.eval_every > 0) {
      outcome.losses.push_back(
          runner.evaluate(1, [&](int64_t, std::span<int32_t> tokens, std::span<int32_t> targets) {
            fill_tokens(99, vocab, tokens, targets);
          }));
    }
    for (size_t t = 0; t < kTierCount; ++t) {
      outcome.peak[t] = std::max(outcome.peak[t], result.report.peak[t]);
    }
  }
  for (const StateSource& source : run.programs.sources) {
    if (source.role == Role::gradient) continue;
    const std::span<std::byte> bytes = executor.state(source.name);
    outcome.state[source.name].assign(bytes.begin(), bytes.end());
  }
  return outcome;
}

inline PlanOptions options_for(std::string_view policy) {
  PlanOptions options;
  options.policy = policy;
  options.gap = 0.01;
  options.time_limit_s = 20;
  return options;
}

// The smallest budget at which all programs of a run can be planned.
inline int64_t minimum_of(const TinyRun& run, const PlanOptions& options, int64_t host_bytes) {
  int64_t bytes = 0;
  for (Problem problem : run.problems) {
    problem.budget = {0, host_bytes, 0};
    bytes = std::max(bytes, find_minimum(problem, options).bytes);
  }
  return bytes;
}

}  // namespace olm2
