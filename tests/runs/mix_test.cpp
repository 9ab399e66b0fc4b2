// The optimizer of memory is a mix: where both recomputing and swapping are possible, its plans
// use both and are faster than either alone.
#include <gtest/gtest.h>

#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

nlohmann::json plan_of(const std::string& policy) {
  const ToyRun toy({"planner.profile=slow_link.json", "memory.device_budget=60%",
                    "memory.host_budget=1 MiB", "memory.policy=" + policy});
  TrainRequest request;
  request.dry_run = true;
  toy.train({}, request);
  return toy.plan();
}

double predicted_ms(const nlohmann::json& plan) {
  double sum = 0;
  for (const nlohmann::json& program : plan.at("programs")) {
    sum += program.at("objective_ms").get<double>();
  }
  return sum;
}

TEST(Mix, IsStrictlyFasterThanRecomputingOrSwappingAlone) {
  const nlohmann::json mix = plan_of("olm2");
  EXPECT_GT(mix["recomputed_nodes"], 0);
  EXPECT_GT(mix["copied_bytes"], 0);
  const nlohmann::json recompute = plan_of("recompute");
  EXPECT_EQ(recompute["copied_bytes"], 0);
  const nlohmann::json swap = plan_of("swap");
  EXPECT_EQ(swap["recomputed_nodes"], 0);
  EXPECT_LT(predicted_ms(mix), 0.998 * predicted_ms(recompute));
  EXPECT_LT(predicted_ms(mix), 0.998 * predicted_ms(swap));
}

}  // namespace
}  // namespace olm2
