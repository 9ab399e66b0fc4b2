#include "core/graph.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/op.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

const ValueType kType{{2, 3}, DType::f32};

template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string name_of_node(const Graph& graph, ValueId output) {
  return graph.node(graph.value(output).producer).name;
}

TEST(Graph, WritesEveryValueOnce) {
  Graph graph;
  const ValueId x = graph.add_source("x", kType, Role::input);
  EXPECT_EQ(refusal([&] { graph.add_source("x", kType, Role::input); }),
            "graph: two sources named x");
  const ValueId y = gelu(graph, "y", x);
  const ValueId again = gelu(graph, "y", x);
  EXPECT_NE(y, again);
  EXPECT_EQ(graph.value(again).name, "y#2");
  EXPECT_EQ(graph.value(gelu(graph, "x", x)).name, "x#2");
  EXPECT_EQ(refusal([&] { graph.add_source("y", kType, Role::input); }),
            "graph: two sources named y");
}

TEST(Graph, ReadsOnlyWhatExists) {
  Graph graph;
  const ValueId x = graph.add_source("x", kType, Role::input);
  EXPECT_THROW(graph.add("gelu", "y", {ValueId{x.index + 1}}), std::logic_error);
  EXPECT_THROW(graph.add("gelu", "y", {ValueId{}}), std::logic_error);
  EXPECT_EQ(graph.nodes().size(), 0U);
}

TEST(Graph, IsUnchangedByARefusedNode) {
  Graph graph;
  const ValueId x = graph.add_source("x", kType, Role::input);
  const std::string before = to_string(graph);
  EXPECT_EQ(refusal([&] { graph.add("gellu", "y", {x}); }), "no op is named 'gellu'");
  EXPECT_EQ(refusal([&] { graph.add("add", "y", {x}); }), "y: add: got 1 inputs, expected 2: a, b");
  EXPECT_EQ(to_string(graph), before);
  EXPECT_EQ(graph.values().size(), 1U);
}

TEST(Graph, RefusesASourceThatIsNoSource) {
  Graph graph;
  EXPECT_EQ(refusal([&] { graph.add_source("x", kType, Role::activation); }),
            "graph: x has no node, so no activation");
  EXPECT_EQ(refusal([&] {
              graph.add_source("x", {{-1}, DType::f32}, Role::input);
            }),
            "shape (-1): an axis is negative");
}

TEST(Graph, NamesTheOutputsOfANodeAfterIt) {
  Graph graph;
  const ValueId x = graph.add_source("x", kType, Role::input);
  const ValueId weight = graph.add_source("w", {{3}, DType::f32}, Role::parameter);
  const ValueId y = layer_norm(graph, "ln", x, weight, weight);
  const Node& node = graph.node(graph.value(y).producer);
  ASSERT_EQ(node.outputs.size(), 3U);
  EXPECT_EQ(graph.value(node.outputs[0]).name, "ln");
  EXPECT_EQ(graph.value(node.outputs[1]).name, "ln.1");
  EXPECT_EQ(graph.value(node.outputs[2]).name, "ln.2");
  EXPECT_EQ(graph.find("ln.2"), node.outputs[2]);
  EXPECT_FALSE(graph.find_or_invalid("ln.3").valid());
  EXPECT_EQ(refusal([&] { graph.find("ln.3"); }), "graph: no value is named 'ln.3'");
}

TEST(Graph, PrefixesNamesByTheOpenScopesAndCountsTheOutermost) {
  Graph graph;
  const ValueId x = graph.add_source("x", kType, Role::input);
  const auto scope_of = [&](ValueId id) { return graph.node(graph.value(id).producer).scope; };
  const ValueId outside = gelu(graph, "a", x);
  EXPECT_EQ(scope_of(outside), -1);
  for (int pass = 0; pass < 2; ++pass) {
    const Scope layer(graph, "h.0");
    const Scope part(graph, "mlp");
    EXPECT_EQ(graph.node_name("b"), pass == 0 ? "h.0.mlp.b" : "h.0.mlp.b#2");
    const ValueId inside = gelu(graph, "b", x);
    EXPECT_EQ(name_of_node(graph, inside), pass == 0 ? "h.0.mlp.b" : "h.0.mlp.b#2");
    EXPECT_EQ(scope_of(inside), 0);
  }
  {
    const Scope layer(graph, "h.1");
    EXPECT_EQ(scope_of(gelu(graph, "b", x)), 1);
  }
  EXPECT_EQ(scope_of(gelu(graph, "c", x)), -1);
  EXPECT_EQ(std::vector<std::string>(graph.scopes().begin(), graph.scopes().end()),
            (std::vector<std::string>{"h.0", "h.1"}));
}

TEST(Graph, KeepsTheNewestVersionOfAState) {
  Graph graph;
  const ValueId parameter = graph.add_source("p", kType, Role::parameter);
  const ValueId x = graph.add_source("x", kType, Role::input);
  EXPECT_EQ(graph.newest(parameter), parameter);
  EXPECT_EQ(graph.value(parameter).home, parameter);
  EXPECT_FALSE(graph.value(x).home.valid());
  const ValueId first = add(graph, "first", parameter, x);
  graph.set_home(first, parameter);
  EXPECT_EQ(graph.newest(parameter), first);
  const ValueId second = add(graph, "second", first, x);
  graph.set_home(second, parameter);
  EXPECT_EQ(graph.newest(parameter), second);
  EXPECT_EQ(graph.value(first).home, parameter);
  EXPECT_EQ(graph.value(second).role, Role::parameter);
}

TEST(Graph, RefusesHomesThatDoNotFit) {
  Graph graph;
  const ValueId parameter = graph.add_source("p", kType, Role::parameter);
  const ValueId moment = graph.add_source("m", kType, Role::moment);
  const ValueId small = graph.add_source("s", {{3}, DType::f32}, Role::moment);
  const ValueId x = graph.add_source("x", kType, Role::input);
  const ValueId y = gelu(graph, "y", x);
  EXPECT_EQ(refusal([&] { graph.set_home(y, x); }),
            "graph: x is no state source; y cannot live there");
  EXPECT_EQ(refusal([&] { graph.set_home(y, small); }),
            "graph: y is f32(2,3), its home s is f32(3)");
  graph.set_home(y, parameter);
  EXPECT_EQ(refusal([&] { graph.set_home(gelu(graph, "z", x), y); }),
            "graph: y is no state source; z cannot live there");
  EXPECT_EQ(refusal([&] { graph.set_home(y, moment); }),
            "graph: y already lives at p; it cannot live at m too");
  EXPECT_EQ(graph.newest(moment), moment);
}

TEST(Graph, ReplacesANodeByOneThatMakesTheSameValuesAndMore) {
  Graph graph;
  const ValueId x = graph.add_source("x", kType, Role::input);
  const ValueId y = gelu(graph, "y", x);
  const ValueId z = gelu(graph, "z", y);
  const ValueId c = graph.add_source("c", {{3}, DType::f32}, Role::input);
  const NodeId id = graph.value(y).producer;
  graph.replace(id, "layer_norm", {x, c, c}, {{"epsilon", 0.5}});
  EXPECT_EQ(to_string(graph),
            "input x f32(2,3)\n"
            "input c f32(3)\n"
            "forward layer_norm y epsilon=0.5 : x c c -> y f32(2,3) y.1 f32(2) y.2 f32(2)\n"
            "forward gelu z : y -> z f32(2,3)\n");
  EXPECT_EQ(graph.node(id).outputs.at(0), y);
  EXPECT_EQ(graph.value(graph.find("y.2")).producer, id);
  // Not by one that reads what comes later, makes less, or makes something else.
  EXPECT_THROW(graph.replace(id, "layer_norm", {z, c, c}, {{"epsilon", 1}}), std::logic_error);
  EXPECT_THROW(graph.replace(id, "gelu", {x}, {}), std::logic_error);
  EXPECT_THROW(graph.replace(id, "layer_norm", {c, c, c}, {{"epsilon", 1}}), std::logic_error);
  EXPECT_THROW(graph.replace(id, "add", {x, c}, {}), Error);
}

TEST(Graph, PrintsOneLinePerSourceAndNode) {
  Graph graph;
  const ValueId parameter = graph.add_source("p", kType, Role::parameter);
  const ValueId x = graph.add_source("x", kType, Role::input);
  const ValueId y =
      linear(graph, "y", x, graph.add_source("w", {{3, 3}, DType::f32}, Role::input), {});
  graph.set_phase(Phase::update);
  graph.set_home(add(graph, "next", parameter, y), parameter);
  EXPECT_EQ(to_string(graph),
            "parameter p f32(2,3)\n"
            "input x f32(2,3)\n"
            "input w f32(3,3)\n"
            "forward linear y bias=0 transposed=0 : x w -> y f32(2,3)\n"
            "update add next : p y -> next f32(2,3)@p\n");
}

TEST(Signature, IsEqualForNodesThatLaunchTheSameKernel) {
  Graph graph;
  const ValueId x = graph.add_source("x", kType, Role::input);
  const ValueId key = graph.add_source("key", {{4}, DType::i32}, Role::input);
  const auto signature_of = [&](ValueId id) {
    return signature(graph, graph.node(graph.value(id).producer));
  };
  const std::string text = signature_of(dropout(graph, "a", x, key, 0.25));
  EXPECT_EQ(text, "dropout probability=0.25 f32(2,3) i32(4) -> f32(2,3)");
  EXPECT_EQ(signature_of(dropout(graph, "b", x, key, 0.25)), text);
  EXPECT_NE(signature_of(dropout(graph, "c", x, key, 0.5)), text);
  EXPECT_NE(signature_of(gelu(graph, "d", x)), text);
}

TEST(Registry, IsSortedAndKnowsItsOps) {
  const auto ops = all_ops();
  for (size_t i = 1; i < ops.size(); ++i) EXPECT_LT(ops[i - 1]->name, ops[i]->name);
  for (const OpDef* op : ops) EXPECT_EQ(&find_op(op->name), op);
}

}  // namespace
}  // namespace olm2
