// Inside of train/config: the list of all keys, and where each value came from.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/config.h"

namespace olm2 {

// Calls visit("section.key", field) for every key.  Reading, writing and suggesting walk this list,
// so that a key exists in all three or in none.
template <typename AnyConfig, typename Visit>
void visit_keys(AnyConfig& config, Visit&& visit) {
  auto& model = config.model;
  visit("model.type", model.type);
  visit("model.preset", config.preset);
  visit("model.n_layer", model.n_layer);
  visit("model.n_head", model.n_head);
  visit("model.n_embd", model.n_embd);
  visit("model.vocab_size", model.vocab_size);
  visit("model.context_length", model.context_length);
  visit("model.dropout", model.dropout);
  visit("model.tie_embeddings", model.tie_embeddings);
  visit("model.pad_vocab_to", model.pad_vocab_to);
  visit("model.init_from", config.init_from);
  auto& data = config.data;
  visit("data.train", data.train);
  visit("data.val", data.val);
  visit("data.tokenizer", data.tokenizer);
  visit("data.shuffle", data.shuffle);
  auto& train = config.train;
  visit("train.batch_size", train.batch_size);
  visit("train.sequence_length", train.sequence_length);
  visit("train.steps", train.steps);
  visit("train.grad_accumulation", train.grad_accumulation);
  visit("train.total_batch_tokens", train.total_batch_tokens);
  visit("train.dtype", train.dtype);
  visit("train.seed", train.seed);
  visit("train.threads", train.threads);
  visit("train.head_chunks", train.head_chunks);
  visit("train.on_nonfinite", train.on_nonfinite);
  visit("train.fresh_optimizer", train.fresh_optimizer);
  auto& optimizer = config.optimizer;
  visit("optimizer.lr", optimizer.rate.lr);
  visit("optimizer.min_lr", optimizer.rate.min_lr);
  visit("optimizer.schedule", optimizer.rate.schedule);
  visit("optimizer.warmup_steps", optimizer.rate.warmup_steps);
  visit("optimizer.decay_steps", optimizer.rate.decay_steps);
  visit("optimizer.weight_decay", optimizer.weight_decay);
  visit("optimizer.beta1", optimizer.beta1);
  visit("optimizer.beta2", optimizer.beta2);
  visit("optimizer.eps", optimizer.eps);
  visit("optimizer.grad_clip", optimizer.grad_clip);
  auto& memory = config.memory;
  visit("memory.policy", memory.policy);
  visit("memory.device_budget", memory.device_budget);
  visit("memory.host_budget", memory.host_budget);
  visit("memory.state", memory.state);
  visit("memory.partial_swap", memory.partial_swap);
  visit("memory.optimizer_offload", memory.optimizer_offload);
  auto& planner = config.planner;
  visit("planner.gap", planner.gap);
  visit("planner.time_limit_s", planner.time_limit_s);
  visit("planner.memory_limit", planner.memory_limit);
  visit("planner.space", planner.space);
  visit("planner.place_effort", planner.place_effort);
  visit("planner.profile", planner.profile);
  visit("device.backend", config.device.backend);
  auto& output = config.output;
  visit("output.dir", output.dir);
  visit("output.log_every", output.log_every);
  visit("output.eval_every", output.eval_every);
  visit("output.eval_batches", output.eval_batches);
  visit("output.checkpoint_every", output.checkpoint_every);
  visit("output.keep_checkpoints", output.keep_checkpoints);
  visit("output.sample_every", output.sample_every);
}

// "section.key" -> ("section", "key"); without a dot the section is empty.
std::pair<std::string_view, std::string_view> split_key(std::string_view full_key);

// Where the value of a key was given: "demo.toml, line 12" or "--set train.steps=10".
struct KeyOrigins {
  std::string file;  // As the user named it.
  std::map<std::string, std::string, std::less<>> given;

  bool is_given(std::string_view key) const { return given.contains(key); }
  // "demo.toml, line 12: train.steps"; for a default "demo.toml: train.steps".
  std::string describe(std::string_view key) const;
};

// Insertions, deletions, substitutions and swaps of neighbours from one word to the other.
// Source: Damerau 1964; restricted to swaps of letters that are neighbours in both words.
size_t edit_distance(std::string_view a, std::string_view b);

// "; did you mean optimizer.lr?", or "" if no key is close.  Knows names that other frameworks use.
std::string did_you_mean(std::string_view full_key);

// For a key of a later version: what to do without it.  Empty: not such a key.
std::string_view use_instead(std::string_view full_key);

// Throws Error for missing required keys (all of them in one message).
void check_required(const KeyOrigins& origins);

// Fills in what follows from other keys: sizes of a preset, micro batches of a total batch.
// Throws Error if they contradict each other.
void resolve(Config& config, const KeyOrigins& origins);

// Throws Error for a value out of range, one that does not go with another, or one that this
// version cannot serve.
void check_values(const Config& config, const KeyOrigins& origins);

}  // namespace olm2
