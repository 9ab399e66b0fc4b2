#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/schedule.h"
#include "tests/core/interpreter.h"
#include "tests/core/mutants.h"
#include "tests/core/schedule_maker.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;
using testing::Verdict;

// What check says; empty if it accepts.
std::string refusal(const Problem& problem, const Schedule& schedule) {
  try {
    check(problem, schedule);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// x -> double -> y -> triple -> z, state s updated by z; y goes to the host and comes back.
struct Case {
  Graph graph;
  Problem problem;
  Schedule schedule;
};

// A graph keeps its address here, so that the problem's pointer stays valid.
void make_swap_case(Case& c) {
  const ValueType type{.shape = {32}, .dtype = DType::f32};  // 128 bytes.
  const ValueId x = c.graph.add_source("x", type, Role::input);
  const ValueId s = c.graph.add_source("s", type, Role::parameter);
  const ValueId y = c.graph.add_value("check_test_mix", "y", {x});
  const ValueId z = c.graph.add_value("check_test_mix", "z", {y, x});
  const ValueId t = c.graph.add_value("check_test_mix", "t", {s, z}, {{"in_place", 1}});
  c.graph.set_home(t, s);
  const ValueId w = c.graph.add_value("check_test_mix", "w", {y});
  c.problem = {.graph = &c.graph,
               .results = {w},
               .seconds = {1, 1, 1, 1},
               .workspace = {0, 64, 0, 0},
               .state_offset = {-1, 0, -1, -1, -1, -1},
               .state_bytes = 128,
               .device_to_host = {.bytes_per_s = 1e9},
               .host_to_device = {.bytes_per_s = 1e9},
               .budget = {640, 128, 0}};
  const auto buffer = [&](std::string name, Tier tier, int64_t offset, int64_t bytes) {
    c.schedule.buffers.push_back(
        {.name = std::move(name), .tier = tier, .offset = offset, .bytes = bytes});
  };
  buffer("s", Tier::device, 0, 128);
  buffer("x", Tier::device, 128, 128);
  buffer("y", Tier::device, 256, 128);
  buffer("workspace of z", Tier::device, 512, 64);
  buffer("z", Tier::device, 384, 128);
  buffer("y", Tier::host, 0, 128);
  buffer("y", Tier::device, 256, 128);  // Where it was before.
  buffer("w", Tier::device, 384, 128);  // Where z was.
  const auto on = [](ValueId value, int32_t in) { return Operand{value, {{{in}, {0, 128}}}}; };
  using Kind = Instruction::Kind;
  c.schedule.instructions = {
      {.node = {0}, .reads = {on(x, 1)}, .writes = {on(y, 2)}, .workspace = {}, .waits = {}},
      {.node = {1},
       .reads = {on(y, 2), on(x, 1)},
       .writes = {on(z, 4)},
       .workspace = {3},
       .waits = {}},
      {.kind = Kind::copy,
       .lane = Lane::device_to_host,
       .node = {},
       .reads = {on(y, 2)},
       .writes = {on(y, 5)},
       .workspace = {},
       .waits = {0}},
      {.node = {2},
       .reads = {on(s, 0), on(z, 4)},
       .writes = {on(t, 0)},
       .workspace = {},
       .waits = {}},
      {.kind = Kind::copy,
       .lane = Lane::host_to_device,
       .node = {},
       .reads = {on(y, 5)},
       .writes = {on(y, 6)},
       .workspace = {},
       .waits = {1, 2}},
      {.node = {3}, .reads = {on(y, 6)}, .writes = {on(w, 7)}, .workspace = {}, .waits = {4}}};
  c.schedule.at_start = {on(x, 1), on(s, 0)};
  c.schedule.at_end = {on(t, 0), on(w, 7)};
  c.schedule.arena = {576, 128, 0};
}

class CheckSwap : public ::testing::Test {
 protected:
  CheckSwap() { make_swap_case(c); }
  std::string refusal() const { return olm2::refusal(c.problem, c.schedule); }
  Instruction& instruction(size_t i) { return c.schedule.instructions[i]; }
  Buffer& buffer(size_t i) { return c.schedule.buffers[i]; }
  Case c;
};

TEST_F(CheckSwap, AcceptsAValidSchedule) {
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(testing::interpret(c.problem, c.schedule), Verdict::harmless);
}

TEST_F(CheckSwap, RefusesACopyThatDoesNotWaitForItsSource) {
  instruction(2).waits = {};
  EXPECT_THAT(refusal(), HasSubstr("instruction 2 (copy of y): reads y [0,128) from buffer 2"));
  EXPECT_THAT(refusal(), HasSubstr("without waiting for instruction 0 (compute y)"));
}

TEST_F(CheckSwap, RefusesAReadBeforeTheCopyBackHasFinished) {
  instruction(5).waits = {};
  EXPECT_THAT(refusal(), HasSubstr("instruction 5 (compute w): reads y"));
  EXPECT_THAT(refusal(), HasSubstr("instruction 4 (copy of y)"));
}

TEST_F(CheckSwap, RefusesReuseOfAnAddressWhileItsReaderRuns) {
  instruction(4).waits = {2};  // z may still read the old y there.
  EXPECT_THAT(refusal(), HasSubstr("share bytes and can be in use at the same time"));
}

TEST_F(CheckSwap, RefusesReuseOfAnAddressWhileItIsCopiedAway) {
  instruction(4).waits = {1};
  EXPECT_THAT(refusal(), HasSubstr("without waiting for instruction 2 (copy of y)"));
}

TEST_F(CheckSwap, AcceptsAnOrderThatFollowsThroughAThirdLane) {
  // w waits for copy 4, which waited for copy 2, which waited for y: nothing more is needed.
  instruction(5).waits = {4};
  buffer(7).offset = 128;  // x is dead by then.
  EXPECT_EQ(refusal(), "");
}

TEST_F(CheckSwap, RefusesReadOfDroppedValue) {
  instruction(4).writes[0].pieces[0].buffer = {4};  // Over z, which t still reads.
  instruction(5).reads[0].pieces[0].buffer = {4};
  instruction(4).waits = {1, 2};
  EXPECT_THAT(refusal(), HasSubstr("writes buffer 4 ('z', device [384,512)) without waiting for "
                                   "instruction 3 (compute t), which reads it"));
}

TEST_F(CheckSwap, RefusesReadOfAnOlderVersionOfState) {
  // t a second time: it would update what is already updated.
  c.schedule.instructions.insert(c.schedule.instructions.begin() + 4, instruction(3));
  EXPECT_THAT(refusal(), HasSubstr("instruction 4 (compute t): reads s [0,128) from buffer 0"));
  EXPECT_THAT(refusal(), HasSubstr("which holds t [0,128)"));
}

TEST_F(CheckSwap, RefusesAnOutputOnAnInputThatItsOpDoesNotAllow) {
  instruction(5).writes[0].pieces[0].buffer = {6};
  c.schedule.at_end[1].pieces[0].buffer = {6};
  EXPECT_THAT(refusal(), HasSubstr("writes w [0,128) over its input y"));
  EXPECT_THAT(refusal(), HasSubstr("check_test_mix does not allow"));
}

TEST_F(CheckSwap, RefusesAWorkspaceThatIsTooSmallOrMissingOrOnAnOperand) {
  c.problem.workspace[1] = 65;
  EXPECT_THAT(refusal(), HasSubstr("expected 65 bytes on the device"));
  instruction(1).workspace = {};
  EXPECT_THAT(refusal(), HasSubstr("has no workspace, 65 bytes expected"));
  instruction(1).workspace = {1};
  EXPECT_THAT(refusal(), HasSubstr("has its workspace on an input"));
  instruction(1).workspace = {4};
  EXPECT_THAT(refusal(), HasSubstr("instruction 1 (compute z): writes buffer 4"));
  instruction(1).workspace = {0};
  EXPECT_THAT(refusal(), HasSubstr("has its workspace on state s"));
}

TEST_F(CheckSwap, RefusesAWorkspaceThatOverlapsAnOperandInAnotherBuffer) {
  buffer(3).offset = 384;
  EXPECT_THAT(refusal(), HasSubstr("buffer 3 ('workspace of z'"));
  EXPECT_THAT(refusal(), HasSubstr("share bytes"));
}

TEST_F(CheckSwap, RefusesALinkThatDoesNotExist) {
  c.problem.host_to_device.bytes_per_s = 0;
  EXPECT_THAT(refusal(), HasSubstr("instruction 4 (copy of y): there is no link from host to "
                                   "device"));
}

TEST_F(CheckSwap, RefusesAStateThatIsNotAtItsAddress) {
  c.problem.state_offset[1] = 64;
  c.problem.state_bytes = 192;
  EXPECT_THAT(refusal(), HasSubstr("is not the home of a state source"));
  c.problem.state_offset[1] = -1;
  EXPECT_THAT(refusal(), HasSubstr("state s lies at offset -1"));
}

TEST_F(CheckSwap, RefusesAnArenaAboveTheBudget) {
  c.problem.budget[0] = 512;
  EXPECT_THAT(refusal(), HasSubstr("the device arena has 576 bytes, the budget is 512"));
}

TEST_F(CheckSwap, RefusesAResultThatIsMissing) {
  c.schedule.at_end.pop_back();
  EXPECT_THAT(refusal(), HasSubstr("the end of the step: result w is missing"));
}

TEST_F(CheckSwap, RefusesIdsThatDoNotExist) {
  const Schedule valid = c.schedule;
  instruction(0).node = {99};
  EXPECT_THAT(refusal(), HasSubstr("instruction 0 (compute nothing): there is no such node"));
  c.schedule = valid;
  instruction(1).reads[0].pieces[0].buffer = {-1};
  EXPECT_THAT(refusal(), HasSubstr("buffer that does not exist"));
  c.schedule = valid;
  instruction(2).reads[0].value = {1000};
  EXPECT_THAT(refusal(), HasSubstr("there is no such value"));
  c.schedule = valid;
  instruction(2).lane = static_cast<Lane>(17);
  EXPECT_THAT(refusal(), HasSubstr("there is no lane 17"));
  c.schedule = valid;
  instruction(2).waits = {-5};
  EXPECT_THAT(refusal(), HasSubstr("waits for instruction -5"));
  c.schedule = valid;
  buffer(2).offset = std::numeric_limits<int64_t>::max() - 63;
  EXPECT_THAT(refusal(), HasSubstr("outside the device arena"));
  c.schedule = valid;
  c.schedule.at_end[0].value = {77};
  EXPECT_THAT(refusal(), HasSubstr("lists a value that does not exist"));
}

TEST_F(CheckSwap, RefusesOperandsWithGapsOrMissingEnds) {
  // x in two neighbouring buffers would be fine: only what is broken below is refused.
  const Schedule valid = c.schedule;
  instruction(0).reads[0].pieces[0].range = {0, 64};
  EXPECT_THAT(refusal(), HasSubstr("reads only 64 bytes of x, 128 expected"));
  c.schedule = valid;
  instruction(0).reads[0].pieces[0].range = {64, 128};
  EXPECT_THAT(refusal(), HasSubstr("reads x with a gap before [64,128)"));
  c.schedule = valid;
  instruction(0).reads[0].pieces.clear();
  EXPECT_THAT(refusal(), HasSubstr("reads x from nowhere"));
  c.schedule = valid;
  instruction(0).reads[0].pieces[0].range = {0, 192};
  EXPECT_THAT(refusal(), HasSubstr("lies outside of its 128 bytes"));
}

TEST_F(CheckSwap, RefusesACopyOfUnalignedPart) {
  for (Operand* operand : {&instruction(2).reads[0], &instruction(2).writes[0]}) {
    operand->pieces[0].range = {0, 100};
  }
  EXPECT_THAT(refusal(), HasSubstr("does not begin and end at multiples of 64"));
}

TEST_F(CheckSwap, RefusesACopyThatRenamesItsValue) {
  instruction(2).writes[0].value = {0};
  EXPECT_THAT(refusal(), HasSubstr("instruction 2 (copy of y): reads and writes different values"));
}

TEST_F(CheckSwap, RefusesAnythingButVersionsOnState) {
  // z is as large as s; t reads both afterwards.
  instruction(1).writes[0].pieces[0].buffer = {0};
  EXPECT_THAT(refusal(), HasSubstr("instruction 1 (compute z): writes z [0,128) over state s"));
}

TEST_F(CheckSwap, RefusesAVersionThatIsNotWrittenHome) {
  instruction(3).writes[0].pieces[0].buffer = {4};
  EXPECT_THAT(refusal(),
              HasSubstr("writes t at offset 384, expected it at the address of state s"));
}

TEST_F(CheckSwap, RefusesStateThatBeginsElsewhere) {
  c.schedule.at_start[1].pieces[0].buffer = {4};
  EXPECT_THAT(refusal(),
              HasSubstr("the start of the step: state s lies at offset 384, expected 0"));
}

TEST_F(CheckSwap, RefusesAStartThatIsNotOneOfSources) {
  const Schedule valid = c.schedule;
  c.schedule.at_start.push_back(c.schedule.at_start[0]);
  EXPECT_THAT(refusal(), HasSubstr("x is listed twice"));
  c.schedule = valid;
  c.schedule.at_start.push_back(c.schedule.at_end[1]);
  EXPECT_THAT(refusal(), HasSubstr("w is made by a node and cannot be there already"));
  c.schedule = valid;
  c.schedule.at_start.erase(c.schedule.at_start.begin());
  EXPECT_THAT(refusal(), HasSubstr("source x is missing"));
}

// y = op(x) where the op may work in place and x lies in two parts.
TEST(Check, AcceptsAnOutputOnItsInputPartByPartOnly) {
  Graph graph;
  const ValueId x = graph.add_source("x", {.shape = {32}}, Role::input);
  const ValueId y = graph.add_value("check_test_mix", "y", {x});
  const ValueId z = graph.add_value("check_test_mix", "z", {y}, {{"in_place", 1}});
  const Problem problem{.graph = &graph,
                        .results = {},
                        .seconds = {1, 1},
                        .workspace = {0, 0},
                        .state_offset = {-1, -1, -1},
                        .device_to_host = {},
                        .host_to_device = {},
                        .budget = {1024, 0, 0}};
  Schedule schedule;
  schedule.arena = {512, 0, 0};
  schedule.buffers = {{.name = "x", .offset = 0, .bytes = 128},
                      {.name = "y, first half", .offset = 128, .bytes = 64},
                      {.name = "y, second half", .offset = 192, .bytes = 64},
                      {.name = "z, second half", .offset = 256, .bytes = 64}};
  schedule.at_start = {{x, {{{0}, {0, 128}}}}};
  Instruction first;
  first.node = {0};
  first.reads = schedule.at_start;
  first.writes = {{y, {{{1}, {0, 64}}, {{2}, {64, 128}}}}};
  Instruction second;
  second.node = {1};
  second.reads = first.writes;
  second.writes = {{z, {{{1}, {0, 64}}, {{2}, {64, 128}}}}};
  schedule.instructions = {first, second};
  EXPECT_EQ(refusal(problem, schedule), "");

  schedule.instructions[1].writes = {{z, {{{2}, {0, 64}}, {{3}, {64, 128}}}}};
  EXPECT_EQ(testing::interpret(problem, schedule), Verdict::harmful);
  EXPECT_THAT(refusal(problem, schedule), HasSubstr("writes z [0,64) over its input y [64,128)"));
}

// --- random schedules and their mutants --------------------------------------------------------

TEST(Check, AcceptsRandomValidSchedules) {
  testing::Random random(1);
  for (int i = 0; i < 300; ++i) {
    const auto made = testing::make_schedule(
        {.inputs = 1 + testing::pick(random, 2), .states = testing::pick(random, 3), .nodes = 8},
        random);
    ASSERT_EQ(refusal(made.problem, made.schedule), "")
        << i << "\n"
        << to_string(*made.graph) << to_string(*made.graph, made.schedule);
  }
}

TEST(Check, RefusesEveryHarmfulMutant) {
  testing::Random random(2);
  struct Count {
    int harmful = 0;
    int harmless = 0;
    int refused_without_harm = 0;
  };
  std::map<std::string_view, Count> counts;
  for (int i = 0; i < 120; ++i) {
    const auto made = testing::make_schedule({.inputs = 1, .states = 1, .nodes = 3}, random);
    if (made.schedule.instructions.size() > 10) continue;
    ASSERT_NE(testing::interpret(made.problem, made.schedule), Verdict::harmful) << i;
    for (const testing::Mutation& mutation : testing::all_mutations()) {
      const auto mutant = mutation.apply(made.problem, made.schedule, random);
      if (!mutant) continue;
      const Verdict verdict =
          mutation.always_harmful ? Verdict::harmful : testing::interpret(made.problem, *mutant);
      const std::string why = refusal(made.problem, *mutant);
      Count& count = counts[mutation.name];
      if (verdict == Verdict::harmful) {
        ++count.harmful;
        ASSERT_NE(why, "") << mutation.name << " of schedule " << i << "\n"
                           << to_string(*made.graph) << to_string(*made.graph, made.schedule)
                           << "\nmutant:\n"
                           << to_string(*made.graph, *mutant);
      } else if (verdict == Verdict::harmless) {
        ++(why.empty() ? count.harmless : count.refused_without_harm);
      }
    }
  }
  for (const testing::Mutation& mutation : testing::all_mutations()) {
    EXPECT_GE(counts[mutation.name].harmful, 5) << mutation.name << " was hardly tried";
  }
  // What is refused without need is refused for what a tiny case cannot show: a read of bytes that
  // are right by chance.  Dropped waits are judged exactly.
  EXPECT_EQ(counts["drop_wait"].refused_without_harm, 0);
  EXPECT_GT(counts["drop_wait"].harmless, 0);
}

TEST(Check, AcceptsAScheduleOfThousandsOfInstructions) {
  testing::Random random(3);
  const auto made = testing::make_schedule({.inputs = 2, .states = 10, .nodes = 250}, random);
  ASSERT_GT(made.schedule.instructions.size(), 1000U);
  EXPECT_EQ(refusal(made.problem, made.schedule), "");
}

}  // namespace
}  // namespace olm2
