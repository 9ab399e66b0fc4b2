// How a batch is cut into micro batches changes nothing but roundings.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

constexpr int64_t kSteps = 3;

struct Cut {
  int64_t batch = 0;
  int64_t micros = 0;
};

Sets sets_of(const Cut& cut, const Sets& more) {
  Sets sets = {"train.batch_size=" + std::to_string(cut.batch),
               "train.grad_accumulation=" + std::to_string(cut.micros),
               "train.steps=" + std::to_string(kSteps)};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

double relative_error(std::span<const float> got, std::span<const float> expected) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(double{got[i]} - double{expected[i]}, 2);
    size += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-30);
}

void expect_close_weights(const std::string& name, std::span<const float> got,
                          std::span<const float> expected) {
  if (!name.ends_with("c_attn.bias")) {
    EXPECT_LT(relative_error(got, expected), 5e-5) << name;
    return;
  }
  // The key's third of the bias shifts every score of a row alike: its true gradient is zero.
  const size_t third = got.size() / 3;
  EXPECT_LT(relative_error(got.first(third), expected.first(third)), 5e-5) << name;
  EXPECT_LT(relative_error(got.last(third), expected.last(third)), 5e-5) << name;
  for (size_t i = third; i < 2 * third; ++i) EXPECT_NEAR(got[i], expected[i], 2e-4) << name;
}

class Accumulation : public testing::TestWithParam<std::tuple<double, double>> {};

TEST_P(Accumulation, TrainsAsOneLargeBatchDoes) {
  const auto& [dropout, clip] = GetParam();
  const Sets more = {"model.dropout=" + std::to_string(dropout),
                     "optimizer.grad_clip=" + std::to_string(clip), "optimizer.lr=1e-3"};
  const ToyRun whole(sets_of({8, 1}, more));
  whole.train();
  const std::vector<double> losses = whole.column("loss");
  const std::vector<double> norms = whole.column("grad_norm");
  ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps));
  if (clip > 0) {
    EXPECT_GT(norms[0], clip) << "nothing is clipped: the test shows nothing";
  }
  for (const Cut cut : {Cut{4, 2}, Cut{2, 4}, Cut{1, 8}}) {
    SCOPED_TRACE(std::to_string(cut.micros) + " micro batches");
    const ToyRun toy(sets_of(cut, more));
    toy.train();
    for (size_t step = 0; step < losses.size(); ++step) {
      EXPECT_NEAR(toy.column("loss")[step] / losses[step], 1, 1e-6) << step;
      EXPECT_NEAR(toy.column("grad_norm")[step] / norms[step], 1, 1e-6) << step;
    }
    const auto weights = toy.weights(kSteps);
    for (const auto& [name, expected] : whole.weights(kSteps)) {
      expect_close_weights(name, weights.at(name), expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DropoutAndClipping, Accumulation,
                         testing::Combine(testing::Values(0.0, 0.1), testing::Values(0.0, 0.25)),
                         [](const testing::TestParamInfo<Accumulation::ParamType>& info) {
                           return std::string(std::get<0>(info.param) > 0 ? "Dropout" : "Plain") +
                                  (std::get<1>(info.param) > 0 ? "Clipped" : "");
                         });

}  // namespace
}  // namespace olm2
