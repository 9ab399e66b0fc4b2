#include "train/learning_rate.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace olm2 {
namespace {

std::vector<double> table(const ScheduleConfig& config, int64_t steps) {
  std::vector<double> rates;
  for (int64_t step = 0; step <= steps; ++step) {
    rates.push_back(learning_rate(config, step, steps));
  }
  return rates;
}

void expect_table(const ScheduleConfig& config, int64_t steps,
                  const std::vector<double>& expected) {
  const std::vector<double> rates = table(config, steps);
  ASSERT_EQ(rates.size(), expected.size());
  for (size_t i = 0; i < rates.size(); ++i) {
    EXPECT_NEAR(rates[i], expected[i], 1e-12) << to_string(config.schedule) << " step " << i;
  }
}

ScheduleConfig with(RateSchedule schedule, double min_lr, int64_t warmup, int64_t decay) {
  return {.schedule = schedule,
          .lr = 1.0,
          .min_lr = min_lr,
          .warmup_steps = warmup,
          .decay_steps = decay};
}

TEST(LearningRate, WarmUpReachesTheRateAtItsLastStep) {
  expect_table(with(RateSchedule::constant, 0, 4, 0), 5, {0.25, 0.5, 0.75, 1, 1, 1});
}

TEST(LearningRate, CosineWithoutWarmUpStartsAtTheRateAndEndsAtTheLeast) {
  expect_table(with(RateSchedule::cosine, 0.2, 0, 0), 4,
               {1, 0.6 + 0.4 * std::sqrt(0.5), 0.6, 0.6 - 0.4 * std::sqrt(0.5), 0.2});
}

TEST(LearningRate, CosineStaysAtTheLeastAfterDecaySteps) {
  expect_table(with(RateSchedule::cosine, 0.2, 1, 3), 5, {1, 1, 0.6, 0.2, 0.2, 0.2});
}

TEST(LearningRate, LinearFallsInEqualSteps) {
  expect_table(with(RateSchedule::linear, 0.5, 1, 0), 6, {1, 1, 0.9, 0.8, 0.7, 0.6, 0.5});
}

TEST(LearningRate, AWarmUpAsLongAsTheRunLeavesNothingToDecay) {
  for (const RateSchedule schedule : {RateSchedule::cosine, RateSchedule::linear}) {
    expect_table(with(schedule, 0.125, 4, 0), 4, {0.25, 0.5, 0.75, 1, 0.125});
  }
}

TEST(LearningRate, WsdWithoutDecayIsConstant) {
  expect_table(with(RateSchedule::wsd, 0.5, 2, 0), 4, {0.5, 1, 1, 1, 1});
}

TEST(LearningRate, WsdDecaysOverTheLastSteps) {
  expect_table(with(RateSchedule::wsd, 0, 1, 2), 5, {1, 1, 1, 1, 0.5, 0});
}

TEST(LearningRate, WsdMayDecayOverTheWholeRun) {
  expect_table(with(RateSchedule::wsd, 0, 0, 4), 4, {1, 0.75, 0.5, 0.25, 0});
}

TEST(LearningRate, IsNeverNanAndNeverOutsideItsRange) {
  for (const RateSchedule schedule :
       {RateSchedule::cosine, RateSchedule::linear, RateSchedule::constant, RateSchedule::wsd}) {
    for (int64_t steps = 1; steps <= 4; ++steps) {
      for (int64_t warmup = 0; warmup <= steps; ++warmup) {
        for (int64_t decay = 0; decay <= steps + 1; ++decay) {
          for (int64_t step = 0; step <= steps + 2; ++step) {
            const double rate = learning_rate(with(schedule, 0.25, warmup, decay), step, steps);
            EXPECT_TRUE(rate > 0 && rate <= 1)
                << to_string(schedule) << " steps " << steps << " warmup " << warmup << " decay "
                << decay << " step " << step << " rate " << rate;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace olm2
