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
#include "data/tokenizer.h"
#include "train/checkpoint.h"
#include "train/files.h"
#include "train/metrics.h"
#include "train/plan_report.h"
#include "train/plan_stage.h"
#include "train/progress.h"
#include "train/run_data.h"
#include "train/run_folder.h"
#include "train/run_start.h"
#include "train/run_state.h"
#include "train/run_times.h"
#include "train/sampler.h"
#include "train/step_runner.h"
#include "train/trace_file.h"

namespace olm2 {
namespace {

constexpr int64_t kWarmupSteps = 5;  // Of a plan that is to be replaced; the first is not measured.

void write_plan(const RunFolder& folder, const Config& config, const PlanStage& stage) {
  stage.write_plan(folder.plan());
  write_file(folder.plan_page(), plan_report(stage.plan(), facts_of(config, stage)));
}

// Every value of the largest program once: no plan has more in another tier.
int64_t most_elsewhere(const RunPlan& plan) {
  int64_t most = 0;
  for (const PlannedProgram& entry : plan.programs) {
    int64_t bytes = 0;
    for (size_t v = 0; v < entry.program->graph.values().size(); ++v) {
      bytes += entry.problem.padded_bytes({static_cast<int32_t>(v)});
    }
    most = std::max(most, bytes);
  }
  return most;
}

// A plan that is to be replaced leaves room for the next one: what the budgets allow, and no more
// than keeping everything takes.
ExecutorOptions executor_options(const TrainRequest& request, const PlanStage& stage) {
  ExecutorOptions options{.trace = !request.trace.empty() || stage.is_learning()};
  if (!stage.is_learning()) return options;
  const Budgets& budgets = stage.budgets();
  options.least_arena = budgets.bytes;
  int64_t& device = options.least_arena[index_of(Tier::device)];
  device = std::min(device, budgets.keep_all_bytes);
  int64_t& host = options.least_arena[index_of(Tier::host)];
  host = std::min(host, most_elsewhere(stage.plan()));
  return options;
}

class Run {
 public:
  Run(const TrainRequest& request, const Start& start, const RunFolder& folder, PlanStage& stage,
      Executor& executor, const RunData& data)
      : request_(request),
        config_(request.config),
        start_(start),
        folder_(folder),
        stage_(stage),
        programs_(stage.programs()),
        executor_(executor),
        data_(data),
        runner_(executor, request.config) {}

  // Of the last program of the last step; empty if no step was made.
  std::span<const TraceEvent> trace() const { return trace_; }

  TrainSummary go() {
    take_plan();
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
    for (int64_t step = summary_.first_step; step < end; ++step) {
      if (stage_.is_learning()) learn(step, progress);
      one_step(step, log, progress);
    }
    if (saved_at_ != summary_.last_step && summary_.last_step > 0) save(log);
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

  // The plan of the stage is the one that is run from now on.
  void take_plan() {
    planned_ = stage_.plan().peak;
    for (size_t t = 0; t < kTierCount; ++t) {
      summary_.planned[t] = std::max(summary_.planned[t], planned_[t]);
    }
    summary_.predicted = step_time(stage_.plan(), config_.train.grad_accumulation);
    step_seconds_.clear();
    stall_seconds_.clear();
  }

  // Before step `step`: watches the steps after the first of the run, whose kernels are cold, and
  // when enough were seen goes on with a plan of their times.
  void learn(int64_t step, Progress& progress) {
    const int64_t made = step - summary_.first_step;
    if (made == 1) {
      runner_.watch([this](size_t program) {
        const PlannedProgram& entry = stage_.plan().programs[program];
        times_.add(entry.program->graph, entry.planned.schedule->schedule(), executor_.trace());
      });
    }
    if (made < kWarmupSteps) return;
    runner_.watch({});
    stage_.learn(times_.profile(stage_.profile()));
    folder_.cache_profile(stage_.profile());
    write_plan(folder_, config_, stage_);
    executor_.exchange(executable(stage_.plan()));
    take_plan();
    progress.note("step " + std::to_string(step) + ": the times of " +
                  std::to_string(kWarmupSteps - 1) + " steps are measured; from step " +
                  std::to_string(step + 1) + " on a plan for them:\n" + stage_.description());
  }

  void one_step(int64_t step, MetricsLog& log, Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    const StepResult result = runner_.run(step, batches_of(data_.train), start_.moments_began);
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
    const bool is_finite = std::isfinite(result.grad_norm) && std::isfinite(result.loss);
    if (!is_finite && config_.train.on_nonfinite == OnNonfinite::stop) {
      refuse_nonfinite(step, result, log);
    }
    if (!std::isfinite(result.grad_norm)) {
      ++summary_.skipped_steps;
      progress.note("step " + std::to_string(step + 1) +
                    ": the gradient is not finite; step skipped");
    }
    summary_.last_step = step + 1;
    summary_.loss = result.loss;
    summary_.resident_bytes = std::max(summary_.resident_bytes, resident_bytes());

    StepMetrics metrics = metrics_of(step, result, seconds);
    if (is_due(config_.output.eval_every, step + 1)) {
      metrics.val_loss = summary_.val_loss = evaluate();
      progress.note("step " + std::to_string(step + 1) + ": validation loss " +
                    std::to_string(*metrics.val_loss));
    }
    log.append(metrics);
    progress.show(step + 1, result.loss, metrics.tokens_per_s);
    if (is_due(config_.output.checkpoint_every, step + 1)) {
      save(log);
    }
    if (is_due(config_.output.sample_every, step + 1)) sample(step + 1);
  }

  bool is_due(int64_t every, int64_t step) const {
    return every > 0 && (step % every == 0 || step == config_.train.steps);
  }

  // The optimizer has left everything unchanged if the gradient is not finite.
  [[noreturn]] void refuse_nonfinite(int64_t step, const StepResult& result, MetricsLog& log) {
    if (std::isfinite(result.grad_norm)) {
      summary_.last_step = step + 1;
      log.append(metrics_of(step, result, 0));
    }
    const int64_t made = summary_.last_step;
    if (made > 0 && saved_at_ != made) save(log);
    throw Error("step " + std::to_string(step + 1) + ": loss " + std::to_string(result.loss) +
                ", gradient norm " + std::to_string(result.grad_norm) +
                ", expected finite numbers; parameters and moments are those of step " +
                std::to_string(made) + (made > 0 ? ", saved as a checkpoint" : "") +
                "; lower optimizer.lr, or set train.on_nonfinite = \"skip\"");
  }

  StepMetrics metrics_of(int64_t step, const StepResult& result, double seconds) const {
    const auto tokens = static_cast<double>(tokens_after(config_, 1));
    return {.step = step + 1,
            .tokens = tokens_after(config_, step + 1),
            .loss = result.loss,
            .lr = result.rate,
            .grad_norm = result.grad_norm,
            .step_ms = seconds * 1e3,
            .tokens_per_s = seconds > 0 ? tokens / seconds : 0,
            .stall_ms = result.report.stall_seconds * 1e3,
            .peak = result.report.peak,
            .planned = planned_,
            .policy = stage_.plan().programs.front().planned.certificate.policy,
            .resident_bytes = resident_bytes(),
            .val_loss = {}};
  }

  double evaluate() {
    return runner_.evaluate(data_.eval_batches(config_), batches_of(*data_.val));
  }

  void save(MetricsLog& log) {
    log.sync();
    CheckpointState state = describe_run(config_, summary_.last_step);
    state.moments_began = start_.moments_began;
    state.hashes["data"] = data_.digest();
    save_checkpoint(folder_.path(), state, as_views(parameter_targets(executor_, programs_)),
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
    file.flush();
    if (!file) throw Error("cannot write " + folder_.samples().string() + "; is the disk full?");
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
  PlanStage& stage_;
  const RunPrograms& programs_;
  Executor& executor_;
  const RunData& data_;
  StepRunner runner_;
  TrainSummary summary_;
  BytesPerTier planned_{};  // Of the plan that is run now.
  RunTimes times_;
  int64_t saved_at_ = -1;
  std::vector<double> step_seconds_;
  std::vector<double> stall_seconds_;
  std::vector<TraceEvent> trace_;
};

double last_end(std::span<const TraceEvent> events) {
  double end_s = 0;
  for (const TraceEvent& event : events) end_s = std::max(end_s, event.end_s);
  return end_s;
}

// The lanes of the last program of the last step.
void write_last_trace(const TrainRequest& request, std::span<const TraceEvent> events,
                      const RunPlan& plan) {
  if (events.empty()) return say("no step was made, so there is no trace to write");
  const int64_t micros = request.config.train.grad_accumulation;
  const std::string name = program_name(micros - 1, micros);
  for (const PlannedProgram& entry : plan.programs) {
    if (entry.program->name != name) continue;
    const TracedProgram traced{.name = name,
                               .graph = &entry.program->graph,
                               .schedule = &entry.planned.schedule->schedule(),
                               .events = {events.begin(), events.end()},
                               .seconds = last_end(events)};
    write_file(request.trace, trace_text(std::span(&traced, 1)));
  }
}

// A plan that is given was made for the times beside it; otherwise those of an earlier start.
Profile known_profile(const TrainRequest& request, const RunFolder& folder,
                      const Backend& backend) {
  if (!request.plan_file.empty()) {
    Profile profile = read_cached_profile(profile_beside(request.plan_file), backend.description());
    if (!profile.kernels.empty()) return profile;
  }
  return read_cached_profile(profile_beside(folder.plan()), backend.description());
}

std::string milliseconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f ms", 1e3 * seconds);
  return text.data();
}

}  // namespace

TrainSummary train(const TrainRequest& request, Backend& backend) {
  const Config& config = request.config;
  check_device_budget(config, machine_bytes());
  const Start start = find_start(config, request.resume);
  if (start.step > 0 && start.step >= config.train.steps) {
    TrainSummary nothing;
    nothing.first_step = nothing.last_step = start.step;
    return nothing;
  }
  std::unique_ptr<RunData> data;
  if (!request.dry_run) data = std::make_unique<RunData>(config);
  if (data && !start.data_digest.empty() && start.data_digest != data->digest()) {
    say("resume: the training data are not those the run was started with (data.train, "
        "data.shuffle); going on at the same position of the new ones");
  }
  const RunFolder folder(config, request.resume || request.dry_run);
  // A dry run leaves a run that exists as it is.
  const bool writes = !request.dry_run || !std::filesystem::exists(folder.metrics());
  PlanStage stage(config, backend, known_profile(request, folder, backend), /*may_learn=*/true);
  if (writes && stage.profile().source == "measured") folder.cache_profile(stage.profile());
  if (request.plan_file.empty()) {
    stage.make_plan();
  } else {
    stage.read_plan(request.plan_file);
  }
  if (writes) write_plan(folder, config, stage);
  TrainSummary summary;
  summary.plan_text = stage.description();
  summary.planned = stage.plan().peak;
  summary.predicted = step_time(stage.plan(), config.train.grad_accumulation);
  if (request.dry_run) return summary;

  say(summary.plan_text);
  folder.write_config(config);
  Executor executor(executable(stage.plan()), backend, executor_options(request, stage));
  Run run(request, start, folder, stage, executor, *data);
  TrainSummary made = run.go();
  made.plan_text = summary.plan_text;
  if (!request.trace.empty()) write_last_trace(request, run.trace(), stage.plan());
  return made;
}

std::string to_string(const TrainSummary& summary, const Config& config) {
  if (summary.first_step > 0 && summary.first_step == summary.last_step) {
    return "the run has made " + std::to_string(summary.last_step) + " steps of " +
           std::to_string(config.train.steps) +
           ": nothing is left to do; raise train.steps to go on\n";
  }
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
  text += "plan: " + config.output.dir +
          "/plan.json, and for people plan.html\nmetrics: " + config.output.dir +
          "/metrics.jsonl\ncheckpoints: " + config.output.dir + "/checkpoints\n";
  return text;
}

}  // namespace olm2
