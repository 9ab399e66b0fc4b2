// The learning rate of every step.
//
// Steps are counted from 0; s is the step about to be made, n the steps of the whole run, w the
// warm-up, d the decay_steps.
//
//   warm-up   s < w        lr * (s + 1) / w                     the first step already learns
//   constant               lr
//   cosine    end = d or n min_lr + (lr - min_lr) * (1 + cos(pi p)) / 2,  p = (s - w) / (end - w)
//   linear    end = d or n lr + (min_lr - lr) * p                         the same p
//   wsd                    lr until n - d, then linear to min_lr at step n: p = (s - (n - d)) / d
//
// p is clamped to [0, 1]; where the two ends of a decay are the same step, p = 1.  The rate is
// min_lr from the end of a decay on.  wsd with d = 0 never decays.
// Sources: Loshchilov and Hutter 2017 (cosine), Hu et al. 2024, MiniCPM (wsd).
#pragma once

#include <cstdint>
#include <string_view>

namespace olm2 {

enum class RateSchedule : uint8_t { cosine, linear, constant, wsd };
std::string_view to_string(RateSchedule schedule);

struct ScheduleConfig {
  RateSchedule schedule = RateSchedule::cosine;
  double lr = 0;
  double min_lr = 0;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // 0: cosine and linear decay to the end, wsd never.
  bool operator==(const ScheduleConfig&) const = default;
};

// The rate of step `step` of a run of `steps` steps.  Finite for every step >= 0, also beyond the
// end, if the configuration holds finite numbers.
double learning_rate(const ScheduleConfig& config, int64_t step, int64_t steps);

}  // namespace olm2
