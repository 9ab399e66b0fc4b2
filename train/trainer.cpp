#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>

#include "core/error.h"
#include "data/file_list.h"
#include "data/loader.h"
#include "data/tokenizer.h"
#include "train/checkpoint.h"
#include "train/metrics.h"
#include "train/plan_stage.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/run_state.h"
#include "train/sampler.h"
#include "train/step_runner.h"
#include "train/trace_file.h"

namespace olm2 {
namespace {

void say(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
}

Loader open_loader(const Config& config, const std::vector<std::string>& globs, bool shuffle) {
  const LoaderOptions options{.batch_size = config.train.batch_size,
                              .sequence_length = config.train.sequence_length,
                              .shuffle = shuffle,
                              .seed = static_cast<uint64_t>(config.train.seed),
                              .tokenizer = config.data.tokenizer,
                              .vocab_size = config.model.vocab_size};
  const std::vector<std::filesystem::path> files = expand_globs(globs, ".");
  return Loader(files, options);
}

void say_loader(const char* name, const Loader& loader) {
  say(std::string(name) + " data: " + std::to_string(loader.files().size()) + " files, " +
      std::to_string(loader.tokens()) + " tokens, of which " +
      std::to_string(loader.tokens_per_epoch()) + " per epoch are used as inputs (" +
      std::to_string(loader.remainder()) + " remain), " +
      std::to_string(loader.batches_per_epoch()) + " micro batches per epoch");
}

FillBatch batches_of(const Loader& loader) {
  return [&loader](int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) {
    loader.batch(index, tokens, targets);
  };
}

// Training and validation data; validation is opened before training starts, so that it is refused
// before training starts.
struct RunData {
  explicit RunData(const Config& config)
      : train(open_loader(config, config.data.train, config.data.shuffle)) {
    say_loader("training", train);
    if (config.output.eval_every == 0) return;
    if (config.data.val.empty()) {
      throw Error("output.eval_every: evaluation needs data.val; give it, or set eval_every = 0");
    }
    val = std::make_unique<Loader>(open_loader(config, config.data.val, false));
    say_loader("validation", *val);
    if (val->batches_per_epoch() < config.output.eval_batches) {
      say("validation: evaluating on " + std::to_string(val->batches_per_epoch()) +
          " micro batches, for there are no more (output.eval_batches = " +
          std::to_string(config.output.eval_batches) + ")");
    }
  }
  Loader train;
  std::unique_ptr<Loader> val;
};

int64_t tokens_of(const Config& config, int64_t steps) {
  return steps * config.train.batch_size * config.train.sequence_length *
         config.train.grad_accumulation;
}

// What a checkpoint of this run says after `step` steps.
CheckpointState describe(const Config& config, int64_t step) {
  CheckpointState state;
  state.step = step;
  state.tokens = tokens_of(config, step);
  state.data_position = step * config.train.grad_accumulation * config.train.batch_size;
  state.seed = static_cast<uint64_t>(config.train.seed);
  state.sequence_length = config.train.sequence_length;
  state.tokenizer = config.data.tokenizer;
  state.model = config.model;
  return state;
}

// What a run begins with, found and checked before anything is measured or written.
struct Start {
  std::filesystem::path checkpoint;  // Empty: parameters as the model wants them.
  bool with_moments = false;
  int64_t step = 0;  // Steps already made.
};

// Throws Error unless the sequences served so far are what `config` would have served.
void check_position(const std::filesystem::path& checkpoint, const CheckpointState& found,
                    const Config& config) {
  const int64_t expected = describe(config, found.step).data_position;
  if (found.data_position == expected) return;
  throw Error("--resume: " + checkpoint.string() + " had read " +
              std::to_string(found.data_position) + " sequences after " +
              std::to_string(found.step) + " steps, this configuration would have read " +
              std::to_string(expected) +
              "; use the batch_size * grad_accumulation the run was started with");
}

// Empty: the run died before its first checkpoint, and begins anew.
std::optional<Start> find_resume(const Config& config) {
  const FoundCheckpoint found = find_checkpoint(config.output.dir);
  for (const std::string& skipped : found.skipped) say("resume: skipped " + skipped);
  const bool has_begun = std::filesystem::exists(RunFolder::metrics_in(config.output.dir));
  if (!found.path && has_begun) {
    say("resume: the run has no complete checkpoint yet; starting from step 0");
    return std::nullopt;
  }
  if (!found.path) {
    throw Error("--resume: " + config.output.dir +
                " holds no run; start without --resume, or correct output.dir");
  }
  const CheckpointState state = load_state(*found.path);
  check_resumable(*found.path, state, describe(config, state.step), config.train.fresh_optimizer);
  check_position(*found.path, state, config);
  say("resuming from " + found.path->string() + " at step " + std::to_string(state.step));
  return Start{
      .checkpoint = *found.path, .with_moments = !config.train.fresh_optimizer, .step = state.step};
}

Start find_start(const TrainRequest& request) {
  const Config& config = request.config;
  if (request.resume) {
    const std::optional<Start> start = find_resume(config);
    if (start) return *start;
  }
  if (config.init_from.empty()) return {};
  const std::filesystem::path checkpoint = resolve_checkpoint(config.init_from);
  check_same_model(checkpoint, load_state(checkpoint).model, config.model);
  say("weights from " + checkpoint.string());
  return {.checkpoint = checkpoint};
}

class Run {
 public:
  Run(const TrainRequest& request, const Start& start, const RunFolder& folder,
      const RunPrograms& programs, Executor& executor, const RunData& data)
      : request_(request),
        config_(request.config),
        start_(start),
        folder_(folder),
        programs_(programs),
        executor_(executor),
        data_(data),
        runner_(executor, request.config) {}

  // Of the last program of the last step; empty if no step was made.
  std::span<const TraceEvent> trace() const { return trace_; }

  TrainSummary go(const BytesPerTier& planned) {
    summary_.planned = planned;
    summary_.first_step = start_state();
    MetricsLog log = request_.resume ? MetricsLog::resume(folder_.metrics(), summary_.first_step)
                                     : MetricsLog::start(folder_.metrics());
    int64_t end = config_.train.steps;
    if (request_.steps) end = std::min(end, summary_.first_step + *request_.steps);
    Progress progress({.steps = config_.train.steps,
                       .first_step = summary_.first_step,
                       .log_every = config_.output.log_every,
                       .columns = terminal_columns(stderr)});
    summary_.last_step = summary_.first_step;
    for (int64_t step = summary_.first_step; step < end; ++step) one_step(step, log, progress);
    log.sync();
    if (saved_at_ != summary_.last_step && summary_.last_step > 0) save();
    finish();
    return summary_;
  }

 private:
  // Fills the state and returns the number of steps already made.
  int64_t start_state() {
    initialize_state(executor_, programs_, static_cast<uint64_t>(config_.train.seed));
    if (start_.checkpoint.empty()) return 0;
    load_parameters(start_.checkpoint, parameter_targets(executor_, programs_));
    if (start_.with_moments) load_moments(start_.checkpoint, moment_targets(executor_, programs_));
    if (request_.resume) saved_at_ = start_.step;
    return start_.step;
  }

  void one_step(int64_t step, MetricsLog& log, Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    const StepResult result = runner_.run(step, batches_of(data_.train));
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!request_.trace.empty()) {
      trace_.assign(executor_.trace().begin(), executor_.trace().end());
    }
    step_seconds_.push_back(seconds);
    stall_seconds_.push_back(result.report.stall_seconds);
    for (size_t t = 0; t < kTierCount; ++t) {
      summary_.measured[t] = std::max(summary_.measured[t], result.report.peak[t]);
    }
    if (!std::isfinite(result.grad_norm) || !std::isfinite(result.loss))
      refuse_nonfinite(step, result);
    summary_.last_step = step + 1;
    summary_.loss = result.loss;
    summary_.resident_bytes = std::max(summary_.resident_bytes, resident_bytes());

    StepMetrics metrics{.step = step + 1,
                        .tokens = tokens_of(config_, step + 1),
                        .loss = result.loss,
                        .lr = result.rate,
                        .grad_norm = result.grad_norm,
                        .step_ms = seconds * 1e3,
                        .tokens_per_s = static_cast<double>(tokens_of(config_, 1)) / seconds,
                        .stall_ms = result.report.stall_seconds * 1e3,
                        .peak = result.report.peak,
                        .planned = summary_.planned,
                        .resident_bytes = resident_bytes(),
                        .val_loss = {}};
    if (is_due(config_.output.eval_every, step + 1)) {
      metrics.val_loss = summary_.val_loss = evaluate();
      progress.note("step " + std::to_string(step + 1) + ": validation loss " +
                    std::to_string(*metrics.val_loss));
    }
    log.append(metrics);
    progress.show(step + 1, result.loss, metrics.tokens_per_s);
    if (is_due(config_.output.checkpoint_every, step + 1)) {
      log.sync();
      save();
    }
    if (is_due(config_.output.sample_every, step + 1)) sample(step + 1);
  }

  bool is_due(int64_t every, int64_t step) const {
    return every > 0 && (step % every == 0 || step == config_.train.steps);
  }

  // The optimizer leaves everything unchanged if the gradient is not finite.
  void refuse_nonfinite(int64_t step, const StepResult& result) {
    const bool is_updated = std::isfinite(result.grad_norm);
    if (config_.train.on_nonfinite == OnNonfinite::skip) {
      if (is_updated) return;
      ++summary_.skipped_steps;
      say("step " + std::to_string(step + 1) + ": the gradient is not finite; step skipped");
      return;
    }
    if (is_updated) summary_.last_step = step + 1;
    const int64_t made = summary_.last_step;
    if (made > 0 && saved_at_ != made) save();
    throw Error("step " + std::to_string(step + 1) + ": loss " + std::to_string(result.loss) +
                ", gradient norm " + std::to_string(result.grad_norm) +
                ", expected finite numbers; parameters and moments are those of step " +
                std::to_string(made) + (made > 0 ? ", saved as a checkpoint" : "") +
                "; lower optimizer.lr, or set train.on_nonfinite = \"skip\"");
  }

  double evaluate() {
    return runner_.evaluate(std::min(config_.output.eval_batches, data_.val->batches_per_epoch()),
                            batches_of(*data_.val));
  }

  void save() {
    save_checkpoint(folder_.path(), describe(config_, summary_.last_step),
                    as_views(parameter_targets(executor_, programs_)),
                    as_views(moment_targets(executor_, programs_)),
                    {.keep = config_.output.keep_checkpoints});
    saved_at_ = summary_.last_step;
  }

  void sample(int64_t step) {
    const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(config_.data.tokenizer);
    std::vector<uint32_t> ids;
    generate(executor_, executor_.program_index("sampling"), config_.train.sequence_length,
             std::min<int64_t>(config_.model.vocab_size, tokenizer->info().vocab_size),
             {tokenizer->info().separator},
             {.tokens = 100, .seed = static_cast<uint64_t>(config_.train.seed)},
             [&](uint32_t id) { ids.push_back(id); });
    std::ofstream file(folder_.samples(), std::ios::binary | std::ios::app);
    file << "--- step " << step << "\n" << tokenizer->decode(ids) << "\n";
    if (!file) throw Error("cannot write " + folder_.samples().string());
  }

  void finish() {
    const auto median = [](std::vector<double> numbers) {
      if (numbers.empty()) return 0.0;
      std::ranges::sort(numbers);
      return numbers[numbers.size() / 2];
    };
    summary_.median_step_s = median(step_seconds_);
    summary_.median_stall_s = median(stall_seconds_);
  }

  const TrainRequest& request_;
  const Config& config_;
  const Start& start_;
  const RunFolder& folder_;
  const RunPrograms& programs_;
  Executor& executor_;
  const RunData& data_;
  StepRunner runner_;
  TrainSummary summary_;
  int64_t saved_at_ = -1;
  std::vector<double> step_seconds_;
  std::vector<double> stall_seconds_;
  std::vector<TraceEvent> trace_;
};

// The lanes of the last program of the last step.
void write_last_trace(const TrainRequest& request, std::span<const TraceEvent> events,
                      const RunPlan& plan) {
  if (events.empty()) return say("no step was made, so there is no trace to write");
  const int64_t micros = request.config.train.grad_accumulation;
  const std::string name = program_name(micros - 1, micros);
  for (const PlannedProgram& entry : plan.programs) {
    if (entry.program->name != name) continue;
    write_trace(request.trace, entry.program->graph, entry.planned.schedule->schedule(), events);
  }
}

std::string milliseconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f ms", 1e3 * seconds);
  return text.data();
}

}  // namespace

TrainSummary train(const TrainRequest& request, Backend& backend) {
  const Config& config = request.config;
  const Start start = find_start(request);
  std::unique_ptr<RunData> data;
  if (!request.dry_run) data = std::make_unique<RunData>(config);
  const RunFolder folder(config, request.resume);
  PlanStage stage(config, backend, folder.cached_profile(backend.description()));
  if (stage.profile().source == "measured") folder.cache_profile(stage.profile());
  if (request.plan_file.empty()) {
    stage.make_plan();
  } else {
    stage.read_plan(request.plan_file);
  }
  stage.write_plan(folder.plan());
  say(stage.description());
  TrainSummary summary;
  summary.planned = stage.plan().peak;
  summary.predicted = step_time(stage.plan(), config.train.grad_accumulation);
  if (request.dry_run) return summary;

  folder.write_config(config);
  Executor executor(executable(stage.plan()), backend, {.trace = !request.trace.empty()});
  const StepTime predicted = summary.predicted;
  Run run(request, start, folder, stage.programs(), executor, *data);
  summary = run.go(stage.plan().peak);
  summary.predicted = predicted;
  if (!request.trace.empty()) write_last_trace(request, run.trace(), stage.plan());
  return summary;
}

std::string to_string(const TrainSummary& summary, const Config& config) {
  std::string text = "steps " + std::to_string(summary.first_step) + " to " +
                     std::to_string(summary.last_step) + " of " +
                     std::to_string(config.train.steps) + ", loss " + std::to_string(summary.loss);
  if (summary.val_loss) text += ", validation loss " + std::to_string(*summary.val_loss);
  text += " (nats per token)\n";
  if (summary.skipped_steps > 0) {
    text += "skipped for gradients that were not finite: " + std::to_string(summary.skipped_steps) +
            " steps\n";
  }
  for (const Tier tier : kTiers) {
    const size_t t = index_of(tier);
    if (summary.planned[t] == 0) continue;
    text += std::string(to_string(tier)) + " peak: planned " + describe_bytes(summary.planned[t]) +
            ", measured " + describe_bytes(summary.measured[t]) + "\n";
  }
  text += "resident bytes of the process: " + describe_bytes(summary.resident_bytes) + "\n";
  text += "step time: predicted " + milliseconds(summary.predicted.planned_s) + ", measured " +
          milliseconds(summary.median_step_s) + " (median), of which waiting for copies " +
          milliseconds(summary.median_stall_s) + "; keeping everything predicted " +
          milliseconds(summary.predicted.keep_all_s) + "\n";
  text += "plan: " + config.output.dir + "/plan.json\nmetrics: " + config.output.dir +
          "/metrics.jsonl\ncheckpoints: " + config.output.dir + "/checkpoints\n";
  return text;
}

}  // namespace olm2
