#include "planner/milp_slots.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "milp_graphs.h"

namespace olm2 {
namespace {

constexpr Roofline kToyMachine{.flops_per_s = 1e9, .bytes_per_s = 2e8, .launch_s = 1e-7};

// "name" of optional slots and "> name" of the mandatory slot they precede.
std::string optional_slots(const Problem& problem, std::string_view space = "single0") {
  std::string text;
  bool open = false;
  for (const Slot& slot : slots_of(problem, space, true)) {
    const std::string& name = problem.graph->node(slot.node).name;
    if (slot.optional) text += name + " ";
    if (open && !slot.optional) text += "> " + name + "\n";
    open = slot.optional;
  }
  return text;
}

TEST(MilpSlots, OffersEachLayerBeforeItsBackwardPass) {
  const Program program = gpt_step({.layers = 2});
  EXPECT_EQ(optional_slots(problem_of(program, kToyMachine)),
            "ln_f > logits.grad_weight\n"
            "h.1.ln_1 h.1.qkv h.1.attention h.1.proj h.1.residual_1 h.1.ln_2 h.1.fc h.1.gelu "
            "> h.1.fc_2.grad_weight\n"
            "embedding h.0.ln_1 h.0.qkv h.0.attention h.0.proj h.0.residual_1 h.0.ln_2 h.0.fc "
            "h.0.gelu > h.0.fc_2.grad_weight\n");
}

TEST(MilpSlots, LooksOneLayerBack) {
  const Program program = gpt_step({.layers = 2});
  const std::string narrow = optional_slots(problem_of(program, kToyMachine));
  std::string layer0 =
      "embedding h.0.ln_1 h.0.qkv h.0.attention h.0.proj h.0.residual_1 h.0.ln_2 "
      "h.0.fc h.0.gelu ";
  std::string wide = narrow;
  wide.insert(wide.find("h.1.ln_1"), layer0 + "h.0.fc_2 h.0.residual_2 ");
  // The head's layer is the one after h.1, of which it reads the last output.
  std::string layer1 =
      "h.1.ln_1 h.1.qkv h.1.attention h.1.proj h.1.residual_1 h.1.ln_2 "
      "h.1.fc h.1.gelu h.1.fc_2 h.1.residual_2 ";
  EXPECT_EQ(optional_slots(problem_of(program, kToyMachine), "single1"), layer1 + wide);
}

TEST(MilpSlots, MayMakeAValueAgainBeforeEachOfItsReaders) {
  const Program program = gpt_step({.layers = 1});
  const std::string text = optional_slots(problem_of(program, kToyMachine), "jit0");
  const std::string below = "embedding h.0.ln_1 h.0.qkv h.0.attention ";
  EXPECT_NE(text.find(below + "> h.0.attention.grad"), std::string::npos) << text;
  EXPECT_NE(text.find(below + "> h.0.proj.grad_weight"), std::string::npos) << text;
}

TEST(MilpSlots, FullOffersAllThatServesSomeLaterNode) {
  Program program{.name = "step", .graph = {}, .results = {}};
  Graph& graph = program.graph;
  const ValueType type{{4}, DType::f32};
  const ValueId a = gelu(graph, "a", graph.add_source("x", type, Role::input));
  const ValueId b = gelu(graph, "b", a);
  graph.set_phase(Phase::backward);
  const ValueId c = add(graph, "c", b, a);
  program.results = {add(graph, "d", c, a)};
  EXPECT_EQ(optional_slots(problem_of(program, kToyMachine), "full"), "a > c\na b > d\n");
  program.results.push_back(b);
  const Problem problem = problem_of(program, kToyMachine);
  EXPECT_EQ(optional_slots(problem, "full"), "a > c\na b > d\na b ");
  EXPECT_TRUE(slots_of(problem, "full", true).back().optional);
}

TEST(MilpSlots, FullRefusesALargeGraph) {
  const Program program = gpt_step({.layers = 12});
  const Problem problem = problem_of(program, kToyMachine);
  EXPECT_THROW(slots_of(problem, "full", true), Error);
  EXPECT_NO_THROW(slots_of(problem, "full", false));
}

TEST(MilpSlots, EverySpaceCanBeAskedFor) {
  const std::span<const std::string_view> all = all_spaces();
  EXPECT_EQ(all.front(), "auto");
  EXPECT_TRUE(std::ranges::equal(all.subspan(1), slot_spaces()));
}

TEST(MilpSlots, CutsAGraphWithoutScopesIntoRuns) {
  const Program program = mlp_step(5, {3, 8, 8, 8, 8, 4});
  const Problem problem = problem_of(program, kToyMachine);
  const std::string text = optional_slots(problem);
  EXPECT_NE(text.find("l1"), std::string::npos) << text;
  EXPECT_EQ(text.find("loss "), std::string::npos) << text;
}

TEST(MilpSlots, EveryNodeHasOneMandatorySlotInGraphOrder) {
  const Program program = gpt_step({.layers = 3, .dropout = 0.1});
  const Problem problem = problem_of(program, kToyMachine);
  int32_t next = 0;
  std::vector<bool> offered(program.graph.nodes().size(), false);
  for (const Slot& slot : slots_of(problem, "single0", true)) {
    if (slot.optional) {
      EXPECT_LT(slot.node.index, next);
      EXPECT_FALSE(offered[static_cast<size_t>(slot.node.index)]);
      offered[static_cast<size_t>(slot.node.index)] = true;
      EXPECT_EQ(program.graph.node(slot.node).phase, Phase::forward);
    } else {
      EXPECT_EQ(slot.node.index, next++);
    }
  }
  EXPECT_EQ(static_cast<size_t>(next), program.graph.nodes().size());
  EXPECT_TRUE(std::ranges::none_of(slots_of(problem, "single0", false), &Slot::optional));
}

TEST(MilpSlots, ANodeThatReadsStateChangedSinceIsNotOffered) {
  for (const bool changes : {false, true}) {
    Program program{.name = "step", .graph = {}, .results = {}};
    Graph& graph = program.graph;
    const ValueType type{{4}, DType::f32};
    const ValueId weight = graph.add_source("weight", type, Role::parameter);
    const ValueId y = add(graph, "y", weight, graph.add_source("x", type, Role::input));
    const ValueId z = gelu(graph, "z", y);
    gelu(graph, "last", z);
    graph.set_phase(Phase::backward);
    if (changes) graph.set_home(add(graph, "changed", weight, weight), weight);
    program.results = {add(graph, "late", y, z)};
    const std::string text = optional_slots(problem_of(program, kToyMachine));
    EXPECT_EQ(text.find("y ") == std::string::npos, changes) << text;
  }
}

TEST(MilpSlots, AGraphWithoutBackwardPassHasNoTurn) {
  Program program{.name = "evaluation", .graph = {}, .results = {}};
  Graph& graph = program.graph;
  const ValueId x = graph.add_source("x", {{4, 4}, DType::f32}, Role::input);
  program.results = {gelu(graph, "y", gelu(graph, "z", x))};
  const Problem problem = problem_of(program, kToyMachine);
  EXPECT_EQ(turn_of(graph), -1);
  EXPECT_EQ(slots_of(problem, "single0", true).size(), 2U);
  EXPECT_THROW(slots_of(problem, "single7", true), Error);
}

}  // namespace
}  // namespace olm2
