#include "train/run_start.h"

#include <optional>

#include "core/error.h"
#include "train/progress.h"
#include "train/run_folder.h"

namespace olm2 {
namespace {

// Throws Error unless the sequences served so far are what `config` would have served.
void check_position(const std::filesystem::path& checkpoint, const CheckpointState& found,
                    const Config& config) {
  const int64_t expected = describe_run(config, found.step).data_position;
  if (found.data_position == expected) return;
  throw Error("--resume: " + checkpoint.string() + " had read " +
              std::to_string(found.data_position) + " sequences after " +
              std::to_string(found.step) + " steps, this configuration would have read " +
              std::to_string(expected) +
              "; use the batch_size * grad_accumulation the run was started with");
}

// No checkpoint can be used.  Empty: none was ever complete, the run begins anew.
std::optional<Start> begin_anew(const Config& config, const FoundCheckpoint& found) {
  const std::string& dir = config.output.dir;
  if (found.is_damaged) {
    throw Error("--resume: no checkpoint in " + dir +
                "/checkpoints is whole (see above); restore one, or remove that folder and "
                "metrics.jsonl to begin anew");
  }
  if (!std::filesystem::exists(RunFolder::metrics_in(dir))) {
    throw Error("--resume: " + dir +
                " holds no run; start without --resume, or correct output.dir");
  }
  say("resume: the run has no complete checkpoint yet; starting from step 0");
  return std::nullopt;
}

std::optional<Start> find_resume(const Config& config) {
  const FoundCheckpoint found = find_checkpoint(config.output.dir);
  for (const std::string& skipped : found.skipped) say("resume: skipped " + skipped);
  if (!found.path) return begin_anew(config, found);

  const CheckpointState state = load_state(*found.path);
  const bool fresh = config.train.fresh_optimizer;
  check_resumable(*found.path, state, describe_run(config, state.step), fresh);
  check_position(*found.path, state, config);
  say("resuming from " + found.path->string() + " at step " + std::to_string(state.step));
  if (fresh) {
    say("train.fresh_optimizer: the moments start from zero; take the key out again before the "
        "next --resume");
  }
  Start start{.checkpoint = *found.path, .with_moments = !fresh, .step = state.step};
  start.moments_began = fresh ? state.step : state.moments_began;
  const auto digest = state.hashes.find("data");
  if (digest != state.hashes.end()) start.data_digest = digest->second;
  return start;
}

}  // namespace

Start find_start(const Config& config, bool resume) {
  if (resume) {
    const std::optional<Start> start = find_resume(config);
    if (start) return *start;
  }
  if (config.init_from.empty()) return {};
  const std::filesystem::path checkpoint = resolve_checkpoint(config.init_from);
  check_same_model(checkpoint, load_state(checkpoint).model, config.model);
  say("weights from " + checkpoint.string());
  return {.checkpoint = checkpoint};
}

int64_t tokens_after(const Config& config, int64_t steps) {
  return steps * config.train.batch_size * config.train.sequence_length *
         config.train.grad_accumulation;
}

CheckpointState describe_run(const Config& config, int64_t step) {
  CheckpointState state;
  state.step = step;
  state.tokens = tokens_after(config, step);
  state.data_position = step * config.train.grad_accumulation * config.train.batch_size;
  state.seed = static_cast<uint64_t>(config.train.seed);
  state.sequence_length = config.train.sequence_length;
  state.tokenizer = config.data.tokenizer;
  state.model = config.model;
  return state;
}

}  // namespace olm2
