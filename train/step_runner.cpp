#include "train/step_runner.h"

#include <algorithm>
#include <cmath>

#include "train/learning_rate.h"
#include "train/programs.h"

namespace olm2 {
namespace {

void add_report(StepReport& total, const StepReport& part) {
  total.seconds += part.seconds;
  total.stall_seconds += part.stall_seconds;
  total.computed += part.computed;
  total.copied_bytes += part.copied_bytes;
  for (size_t t = 0; t < kTierCount; ++t) total.peak[t] = std::max(total.peak[t], part.peak[t]);
}

}  // namespace

StepRunner::StepRunner(Executor& executor, const Config& config)
    : executor_(executor), config_(config) {
  const int64_t micros = config.train.grad_accumulation;
  for (int64_t micro = 0; micro < micros; ++micro) {
    programs_.push_back(executor.program_index(program_name(micro, micros)));
  }
}

void StepRunner::write_random_key(size_t program, int64_t step, int64_t micro) {
  if (config_.model.dropout == 0) return;
  const auto seed = static_cast<uint64_t>(config_.train.seed);
  const std::array<uint32_t, 4> key = {
      static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32U), static_cast<uint32_t>(step),
      static_cast<uint32_t>(micro * config_.train.batch_size)};
  std::ranges::copy(key, view_as<uint32_t>(executor_.input(program, "random_key")).begin());
}

double StepRunner::run_loss(size_t program, StepReport& total) {
  add_report(total, executor_.run(program));
  if (after_) after_(program);
  return view_as<float>(executor_.result(program, "loss"))[0];
}

StepResult StepRunner::run(int64_t step, const FillBatch& fill, int64_t moments_began) {
  const int64_t micros = config_.train.grad_accumulation;
  StepResult result;
  result.rate = learning_rate(config_.optimizer.rate, step, config_.train.steps);
  for (int64_t micro = 0; micro < micros; ++micro) {
    const size_t program = programs_[static_cast<size_t>(micro)];
    fill(step * micros + micro, view_as<int32_t>(executor_.input(program, "tokens")),
         view_as<int32_t>(executor_.input(program, "targets")));
    write_random_key(program, step, micro);
    if (micro + 1 == micros) {
      const auto t = static_cast<double>(step - moments_began + 1);
      const std::array<float, 3> rates = {
          static_cast<float>(result.rate),
          static_cast<float>(1 - std::pow(config_.optimizer.beta1, t)),
          static_cast<float>(1 - std::pow(config_.optimizer.beta2, t))};
      std::ranges::copy(rates, view_as<float>(executor_.input(program, "rates")).begin());
    }
    result.loss += run_loss(program, result.report) / static_cast<double>(micros);
  }
  result.grad_norm = view_as<float>(executor_.result(programs_.back(), "grad_norm"))[0];
  return result;
}

double StepRunner::evaluate(int64_t batches, const FillBatch& fill) {
  const size_t program = executor_.program_index("evaluation");
  double sum = 0;
  StepReport unused;
  for (int64_t i = 0; i < batches; ++i) {
    fill(i, view_as<int32_t>(executor_.input(program, "tokens")),
         view_as<int32_t>(executor_.input(program, "targets")));
    sum += run_loss(program, unused);
  }
  return sum / static_cast<double>(batches);
}

}  // namespace olm2
