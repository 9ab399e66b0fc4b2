// State that rests in another tier, or nowhere, between programs: what `check` and `check_handover`
// refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/op.h"
#include "core/schedule.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;
using Kind = Instruction::Kind;

Operand on(ValueId value, int32_t buffer) {
  return {value, {{{buffer}, {0, 128}}}};
}

Instruction copy(ValueId value, int32_t from, int32_t to, Lane lane, std::vector<int32_t> waits) {
  return {.kind = Kind::copy,
          .lane = lane,
          .node = {},
          .reads = {on(value, from)},
          .writes = {on(value, to)},
          .workspace = {},
          .waits = std::move(waits)};
}

// x and p give g, g and p give the next p.  p rests at offset 128 of the host.
class CheckRest : public ::testing::Test {
 protected:
  CheckRest() {
    const ValueType type{.shape = {32}, .dtype = DType::f32};  // 128 bytes.
    x = graph.add_source("x", type, Role::input);
    p = graph.add_source("p", type, Role::parameter);
    g = graph.add_value("check_test_mix", "g", {x, p});
    q = graph.add_value("check_test_mix", "q", {p, g}, {{"in_place", 1}});
    graph.set_home(q, p);
    problem = {.graph = &graph,
               .results = {g},
               .seconds = {1, 1},
               .workspace = {0, 0},
               .state_offset = {-1, 128, -1, -1},
               .rest = {{}, {.tier = Tier::host}, {}, {}},
               .state_elsewhere = {0, 256, 0},
               .device_to_host = {.bytes_per_s = 1e9},
               .host_to_device = {.bytes_per_s = 1e9},
               .budget = {512, 384, 0}};
    const auto buffer = [&](const char* name, Tier tier, int64_t offset) {
      schedule.buffers.push_back({.name = name, .tier = tier, .offset = offset, .bytes = 128});
    };
    buffer("p at rest", Tier::host, 128);
    buffer("x", Tier::device, 0);
    buffer("p", Tier::device, 128);
    buffer("g", Tier::device, 256);
    schedule.instructions = {copy(p, 0, 2, Lane::host_to_device, {}),
                             {.node = {0},
                              .reads = {on(x, 1), on(p, 2)},
                              .writes = {on(g, 3)},
                              .workspace = {},
                              .waits = {0}},
                             {.node = {1},
                              .reads = {on(p, 2), on(g, 3)},
                              .writes = {on(q, 2)},
                              .workspace = {},
                              .waits = {}},
                             copy(q, 2, 0, Lane::device_to_host, {2})};
    schedule.at_start = {on(x, 1), on(p, 0)};
    schedule.at_end = {on(q, 0), on(g, 3)};
    schedule.arena = {384, 256, 0};
  }

  std::string refusal() const {
    try {
      check(problem, schedule);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  Graph graph;
  ValueId x, p, g, q;
  Problem problem;
  Schedule schedule;
};

TEST_F(CheckRest, AcceptsStateThatComesInAndGoesBack) {
  EXPECT_EQ(refusal(), "");
}

TEST_F(CheckRest, AcceptsStateInPieces) {
  schedule.buffers[0].bytes = 64;
  schedule.buffers.push_back({.name = "rest", .tier = Tier::host, .offset = 192, .bytes = 64});
  const Operand cut_p{p, {{{0}, {0, 64}}, {{4}, {64, 128}}}};
  schedule.at_start[1] = cut_p;
  EXPECT_THAT(refusal(), HasSubstr("does not fit into buffer 0"));
  schedule.buffers[2].bytes = 64;
  schedule.buffers.push_back({.name = "p'", .tier = Tier::device, .offset = 192, .bytes = 64});
  const auto half = [](ValueId value, int32_t buffer, int64_t begin) {
    return Operand{value, {{{buffer}, {begin, begin + 64}}}};
  };
  const Operand there_p{p, {{{2}, {0, 64}}, {{5}, {64, 128}}}};
  const Operand there_q{q, there_p.pieces};
  auto& list = schedule.instructions;
  list[0].reads = {half(p, 0, 0)};
  list[0].writes = {half(p, 2, 0)};
  list[1].reads[1] = there_p;
  list[2].reads[0] = there_p;
  list[2].writes[0] = there_q;
  list[3].reads = {half(q, 2, 0)};
  list[3].writes = {half(q, 0, 0)};
  Instruction second_in = list[0];
  second_in.reads = {half(p, 4, 64)};
  second_in.writes = {half(p, 5, 64)};
  Instruction second_out = list[3];
  second_out.reads = {half(q, 5, 64)};
  second_out.writes = {half(q, 4, 64)};
  list.insert(list.begin(), second_in);
  list.push_back(second_out);
  list[2].waits = {1};
  list[4].waits = {3};
  list[5].waits = {3};
  schedule.at_end[0] = {q, cut_p.pieces};
  EXPECT_EQ(refusal(), "");
  list.pop_back();  // Half of it is old.
  EXPECT_THAT(refusal(), HasSubstr("the end of the step: reads q [64,128)"));
  EXPECT_THAT(refusal(), HasSubstr("which holds p [64,128)"));
}

TEST_F(CheckRest, RefusesAMissingWriteBack) {
  schedule.instructions.pop_back();
  EXPECT_THAT(refusal(), HasSubstr("the end of the step: reads q [0,128) from buffer 0"));
  EXPECT_THAT(refusal(), HasSubstr("which holds p [0,128)"));
}

TEST_F(CheckRest, RefusesAWriteBackThatDoesNotWait) {
  schedule.instructions[3].waits = {1};
  EXPECT_THAT(refusal(), HasSubstr("without waiting for instruction 2 (compute q)"));
}

TEST_F(CheckRest, RefusesToReadAStaleCopy) {
  // The host still holds the old version when the new one is fetched from there.
  schedule.buffers.push_back({.name = "q", .tier = Tier::device, .offset = 384, .bytes = 128});
  schedule.arena[0] = 512;
  schedule.instructions.insert(schedule.instructions.begin() + 3,
                               copy(q, 0, 4, Lane::host_to_device, {2}));
  EXPECT_THAT(refusal(), HasSubstr("instruction 3 (copy of q): reads q [0,128) from buffer 0"));
  EXPECT_THAT(refusal(), HasSubstr("which holds p [0,128)"));
}

TEST_F(CheckRest, RefusesTheOldVersionAfterTheWriteBack) {
  schedule.buffers.push_back(
      {.name = "p again", .tier = Tier::device, .offset = 384, .bytes = 128});
  schedule.arena[0] = 512;
  schedule.instructions.push_back(copy(p, 0, 4, Lane::host_to_device, {3}));
  EXPECT_THAT(refusal(), HasSubstr("which holds q [0,128)"));
}

TEST_F(CheckRest, RefusesAnotherRestingTierAtTheEnd) {
  schedule.at_end[0] = on(q, 2);
  EXPECT_THAT(refusal(), HasSubstr("lists q in buffer 2"));
  EXPECT_THAT(refusal(), HasSubstr("expected it on the host"));
}

TEST_F(CheckRest, RefusesAnotherRestingPlace) {
  schedule.buffers[0].offset = 0;
  EXPECT_THAT(refusal(), HasSubstr("is not the home of a state source"));
  problem.state_elsewhere[1] = 0;
  EXPECT_THAT(refusal(), HasSubstr("aligned bytes below state_bytes = 0"));
}

TEST_F(CheckRest, RefusesOthersInTheHostsStateRegion) {
  schedule.buffers.push_back({.name = "g", .tier = Tier::host, .offset = 0, .bytes = 128});
  EXPECT_THAT(refusal(), HasSubstr("lies below state_bytes = 256"));
  schedule.buffers.back().offset = 128;  // On p itself.
  schedule.instructions.push_back(copy(g, 3, 4, Lane::device_to_host, {1}));
  EXPECT_THAT(refusal(), HasSubstr("writes g [0,128) over state p"));
}

// A gradient that does not exist before the step: its bytes serve others until it is written.
class CheckEarly : public ::testing::Test {
 protected:
  CheckEarly() {
    const ValueType type{.shape = {32}, .dtype = DType::f32};
    x = graph.add_source("x", type, Role::input);
    s = graph.add_source("s", type, Role::gradient);
    y = graph.add_value("check_test_mix", "y", {x});
    z = graph.add_value("check_test_mix", "z", {y});
    g = graph.add_value("check_test_mix", "g", {z});
    graph.set_home(g, s);
    problem = {.graph = &graph,
               .results = {g},
               .seconds = {1, 1, 1},
               .workspace = {0, 0, 0},
               .state_offset = {-1, 0, -1, -1, -1},
               .rest = {{}, {.at_start = false}, {}, {}, {}},
               .device_to_host = {},
               .host_to_device = {},
               .budget = {384, 0, 0}};
    const auto buffer = [&](const char* name, int64_t offset) {
      schedule.buffers.push_back({.name = name, .offset = offset, .bytes = 128});
    };
    buffer("g", 0);
    buffer("x", 128);
    buffer("y", 0);  // Where g will be.
    buffer("z", 256);
    const auto run = [](int32_t node, Operand read, Operand write) {
      return Instruction{.node = {node},
                         .reads = {std::move(read)},
                         .writes = {std::move(write)},
                         .workspace = {},
                         .waits = {}};
    };
    schedule.instructions = {run(0, on(x, 1), on(y, 2)), run(1, on(y, 2), on(z, 3)),
                             run(2, on(z, 3), on(g, 0))};
    schedule.at_start = {on(x, 1)};
    schedule.at_end = {on(g, 0)};
    schedule.arena = {384, 0, 0};
  }
  std::string refusal() const {
    try {
      check(problem, schedule);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  Graph graph;
  ValueId x, s, y, z, g;
  Problem problem;
  Schedule schedule;
};

TEST_F(CheckEarly, AcceptsOthersThereBeforeTheGradient) {
  EXPECT_EQ(refusal(), "");
}

TEST_F(CheckEarly, RefusesOthersThereOnceTheGradientIsAlive) {
  problem.rest[1].at_start = true;
  problem.state_bytes = 128;
  EXPECT_THAT(refusal(), HasSubstr("source s is missing"));
  schedule.at_start.push_back(on(s, 0));
  EXPECT_THAT(refusal(), HasSubstr("instruction 0 (compute y): writes y [0,128) over state s"));
}

TEST_F(CheckEarly, RefusesOthersThereAfterTheGradientIsWritten) {
  // z is read again when the gradient lies on it.
  schedule.buffers[3].offset = 0;
  schedule.buffers[2].offset = 256;
  std::swap(schedule.instructions[1], schedule.instructions[2]);
  EXPECT_NE(refusal(), "");
  std::swap(schedule.instructions[1], schedule.instructions[2]);
  EXPECT_THAT(refusal(), HasSubstr("share bytes and can be in use at the same time"));
}

TEST_F(CheckEarly, RefusesContentThatNobodyLeft) {
  schedule.at_start.push_back(on(s, 0));
  EXPECT_THAT(refusal(), HasSubstr("state s is listed, though nobody left its content there"));
}

TEST_F(CheckEarly, RefusesAGradientThatDoesNotComeToRest) {
  schedule.at_end = {};
  EXPECT_THAT(refusal(), HasSubstr("state s does not hold its newest version g"));
  schedule.buffers[0].offset = 128;
  schedule.at_end = {on(g, 0)};
  EXPECT_THAT(refusal(), HasSubstr("state g lies at offset 128, expected 0"));
  problem.rest[1].at_end = false;  // Then it is a result like any other.
  EXPECT_EQ(refusal(), "");
}

// --- between programs ----------------------------------------------------------------------------

// A program that knows one source of 128 bytes.
struct Known {
  Graph graph;
  Problem problem;
  Known(const char* name, int64_t offset, StateRest rest, int64_t state_bytes = 0) {
    graph.add_source(name, {.shape = {32}, .dtype = DType::f32}, Role::gradient);
    problem.graph = &graph;
    problem.state_offset = {offset};
    problem.rest = {rest};
    problem.state_bytes = state_bytes;
  }
};

std::string refusal_of(const std::vector<const Known*>& programs) {
  const std::vector<std::string> names = {"one", "two", "three"};
  std::vector<ProgramInTurn> turns;
  for (size_t i = 0; i < programs.size(); ++i) turns.push_back({names[i], &programs[i]->problem});
  try {
    check_handover(turns);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

constexpr StateRest kMade{.at_start = false};
constexpr StateRest kUsedUp{.at_end = false};

TEST(Handover, AcceptsWhatAnEarlierProgramLeft) {
  const Known first("g", 128, kMade, 128);
  const Known last("g", 128, kUsedUp, 128);
  const Known other("p", 0, {}, 256);
  EXPECT_EQ(refusal_of({&first, &last}), "");
  EXPECT_EQ(refusal_of({&first, &last, &other}), "");
  EXPECT_EQ(refusal_of({&first, &other, &last}), "");
}

TEST(Handover, RefusesStateThatNobodyLeaves) {
  const Known first("g", 0, kMade);
  const Known last("g", 0, kUsedUp);
  EXPECT_THAT(refusal_of({&last}), HasSubstr("program one needs state g"));
  EXPECT_THAT(refusal_of({&first, &last, &last}),
              HasSubstr("program three needs state g, whose bytes program two before it uses"));
}

TEST(Handover, RefusesAProgramBetweenThatUsesTheBytes) {
  const Known first("g", 128, kMade, 128);
  const Known last("g", 128, kUsedUp, 128);
  const Known between("p", 0, {}, 128);  // Spares itself, and nothing above.
  EXPECT_EQ(refusal_of({&first, &last, &between}), "");
  EXPECT_THAT(refusal_of({&first, &between, &last}),
              HasSubstr("program three needs state g, whose bytes program two before it uses"));
}

TEST(Handover, RefusesTwoPlacesForOneSource) {
  const Known here("p", 0, {}, 256);
  const Known there("p", 128, {}, 256);
  const Known away("p", 0, {.tier = Tier::host}, 256);
  EXPECT_THAT(refusal_of({&here, &there}), HasSubstr("f32(32) at offset 0 of the device in program "
                                                     "one, and f32(32) at offset 128"));
  EXPECT_THAT(refusal_of({&here, &away}), HasSubstr("at offset 0 of the host in program two"));
}

TEST(Handover, RefusesTwoSourcesInOnePlace) {
  const Known p("p", 0, {}, 256);
  const Known g("g", 64, {}, 256);
  EXPECT_THAT(refusal_of({&p, &g}), HasSubstr("state g overlaps p"));
}

}  // namespace
}  // namespace olm2
