// Real schedules, broken at random: `check` refuses every mutant that does harm.
//
// Whether a mutant does harm is decided without `check`: from the mutation itself where that
// suffices, otherwise by running what `check` accepts, on poisoned memory and with delayed copies.
#include "tests/core/mutants.h"

#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/happens_before.h"
#include "tests/runs/real_run.h"

namespace olm2 {
namespace {

std::optional<CheckedSchedule> accepted(const Problem& problem, const Schedule& schedule) {
  try {
    return check(problem, schedule);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The schedule of a training step that recomputes and swaps.
class RealScheduleMutants : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { run_ = std::make_unique<MixedRun>(odd_gpt2()); }
  static void TearDownTestSuite() { run_.reset(); }

  static const PlannedProgram& planned() { return run_->plan.programs.at(0); }
  static const Problem& problem() { return planned().problem; }
  static const CheckedSchedule& original() { return planned().planned.schedule.value(); }
  static const Schedule& schedule() { return original().schedule(); }
  static Outcome outcome_of(const CheckedSchedule& checked, const ExecutorOptions& options) {
    return run_steps(*run_, {{"step", problem(), checked}}, 1, options);
  }

 private:
  inline static std::unique_ptr<MixedRun> run_;
};
class RealScheduleMutantsSlow : public RealScheduleMutants {};

std::set<int32_t> buffers_of(const std::vector<Operand>& operands) {
  std::set<int32_t> buffers;
  for (const Operand& operand : operands) {
    for (const Piece& piece : operand.pieces) buffers.insert(piece.buffer.index);
  }
  return buffers;
}

bool share(const std::set<int32_t>& a, const std::set<int32_t>& b) {
  return std::ranges::any_of(a, [&](int32_t x) { return b.contains(x); });
}

// `later` reads what `earlier` writes.
bool depends(const Instruction& later, const Instruction& earlier) {
  return share(buffers_of(later.reads), buffers_of(earlier.writes));
}

// Two buffers that some instruction uses together, or that are both in use around it.
bool collide(const Buffer& a, const Buffer& b) {
  const bool in_space =
      a.tier == b.tier && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  return in_space && a.first <= b.last && b.first <= a.last;
}

TEST_F(RealScheduleMutants, HaveAnOriginalThatRecomputesAndSwaps) {
  const Certificate& certificate = planned().planned.certificate;
  EXPECT_GT(certificate.recomputed, 0);
  EXPECT_GT(certificate.copied_bytes, 0);
  EXPECT_TRUE(accepted(problem(), schedule()).has_value());
}

// The planner's waits are all needed: lane order and the other waits never imply one of them.
TEST_F(RealScheduleMutants, WithoutAnyOneWaitIsRefused) {
  size_t dropped = 0;
  for (size_t i = 0; i < schedule().instructions.size(); ++i) {
    const size_t waits = schedule().instructions[i].waits.size();
    for (size_t w = 0; w < waits; ++w) {
      Schedule mutant = schedule();
      const int32_t gone = mutant.instructions[i].waits[w];
      mutant.instructions[i].waits.erase(mutant.instructions[i].waits.begin() +
                                         static_cast<std::ptrdiff_t>(w));
      EXPECT_FALSE(accepted(problem(), mutant)) << i << " no longer waits for " << gone;
      ++dropped;
    }
  }
  EXPECT_GT(dropped, 20U);
}

TEST_F(RealScheduleMutants, WithAnyShortenedCopyIsRefused) {
  const int64_t alignment = problem().alignment;
  size_t copies = 0;
  for (size_t i = 0; i < schedule().instructions.size(); ++i) {
    if (!testing::is_copy(schedule().instructions[i])) continue;
    Schedule mutant = schedule();
    Instruction& copy = mutant.instructions[i];
    for (Piece* piece : {&copy.reads[0].pieces[0], &copy.writes[0].pieces[0]}) {
      piece->range.end = padded(piece->range.end, alignment) - alignment;
    }
    EXPECT_FALSE(accepted(problem(), mutant)) << "copy " << i;
    ++copies;
  }
  EXPECT_GT(copies, 8U);
}

TEST_F(RealScheduleMutants, WithADependentPairExchangedIsRefused) {
  size_t pairs = 0;
  for (size_t i = 0; i + 1 < schedule().instructions.size(); ++i) {
    Schedule mutant = schedule();
    if (!depends(mutant.instructions[i + 1], mutant.instructions[i])) continue;
    std::swap(mutant.instructions[i], mutant.instructions[i + 1]);
    EXPECT_FALSE(accepted(problem(), mutant)) << i;
    ++pairs;
  }
  EXPECT_GT(pairs, 20U);
}

// Every buffer onto some of the others, all of them in turn.
TEST_F(RealScheduleMutants, WithABufferMovedOntoALiveOneIsRefused) {
  constexpr size_t kStride = 16;
  const std::vector<Buffer>& buffers = schedule().buffers;
  size_t moved = 0;
  for (size_t b = 0; b < buffers.size(); ++b) {
    for (size_t o = b % kStride; o < buffers.size(); o += kStride) {
      Schedule mutant = schedule();
      Buffer& buffer = mutant.buffers[b];
      const Buffer& other = buffers[o];
      if (collide(buffer, other)) continue;  // Itself.
      buffer.offset = other.offset;
      if (!collide(buffer, other)) continue;
      EXPECT_FALSE(accepted(problem(), mutant)) << buffer.name << " on " << other.name;
      ++moved;
    }
  }
  EXPECT_GT(moved, 100U);
}

// Seeds per mutation.
constexpr uint32_t kSeeds = 60;

TEST_F(RealScheduleMutantsSlow, ThatCheckAcceptsChangeNoBit) {
  const Outcome expected = outcome_of(original(), {});
  size_t refused = 0;
  size_t harmless = 0;
  for (const testing::Mutation& mutation : testing::all_mutations()) {
    for (uint32_t seed = 0; seed < kSeeds; ++seed) {
      testing::Random random(seed);
      const auto mutant = mutation.apply(problem(), schedule(), random);
      if (!mutant) continue;
      const std::optional<CheckedSchedule> checked = accepted(problem(), *mutant);
      const std::string who = std::string(mutation.name) + ", seed " + std::to_string(seed);
      if (!checked) {
        ++refused;
        continue;
      }
      EXPECT_FALSE(mutation.always_harmful) << who << " was accepted";
      ++harmless;
      const Outcome outcome = outcome_of(*checked, {.poison = true, .max_copy_delay_s = 5e-4});
      EXPECT_TRUE(outcome == expected) << who << ": other bits";
    }
  }
  // Both kinds must be there, or the test shows nothing.
  EXPECT_GT(refused, 500U);
  EXPECT_GT(harmless, 10U);
}

}  // namespace
}  // namespace olm2
