// What capuchin decides, and what becomes of it.
#include "planner/capuchin.h"

#include <gtest/gtest.h>

#include "planner/keep_all.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);
constexpr size_t kHost = index_of(Tier::host);

// Eight equal layers; `part` of the activations, and links on which a value takes `copy_s`.
struct EightLayers {
  toy::Training toy = toy::even_training(8);
  Problem problem = toy::problem_of(toy.graph, toy.results);
  EightLayers(double part, double copy_s) {
    problem.device_to_host.bytes_per_s = problem.host_to_device.bytes_per_s = 1024 / copy_s;
    const int64_t all = plan("none").certificate.peak[kDevice];
    problem.budget[kDevice] =
        problem.state_bytes +
        static_cast<int64_t>(part * static_cast<double>(all - problem.state_bytes));
  }
  Planned plan(std::string_view policy) const {
    PlanOptions options;
    options.policy = policy;
    return plan_program(problem, options);
  }
};

TEST(Capuchin, HidesCopiesWhereTheLinkIsFast) {
  const EightLayers layers(0.6, 0.25);
  const Certificate made = layers.plan("capuchin").certificate;
  EXPECT_GT(made.copied_bytes, 0);
  EXPECT_EQ(made.recomputed, 0);
  EXPECT_EQ(made.objective_s, made.baseline_s);
  // The same evictions on demand are waited for.
  EXPECT_GT(layers.plan("lru").certificate.objective_s, made.baseline_s + 0.5);
}

TEST(Capuchin, SwapsTheLargestFreeTimesFirst) {
  const EightLayers layers(0.8, 0.25);
  const OnlineHints hints = choose_capuchin(layers.problem, access_sequence(layers.problem));
  // The first layers are read last.
  size_t sent = 0;
  for (size_t n = 0; n < hints.send.size(); ++n) {
    sent += hints.send[n].size();
    EXPECT_TRUE(hints.send[n].empty() || layers.toy.graph.nodes()[n].scope < 3);
  }
  EXPECT_GT(sent, 0U);
}

TEST(Capuchin, MakesAgainWhereTheLinkIsSlow) {
  const EightLayers layers(0.6, 50);
  const Certificate made = layers.plan("capuchin").certificate;
  EXPECT_EQ(made.copied_bytes, 0);
  EXPECT_GT(made.recomputed, 0);
  EXPECT_LT(made.objective_s, 1.35 * made.baseline_s);
}

TEST(Capuchin, MixesWhereTheLinkIsBusyBeforeAllFits) {
  const EightLayers layers(0.5, 2);
  const Certificate made = layers.plan("capuchin").certificate;
  EXPECT_GT(made.copied_bytes, 0);
  EXPECT_GT(made.recomputed, 0);
  for (const std::string_view other : {"lru", "dtr", "chen"}) {
    EXPECT_LT(made.objective_s, layers.plan(other).certificate.objective_s) << other;
  }
}

TEST(Capuchin, StaysWithinTheHostBudget) {
  EightLayers layers(0.5, 0.25);
  layers.problem.budget[kHost] = 3 * 1024;
  const Certificate made = layers.plan("capuchin").certificate;
  EXPECT_GT(made.copied_bytes, 0);
  EXPECT_GT(made.recomputed, 0);
  EXPECT_LE(made.peak[kHost], 3 * 1024);
}

TEST(Capuchin, DecidesNothingWhereEverythingFits) {
  const EightLayers layers(1, 0.25);
  const OnlineHints hints = choose_capuchin(layers.problem, access_sequence(layers.problem));
  for (size_t n = 0; n < hints.send.size(); ++n) {
    EXPECT_TRUE(hints.send[n].empty() && hints.forget[n].empty() && hints.fetch[n].empty());
  }
}

}  // namespace
}  // namespace olm2
