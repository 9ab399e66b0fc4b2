// Data too small for what the configuration asks of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// B * T of the toy is 64.
TEST(ShortData, IsRefusedWithTheTokensItNeeds) {
  for (const int64_t tokens : {0, 64}) {
    const ToyRun toy({}, tokens);
    EXPECT_THAT(toy.refusal(), AllOf(HasSubstr("toy_train_000000.bin"), HasSubstr("at least 65"),
                                     HasSubstr(std::to_string(tokens) + " tokens")));
    EXPECT_FALSE(std::filesystem::exists(toy.folder())) << "something was left behind";
  }
}

TEST(ShortData, OfOneBatchAndOneTokenIsEnough) {
  const ToyRun toy({"train.steps=2"}, 65);
  EXPECT_EQ(toy.train().last_step, 2);
}

TEST(ShortData, ForValidationIsRefusedBeforeTraining) {
  const ToyRun toy({"output.eval_every=1"}, 2000, 8);
  EXPECT_THAT(toy.refusal(), AllOf(HasSubstr("toy_val_000000.bin"), HasSubstr("at least 65")));
  EXPECT_THAT(toy.metrics(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(toy.folder()));
}

TEST(ShortData, ForValidationDoesNotMatterWhereNothingIsEvaluated) {
  const ToyRun toy({"train.steps=1"}, 2000, 8);
  EXPECT_EQ(toy.train().last_step, 1);
}

}  // namespace
}  // namespace olm2
