// Checking: what a configuration must hold, and what it may not ask for in this version.
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <sstream>

#include "core/error.h"
#include "train/config_keys.h"

namespace olm2 {
namespace {

constexpr std::array<std::string_view, 5> kSizeKeys = {
    "model.n_layer", "model.n_head", "model.n_embd", "model.vocab_size", "model.context_length"};
// Counts are kept in 32 bits where they meet kernels and random numbers.
constexpr int64_t kLargestCount = std::numeric_limits<int32_t>::max();

template <typename T>
std::string to_text(const T& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string joined(std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    text += (text.empty() ? "\"" : " or \"") + std::string(name) + "\"";
  }
  return text;
}

// Refusals that name where the value came from.
struct Check {
  const KeyOrigins& origins;

  [[noreturn]] void refuse(std::string_view key, const std::string& found,
                           const std::string& expected) const {
    throw Error(origins.describe(key) + ": found " + found + ", expected " + expected);
  }
  void later(std::string_view key, const std::string& found, const std::string& instead) const {
    throw Error(origins.describe(key) + " = " + found + ": not available in this version; " +
                instead);
  }
  void count(std::string_view key, int64_t value, int64_t least) const {
    if (value >= least && value <= kLargestCount) return;
    refuse(key, to_text(value),
           value < least ? "at least " + to_text(least) : "at most " + to_text(kLargestCount));
  }
  // least <= value < limit
  void share(std::string_view key, double value, double least, double limit) const {
    if (value >= least && value < limit) return;  // False for NaN.
    refuse(key, to_text(value), to_text(least) + " <= value < " + to_text(limit));
  }
  void not_negative(std::string_view key, double value) const {
    if (std::isfinite(value) && value >= 0) return;
    refuse(key, to_text(value), "a finite number, 0 or more");
  }
  void positive(std::string_view key, double value) const {
    if (std::isfinite(value) && value > 0) return;
    refuse(key, to_text(value), "a finite number above 0");
  }
  void one_of(std::string_view key, const std::string& value,
              std::initializer_list<std::string_view> names) const {
    if (std::ranges::find(names, value) != names.end()) return;
    refuse(key, "\"" + value + "\"", joined(names));
  }
};

void check_model(const Config& config, const Check& check) {
  const ModelConfig& model = config.model;
  check.count("model.vocab_size", model.vocab_size, 1);
  check.count("model.pad_vocab_to", model.pad_vocab_to, 1);
  check.share("model.dropout", model.dropout, 0, 1);
  if (model.n_head > 0 && model.n_embd % model.n_head != 0) {
    check.refuse("model.n_embd", to_text(model.n_embd),
                 "a multiple of model.n_head = " + to_text(model.n_head));
  }
  try {
    find_model(model.type).validate(model);
  } catch (const Error& error) {
    throw Error(check.origins.file + ": " + error.what());
  }
}

void check_train(const Config& config, const Check& check) {
  const TrainConfig& train = config.train;
  check.count("train.steps", train.steps, 1);
  check.count("train.threads", train.threads, 0);
  if (train.seed < 0) check.refuse("train.seed", to_text(train.seed), "0 or more");
  if (train.sequence_length > config.model.context_length) {
    check.refuse(
        "train.sequence_length", to_text(train.sequence_length),
        "at most model.context_length = " + to_text(config.model.context_length) +
            ": the model has no position for later tokens; shorten it or raise context_length");
  }
  check.one_of("train.dtype", train.dtype, {"float32", "bfloat16"});
  check.count("train.head_chunks", train.head_chunks, 0);
  const int64_t rows = train.batch_size * train.sequence_length;
  if (train.head_chunks > rows) {
    check.refuse("train.head_chunks", to_text(train.head_chunks),
                 "at most batch_size x sequence_length = " + to_text(rows) +
                     ": a chunk has a token at least");
  }
}

void check_data(const Config& config, const Check& check) {
  check.one_of("data.tokenizer", config.data.tokenizer, {"gpt2", "bytes"});
  if (config.data.train.empty()) {
    check.refuse("data.train", "an empty list", "at least one file or glob");
  }
  const auto check_globs = [&](std::string_view key, const std::vector<std::string>& globs) {
    if (std::ranges::find(globs, "") == globs.end()) return;
    check.refuse(key, "an empty string", "files or globs, e.g. [\"data/*_train_*.bin\"]");
  };
  check_globs("data.train", config.data.train);
  check_globs("data.val", config.data.val);
}

void check_rate(const Config& config, const Check& check) {
  const ScheduleConfig& rate = config.optimizer.rate;
  const int64_t steps = config.train.steps;
  check.positive("optimizer.lr", rate.lr);
  check.not_negative("optimizer.min_lr", rate.min_lr);
  if (rate.min_lr > rate.lr) {
    check.refuse("optimizer.min_lr", to_text(rate.min_lr),
                 "at most optimizer.lr = " + to_text(rate.lr));
  }
  check.count("optimizer.warmup_steps", rate.warmup_steps, 0);
  check.count("optimizer.decay_steps", rate.decay_steps, 0);
  if (rate.warmup_steps > steps) {
    check.refuse("optimizer.warmup_steps", to_text(rate.warmup_steps),
                 "at most train.steps = " + to_text(steps) + ": the warm-up would never end");
  }
  const std::string decay = to_text(rate.decay_steps);
  switch (rate.schedule) {
    case RateSchedule::constant:
      if (rate.decay_steps > 0) {
        check.refuse("optimizer.decay_steps", decay,
                     "0: a constant rate never decays; use schedule = \"linear\" or \"wsd\"");
      }
      if (rate.min_lr > 0) {
        check.refuse("optimizer.min_lr", to_text(rate.min_lr),
                     "0: a constant rate never falls; use schedule = \"cosine\" or \"linear\"");
      }
      break;
    case RateSchedule::cosine:
    case RateSchedule::linear:
      if (rate.decay_steps > 0 && rate.decay_steps < rate.warmup_steps) {
        check.refuse("optimizer.decay_steps", decay,
                     "0 or at least optimizer.warmup_steps = " + to_text(rate.warmup_steps) +
                         ": it is the step at which the decay, begun after the warm-up, ends");
      }
      break;
    case RateSchedule::wsd:
      if (rate.decay_steps > steps - rate.warmup_steps) {
        check.refuse(
            "optimizer.decay_steps", decay,
            "at most train.steps - optimizer.warmup_steps = " + to_text(steps - rate.warmup_steps) +
                ": the decay would begin before the warm-up ends");
      }
      break;
  }
}

void check_optimizer(const Config& config, const Check& check) {
  check_rate(config, check);
  const OptimizerConfig& optimizer = config.optimizer;
  check.not_negative("optimizer.weight_decay", optimizer.weight_decay);
  check.share("optimizer.beta1", optimizer.beta1, 0, 1);
  check.share("optimizer.beta2", optimizer.beta2, 0, 1);
  check.positive("optimizer.eps", optimizer.eps);
  check.not_negative("optimizer.grad_clip", optimizer.grad_clip);
}

void check_memory(const Config& config, const Check& check) {
  const MemoryConfig& memory = config.memory;
  if (!memory.device_budget.is_percent() && memory.device_budget.bytes == 0) {
    check.refuse("memory.device_budget", "0 bytes", "a size above 0, e.g. \"512 MiB\" or \"40%\"");
  }
  if (memory.host_budget.is_percent()) {
    check.refuse("memory.host_budget", to_string(memory.host_budget),
                 "0 or a size in bytes, e.g. \"512 MiB\"");
  }
  check.one_of("memory.state", memory.state, {"resident", "planned"});
  if (memory.optimizer_offload) {
    const double share = *memory.optimizer_offload;
    if (!(share >= 0 && share <= 1)) {
      check.refuse("memory.optimizer_offload", to_text(share), "\"auto\" or 0.0 to 1.0");
    }
    if (share > 0) check.later("memory.optimizer_offload", to_text(share), "use \"auto\" or 0.0");
  }
}

void check_planner(const Config& config, const Check& check) {
  const PlannerConfig& planner = config.planner;
  check.share("planner.gap", planner.gap, 0, 1);
  check.positive("planner.time_limit_s", planner.time_limit_s);
  if (planner.memory_limit.is_percent()) {
    check.refuse("planner.memory_limit", to_string(planner.memory_limit),
                 "bytes, e.g. \"4 GiB\", or 0 for half of the machine's memory");
  }
  if (planner.place_effort < 1 || planner.place_effort > 1000) {
    check.refuse("planner.place_effort", std::to_string(planner.place_effort), "1 to 1000");
  }
  check.one_of("planner.space", planner.space,
               {"auto", "single0", "single1", "jit0", "jit1", "full"});
  if (planner.profile.empty()) {
    check.refuse("planner.profile", "\"\"", "\"measure\", \"estimate\" or a profile's file name");
  }
  check.one_of("device.backend", config.device.backend, {"auto", "cpu", "cuda"});
  if (config.device.backend == "cuda") check.later("device.backend", "\"cuda\"", "use \"cpu\"");
}

void check_output(const Config& config, const Check& check) {
  const OutputConfig& output = config.output;
  if (output.dir.empty()) {
    check.refuse("output.dir", "\"\"", "a folder for everything a run leaves");
  }
  check.count("output.log_every", output.log_every, 1);
  check.count("output.eval_every", output.eval_every, 0);
  check.count("output.eval_batches", output.eval_batches, 1);
  check.count("output.checkpoint_every", output.checkpoint_every, 0);
  check.count("output.keep_checkpoints", output.keep_checkpoints, 1);
  check.count("output.sample_every", output.sample_every, 0);
  if (output.eval_every > 0 && config.data.val.empty()) {
    check.refuse("output.eval_every", to_text(output.eval_every),
                 "0 while data.val is empty; name the files to evaluate on in data.val");
  }
}

// Micro batches per step from the tokens of a whole batch.
int64_t micro_batches(const Config& config, const Check& check) {
  const int64_t total = config.train.total_batch_tokens;
  const int64_t micro = config.train.batch_size * config.train.sequence_length;
  if (total > 0 && total % micro == 0 && total / micro <= kLargestCount) return total / micro;
  const int64_t below = std::min(total / micro, kLargestCount) * micro;
  std::string expected =
      "a multiple of batch_size x sequence_length = " + to_text(config.train.batch_size) + " x " +
      to_text(config.train.sequence_length) + " = " + to_text(micro) + "; nearest: ";
  if (total < micro) {
    expected += to_text(micro);
  } else if (below == kLargestCount * micro) {
    expected += to_text(below);
  } else {
    expected += to_text(below) + " or " + to_text(below + micro);
  }
  check.refuse("train.total_batch_tokens", to_text(total), expected);
}

void resolve_sizes(Config& config, const KeyOrigins& origins) {
  if (!origins.is_given("model.preset")) return;
  for (const std::string_view key : kSizeKeys) {
    if (!origins.is_given(key)) continue;
    throw Error(origins.describe(key) + ": given beside model.preset (" +
                origins.given.find("model.preset")->second +
                "), which sets it; leave out one of the two");
  }
  if (config.model.type != "gpt2") {
    throw Error(origins.describe("model.preset") + ": found \"" + config.preset +
                "\" for model.type = \"" + config.model.type + "\", expected sizes");
  }
  ModelConfig preset;
  try {
    preset = model_preset(config.preset);
  } catch (const Error& error) {
    throw Error(origins.given.find("model.preset")->second + ": " + error.what());
  }
  config.model.n_layer = preset.n_layer;
  config.model.n_head = preset.n_head;
  config.model.n_embd = preset.n_embd;
  config.model.vocab_size = preset.vocab_size;
  config.model.context_length = preset.context_length;
}

}  // namespace

std::string KeyOrigins::describe(std::string_view key) const {
  const auto found = given.find(key);
  return (found == given.end() ? file : found->second) + ": " + std::string(key);
}

void check_required(const KeyOrigins& origins) {
  std::string missing;
  const auto require = [&](std::string_view key, std::string_view example) {
    if (origins.is_given(key)) return;
    missing += "\n  " + std::string(key) + " = " + std::string(example);
  };
  require("model.type", "\"gpt2\"");
  if (std::ranges::none_of(kSizeKeys,
                           [&](std::string_view key) { return origins.is_given(key); })) {
    require("model.preset",
            "\"gpt2-124m\"    (or n_layer, n_head, n_embd, vocab_size and "
            "context_length)");
  } else if (!origins.is_given("model.preset")) {
    require("model.n_layer", "12");
    require("model.n_head", "12");
    require("model.n_embd", "768");
    require("model.vocab_size", "50257");
    require("model.context_length", "1024");
  }
  require("data.train", "[\"data/*_train_*.bin\"]");
  require("train.batch_size", "4");
  require("train.sequence_length", "256");
  require("train.steps", "1000");
  require("optimizer.lr", "6e-4");
  require("output.dir", "\"run\"");
  if (!missing.empty()) {
    throw Error(origins.file + ": required keys are missing; for example:" + missing);
  }
}

void resolve(Config& config, const KeyOrigins& origins) {
  const Check check{origins};
  resolve_sizes(config, origins);
  check.count("train.batch_size", config.train.batch_size, 1);
  check.count("train.sequence_length", config.train.sequence_length, 1);
  const int64_t largest_batch = kLargestCount / config.train.sequence_length;
  if (config.train.batch_size > largest_batch) {
    check.refuse("train.batch_size", to_text(config.train.batch_size),
                 "at most " + to_text(largest_batch) + " sequences of sequence_length = " +
                     to_text(config.train.sequence_length) + " tokens; use grad_accumulation");
  }
  if (!origins.is_given("train.total_batch_tokens")) {
    check.count("train.grad_accumulation", config.train.grad_accumulation, 1);
    return;
  }
  if (origins.is_given("train.grad_accumulation")) {
    throw Error(origins.describe("train.grad_accumulation") +
                ": given beside train.total_batch_tokens (" +
                origins.given.find("train.total_batch_tokens")->second +
                "), which sets it; leave out one of the two");
  }
  config.train.grad_accumulation = micro_batches(config, check);
}

void check_values(const Config& config, const KeyOrigins& origins) {
  const Check check{origins};
  check_model(config, check);
  check_data(config, check);
  check_train(config, check);
  check_optimizer(config, check);
  check_memory(config, check);
  check_planner(config, check);
  check_output(config, check);
}

void check_device_budget(const Config& config, int64_t device_bytes) {
  const ByteSize& budget = config.memory.device_budget;
  if (budget.is_percent() || budget.bytes <= device_bytes) return;
  throw Error("memory.device_budget: found " + describe_bytes(budget.bytes) +
              ", expected at most what the device has, " + describe_bytes(device_bytes));
}

}  // namespace olm2
