// Small training steps for the planner's tests, and Problems around them.
#pragma once

#include <string>
#include <vector>

#include "core/autograd.h"
#include "core/schedule.h"
#include "ops/ops.h"
#include "planner/planner.h"
#include "planner/run_seconds.h"

namespace olm2 {

struct GptSizes {
  int64_t layers = 2;
  int64_t heads = 2;
  int64_t channels = 16;
  int64_t vocabulary = 33;
  int64_t batch = 3;
  int64_t tokens = 7;
  double dropout = 0;
};

// Parameters of one graph, each with a gradient source.
class GraphParameters {
 public:
  explicit GraphParameters(Graph& graph) : graph_(graph) {}

  ValueId add(const std::string& name, Shape shape) {
    const ValueType type{std::move(shape), DType::f32};
    const ValueId value = graph_.add_source(name, type, Role::parameter);
    targets_.push_back(
        {.value = value, .home = graph_.add_source("grad." + name, type, Role::gradient)});
    return value;
  }
  void differentiate_by_all(ValueId loss) { differentiate(graph_, loss, targets_); }

 private:
  Graph& graph_;
  std::vector<GradTarget> targets_;
};

inline ValueId gpt_block(Graph& graph, GraphParameters& parameters, const GptSizes& sizes,
                         ValueId key, ValueId x, const std::string& p) {
  const int64_t c = sizes.channels;
  const auto norm = [&](const char* name, ValueId v) {
    const ValueId weight = parameters.add(p + name + ".weight", {c});
    return layer_norm(graph, name, v, weight, parameters.add(p + name + ".bias", {c}));
  };
  const auto project = [&](const char* name, ValueId v, int64_t in, int64_t out) {
    const ValueId weight = parameters.add(p + name + ".weight", {in, out});
    return linear(graph, name, v, weight, parameters.add(p + name + ".bias", {out}));
  };
  const auto drop = [&](const char* name, ValueId v) {
    return key.valid() ? dropout(graph, name, v, key, sizes.dropout) : v;
  };
  ValueId y = project("qkv", norm("ln_1", x), c, 3 * c);
  y = attention(graph, "attention", y, sizes.heads, sizes.dropout, key);
  x = add(graph, "residual_1", x, drop("drop_1", project("proj", y, c, c)));
  y = gelu(graph, "gelu", project("fc", norm("ln_2", x), c, 4 * c));
  return add(graph, "residual_2", x, drop("drop_2", project("fc_2", y, 4 * c, c)));
}

// Forward and backward of a GPT-2; results: the loss.
inline Program gpt_step(const GptSizes& sizes) {
  Program program{.name = "step", .graph = {}, .results = {}};
  Graph& graph = program.graph;
  GraphParameters parameters(graph);
  const int64_t c = sizes.channels;
  const ValueId wte = parameters.add("wte", {sizes.vocabulary, c});
  const ValueId wpe = parameters.add("wpe", {sizes.tokens, c});
  const ValueType ids{{sizes.batch, sizes.tokens}, DType::i32};
  const ValueId tokens = graph.add_source("tokens", ids, Role::input);
  const ValueId targets = graph.add_source("targets", ids, Role::input);
  const ValueId key =
      sizes.dropout > 0 ? graph.add_source("key", {{4}, DType::i32}, Role::input) : ValueId{};
  ValueId x = embedding(graph, "embedding", tokens, wte, wpe);
  for (int64_t l = 0; l < sizes.layers; ++l) {
    const std::string name = "h." + std::to_string(l);
    const Scope scope(graph, name);
    x = gpt_block(graph, parameters, sizes, key, x, name + ".");
  }
  const ValueId weight = parameters.add("ln_f.weight", {c});
  x = layer_norm(graph, "ln_f", x, weight, parameters.add("ln_f.bias", {c}));
  const ValueId logits = linear(graph, "logits", x, wte, {}, true);
  const ValueId loss = softmax_cross_entropy(graph, "loss", logits, targets, sizes.vocabulary);
  parameters.differentiate_by_all(loss);
  program.results = {loss};
  return program;
}

// linear and gelu by turns, without scopes.  `widths` are the sizes of the layers, input first.
inline Program mlp_step(int64_t batch, const std::vector<int64_t>& widths) {
  Program program{.name = "step", .graph = {}, .results = {}};
  Graph& graph = program.graph;
  GraphParameters parameters(graph);
  ValueId x = graph.add_source("x", {{batch, widths[0]}, DType::f32}, Role::input);
  for (size_t l = 1; l < widths.size(); ++l) {
    const std::string name = "l" + std::to_string(l);
    const ValueId weight = parameters.add(name + ".w", {widths[l - 1], widths[l]});
    x = linear(graph, name, x, weight, parameters.add(name + ".b", {widths[l]}));
    if (l + 1 < widths.size()) x = gelu(graph, name + ".gelu", x);
  }
  const ValueId targets = graph.add_source("targets", {{batch}, DType::i32}, Role::input);
  const ValueId loss = softmax_cross_entropy(graph, "loss", x, targets, widths.back());
  parameters.differentiate_by_all(loss);
  program.results = {loss};
  return program;
}

// State at the bottom of the device; times by the roofline; no links and no budgets.
inline Problem problem_of(const Program& program, const Roofline& roofline) {
  const Graph& graph = program.graph;
  Problem problem{.graph = &graph,
                  .results = program.results,
                  .seconds = {},
                  .workspace = std::vector<int64_t>(graph.nodes().size(), 0),
                  .state_offset = std::vector<int64_t>(graph.values().size(), -1),
                  .state_bytes = 0,
                  .device_to_host = {},
                  .host_to_device = {},
                  .budget = {},
                  .alignment = 64};
  for (const Node& node : graph.nodes()) {
    problem.seconds.push_back(estimate_seconds(graph, node, roofline));
  }
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (value.producer.valid() || !is_state(value.role)) continue;
    problem.state_offset[v] = problem.state_bytes;
    problem.state_bytes += problem.padded_bytes({static_cast<int32_t>(v)});
  }
  return problem;
}

inline void add_links(Problem& problem, double bytes_per_s, double slowdown, int64_t host_bytes) {
  const LinkProfile link{.bytes_per_s = bytes_per_s, .latency_s = 0, .compute_slowdown = slowdown};
  problem.device_to_host = link;
  problem.host_to_device = link;
  problem.budget[index_of(Tier::host)] = host_bytes;
}

inline int64_t& device_budget(Problem& problem) {
  return problem.budget[index_of(Tier::device)];
}

// Device bytes above the state of keeping everything.
inline int64_t activation_bytes(const Problem& problem) {
  Plan plan;
  for (size_t n = 0; n < problem.graph->nodes().size(); ++n) {
    plan.steps.push_back({.kind = Step::Kind::compute,
                          .node = {static_cast<int32_t>(n)},
                          .value = {},
                          .range = {},
                          .from = Tier::device,
                          .to = Tier::device});
  }
  const Plan tidy = with_earliest_drops(problem, plan);
  return replay(problem, tidy).peak[index_of(Tier::device)] - problem.state_bytes;
}

}  // namespace olm2
