// Plans with copies against brute force over the plans that the integer program looks for.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "copy_oracle.h"
#include "planner/bound.h"
#include "planner/planner.h"
#include "planner/solver_process.h"
#include "random_blocks.h"

namespace olm2 {
namespace {

constexpr int64_t kKibibyte = 256;  // Elements of a block.
constexpr int64_t kOdd = 262'145;   // 1,048,580 bytes.
constexpr double kRounding = 1e-6;
constexpr double kTimeLimit_s = 60;

struct Tally {
  int cases = 0;
  int tight = 0;       // Keeping everything does not fit.
  int above_base = 0;  // The optimum is slower than keeping everything.
  int equal = 0;
};

double sum_of(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

// A unit is what copying one block takes, and the shortest node.
void expect_within_a_unit(const Problem& problem, const BlockRules& rules, bool may_recompute,
                          const std::string& which, Tally& tally) {
  const std::optional<int> best = oracle::fastest_with_copies(
      problem,
      {.block_bytes = rules.elements * 4, .may_recompute = may_recompute, .leaves_once = true});
  if (!best) return;
  const TurnBound bound = turn_bound(problem, may_recompute, true, kTimeLimit_s);
  EXPECT_TRUE(bound.fits) << which;
  EXPECT_LE(bound.seconds, *best * (1 + kRounding)) << which;
  PlanOptions options;
  options.policy = may_recompute ? "olm2" : "swap";
  options.space = may_recompute ? "full" : "auto";
  options.gap = 0;
  const Planned planned = plan_program(problem, options);
  ASSERT_TRUE(planned.schedule.has_value()) << which << ": a plan takes " << *best << " s";
  const double seconds = planned.certificate.objective_s;
  EXPECT_GT(seconds, *best - kRounding) << which << ": faster than all of its space";
  EXPECT_LT(seconds, *best + 1 + kRounding) << which;
  ++tally.cases;
  tally.tight += find_minimum(problem, {.policy = "none"}).bytes > problem.budget[0] ? 1 : 0;
  tally.above_base += *best > sum_of(problem.seconds) + kRounding ? 1 : 0;
  tally.equal += std::abs(seconds - *best) < kRounding ? 1 : 0;
}

Tally expect_near_brute_force(const BlockRules& rules, bool may_recompute, uint64_t graphs) {
  const SolverSession session;
  Tally tally;
  for (uint64_t seed = 0; seed < graphs; ++seed) {
    const RandomBlocks blocks(seed, rules);
    const std::string which =
        (may_recompute ? "olm2, seed " : "swap, seed ") + std::to_string(seed);
    expect_within_a_unit(blocks.problem(), rules, may_recompute, which, tally);
  }
  return tally;
}

// Values of one block each, so that where they lie plays no part.
BlockRules single_blocks(int64_t elements, bool in_place) {
  return {.elements = elements,
          .in_place = in_place,
          .input = false,
          .most_blocks = 1,
          .workspace = true,
          .lean = true};
}

TEST(CopyOptimum, OfSwappingEqualsBruteForceInKibibytesAndInOddBytes) {
  for (const int64_t elements : {kKibibyte, kOdd}) {
    const Tally tally = expect_near_brute_force(single_blocks(elements, true), false, 200);
    EXPECT_GE(tally.cases, 190);
    EXPECT_GE(tally.tight, 60);
    EXPECT_GE(tally.above_base, 30);
    EXPECT_EQ(tally.equal, tally.cases);
  }
}

TEST(CopyOptimum, OfSwappingAndRecomputingEqualsBruteForceInKibibytesAndInOddBytes) {
  for (const int64_t elements : {kKibibyte, kOdd}) {
    const Tally tally = expect_near_brute_force(single_blocks(elements, false), true, 200);
    EXPECT_EQ(tally.cases, 200);
    EXPECT_GE(tally.tight, 60);
    EXPECT_GE(tally.above_base, 30);
    EXPECT_GE(tally.equal, 198);
  }
}

// A part that stays fixes where the part that returns must lie, which the search does not see.
TEST(CopyOptimum, OfMovingPartsEqualsBruteForceButForWherePartsLie) {
  const BlockRules rules{.elements = kOdd, .in_place = false, .input = false, .lean = true};
  for (const bool may_recompute : {false, true}) {
    const Tally tally = expect_near_brute_force(rules, may_recompute, 100);
    EXPECT_GE(tally.cases, 95);
    EXPECT_GE(tally.tight, 30);
    EXPECT_GE(tally.above_base, 20);
    EXPECT_GE(tally.equal, tally.cases * 95 / 100);
  }
}

TEST(CopyOptimumSlow, EqualsBruteForceOnTwoThousandGraphs) {
  const Tally swap = expect_near_brute_force(single_blocks(kOdd, false), false, 2000);
  EXPECT_GE(swap.above_base, 400);
  EXPECT_EQ(swap.equal, swap.cases);
  const Tally both = expect_near_brute_force(single_blocks(kOdd, false), true, 2000);
  EXPECT_EQ(both.cases, 2000);
  EXPECT_GE(both.equal, 1990);
}

}  // namespace
}  // namespace olm2
