#include "train/learning_rate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace olm2 {
namespace {

constexpr std::array<std::string_view, 4> kScheduleNames = {"cosine", "linear", "constant", "wsd"};

// How far `step` is on the way from `begin` to `end`, in [0, 1].
double progress(int64_t step, int64_t begin, int64_t end) {
  if (step >= end) return 1.0;
  if (step <= begin) return 0.0;
  return static_cast<double>(step - begin) / static_cast<double>(end - begin);
}

}  // namespace

std::string_view to_string(RateSchedule schedule) {
  return kScheduleNames.at(static_cast<size_t>(schedule));
}

double learning_rate(const ScheduleConfig& config, int64_t step, int64_t steps) {
  const double lr = config.lr;
  const double min_lr = config.min_lr;
  const int64_t warmup = config.warmup_steps;
  if (step < warmup) {
    return lr * (static_cast<double>(step + 1) / static_cast<double>(warmup));
  }
  const int64_t end = config.decay_steps > 0 ? config.decay_steps : steps;
  switch (config.schedule) {
    case RateSchedule::constant:
      return lr;
    case RateSchedule::cosine: {
      const double p = progress(step, warmup, end);
      return min_lr + (lr - min_lr) * 0.5 * (1.0 + std::cos(std::numbers::pi * p));
    }
    case RateSchedule::linear:
      return std::lerp(lr, min_lr, progress(step, warmup, end));
    case RateSchedule::wsd:
      if (config.decay_steps <= 0) return lr;
      return std::lerp(lr, min_lr, progress(step, steps - config.decay_steps, steps));
  }
  return lr;
}

}  // namespace olm2
