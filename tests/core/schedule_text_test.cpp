#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/schedule.h"
#include "tests/core/mutants.h"
#include "tests/core/schedule_maker.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;

Graph small_graph() {
  Graph graph;
  const ValueId x = graph.add_source("x", {.shape = {32}}, Role::input);
  graph.add_value("check_test_mix", "a node", {x}, {{"outputs", 2}});
  return graph;
}

template <typename Parse>
std::string message_of(Parse parse) {
  try {
    parse();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(PlanText, IsOneStepPerLine) {
  const Graph graph = small_graph();
  const Plan plan{
      .steps = {{.kind = Step::Kind::compute, .node = {0}, .value = {}, .range = {}},
                {.kind = Step::Kind::copy,
                 .node = {},
                 .value = {1},
                 .range = {64, 128},
                 .from = Tier::device,
                 .to = Tier::host},
                {.kind = Step::Kind::drop, .node = {}, .value = {0}, .range = {0, 128}}}};
  const std::string text = to_string(graph, plan);
  EXPECT_EQ(text,
            "plan\n"
            "compute a\\x20node\n"
            "copy a\\x20node [64,128) device host\n"
            "drop x [0,128) device\n");
  EXPECT_EQ(parse_plan(graph, text).steps, plan.steps);
}

TEST(PlanText, ErrorsNameTheLine) {
  const Graph graph = small_graph();
  const auto message = [&](const char* text) {
    return message_of([&] { parse_plan(graph, text); });
  };
  EXPECT_THAT(message(""), HasSubstr("expected 'plan'"));
  EXPECT_THAT(message("plan\n\njump x\n"), HasSubstr("plan text, line 3: expected 'compute'"));
  EXPECT_THAT(message("plan\ncompute y\n"), HasSubstr("line 2: no node is named 'y'"));
  EXPECT_THAT(message("plan\ncopy x [0,64) device\n"), HasSubstr("line 2: expected a tier"));
  EXPECT_THAT(message("plan\ncopy x [0,64) device moon\n"), HasSubstr("line 2: tier: got 'moon'"));
  EXPECT_THAT(message("plan\ndrop x 0-64 device\n"), HasSubstr("expected a range"));
  EXPECT_THAT(message("plan\ndrop x [0,99999999999999999999) device\n"),
              HasSubstr("expected a number"));
  EXPECT_THAT(message("plan\ndrop x [0,64) device now\n"), HasSubstr("did not expect 'now'"));
  EXPECT_THAT(message("plan\ndrop \\x2 [0,64) device\n"), HasSubstr("expected \\xHH"));
}

TEST(ScheduleText, ShowsAddressesLanesAndWaits) {
  const Graph graph = small_graph();
  Schedule schedule;
  schedule.arena = {384, 128, 0};
  schedule.buffers = {{.name = "x", .bytes = 128, .first = -1, .last = 1},
                      {.name = "workspace of a node", .offset = 128, .bytes = 64},
                      {.name = "", .tier = Tier::host, .bytes = 128, .first = 1, .last = 2}};
  schedule.at_start = {{{0}, {{{0}, {0, 128}}}}};
  Instruction run;
  run.node = {0};
  run.reads = schedule.at_start;
  run.writes = {{{1}, {{{0}, {0, 64}}, {{1}, {64, 128}}}}, {{2}, {}}};
  run.workspace = {1};
  Instruction copy;
  copy.kind = Instruction::Kind::copy;
  copy.lane = Lane::device_to_host;
  copy.waits = {0, 7};
  schedule.instructions = {run, copy};
  const std::string text = to_string(graph, schedule);
  EXPECT_EQ(text,
            "schedule\n"
            "arena device 384 host 128 disk 0\n"
            "buffer 0 device offset 0 bytes 128 used -1 1 : x\n"
            "buffer 1 device offset 128 bytes 64 used 0 0 : workspace of a node\n"
            "buffer 2 host offset 0 bytes 128 used 1 2 : \\\n"
            "start x=0[0,128)\n"
            "0 compute run a\\x20node reads x=0[0,128) writes "
            "a\\x20node=0[0,64)+1[64,128) a\\x20node.1= workspace 1\n"
            "1 device-to-host copy reads writes waits 0 7\n");
  EXPECT_EQ(to_string(graph, parse_schedule(graph, text)), text);
}

TEST(ScheduleText, ErrorsNameTheLine) {
  const Graph graph = small_graph();
  const auto message = [&](const std::string& lines) {
    const std::string text = "schedule\narena device 64 host 0 disk 0\n" + lines;
    return message_of([&] { parse_schedule(graph, text); });
  };
  EXPECT_EQ(message(""), "");
  EXPECT_THAT(message("buffer 1 device"), HasSubstr("schedule text, line 3: found buffer 1"));
  EXPECT_THAT(message("1 compute run x"), HasSubstr("line 3: found instruction 1"));
  EXPECT_THAT(message("0 river copy"), HasSubstr("line 3: lane: got 'river'"));
  EXPECT_THAT(message("0 compute walk"), HasSubstr("expected 'run' or 'copy', found 'walk'"));
  EXPECT_THAT(message("0 compute copy reads x"), HasSubstr("expected value=pieces"));
  EXPECT_THAT(message("0 compute copy reads x=1[0,64)+ writes"), HasSubstr("piece after '+'"));
  EXPECT_THAT(message("0 compute copy reads x=1"), HasSubstr("expected a range"));
  EXPECT_THAT(message("0 compute copy reads y=1[0,64)"), HasSubstr("no value is named 'y'"));
  EXPECT_THAT(message("0 compute copy reads writes waits"), HasSubstr("expected a number"));
  EXPECT_THAT(message("start x=0[0,128)\nend"), HasSubstr("line 4: expected value=pieces"));
}

TEST(ScheduleText, PrintsAndParsesRandomSchedulesAndTheirMutants) {
  testing::Random random(5);
  for (int i = 0; i < 40; ++i) {
    const auto made = testing::make_schedule({.inputs = 1, .states = 1, .nodes = 5}, random);
    const std::string text = to_string(*made.graph, made.schedule);
    const Schedule parsed = parse_schedule(*made.graph, text);
    ASSERT_EQ(to_string(*made.graph, parsed), text);
    EXPECT_NO_THROW(check(made.problem, parsed));
    for (const testing::Mutation& mutation : testing::all_mutations()) {
      const auto mutant = mutation.apply(made.problem, made.schedule, random);
      if (!mutant) continue;
      const std::string broken = to_string(*made.graph, *mutant);
      ASSERT_EQ(to_string(*made.graph, parse_schedule(*made.graph, broken)), broken);
    }
  }
}

// Garbage is refused, or understood as a schedule that prints as what was understood.
TEST(ScheduleText, SurvivesGarbage) {
  testing::Random random(6);
  const auto made = testing::make_schedule({.inputs = 1, .states = 1, .nodes = 4}, random);
  const std::string good = to_string(*made.graph, made.schedule);
  constexpr std::string_view kLetters = "0123456789-[],)+= \n\\xabc:";
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (size_t edits = 1 + testing::pick(random, 3); edits > 0; --edits) {
      const size_t at = testing::pick(random, text.size());
      switch (testing::pick(random, 4)) {
        case 0:
          text[at] = kLetters[testing::pick(random, kLetters.size())];
          break;
        case 1:
          text.erase(at, 1 + testing::pick(random, 20));
          break;
        case 2:
          text.insert(at, text.substr(testing::pick(random, text.size()), 15));
          break;
        default:
          text[at] = static_cast<char>(random());
          break;
      }
    }
    try {
      const Schedule parsed = parse_schedule(*made.graph, text);
      const std::string once = to_string(*made.graph, parsed);
      ASSERT_EQ(to_string(*made.graph, parse_schedule(*made.graph, once)), once);
      check(made.problem, parsed);
    } catch (const Error& error) {
      ++refused;
      ASSERT_THAT(error.what(),
                  ::testing::AnyOf(HasSubstr("schedule text, line"), HasSubstr("check: ")));
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace olm2
