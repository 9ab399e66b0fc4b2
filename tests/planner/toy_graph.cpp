#include "toy_graph.h"

#include <algorithm>
#include <array>
#include <random>

#include "core/op.h"
#include "planner/steps.h"

namespace olm2::toy {
namespace {

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> /*in*/) {
  std::vector<ValueType> types;
  for (int k = 0; attrs.contains("n" + std::to_string(k)); ++k) {
    types.push_back({{static_cast<int64_t>(attr_or(attrs, "n" + std::to_string(k), 0))}});
  }
  return types;
}

std::vector<InPlace> in_place(const Attrs& attrs, size_t input_count) {
  std::vector<InPlace> pairs;
  if (attr_or(attrs, "in_place", 0) == 0) return pairs;
  for (size_t i = 0; i < input_count; ++i) pairs.push_back({0, static_cast<int>(i)});
  return pairs;
}

Cost cost(const Attrs& /*attrs*/, std::span<const ValueType> in, std::span<const ValueType> out) {
  Cost result;
  for (const ValueType& type : in) result.bytes += static_cast<double>(type.bytes());
  for (const ValueType& type : out) result.bytes += static_cast<double>(type.bytes());
  for (const ValueType& type : out) {
    result.flops += 1000 * static_cast<double>(element_count(type.shape));
  }
  return result;
}

constexpr OpDef kToy{.name = "toy",
                     .summary = "sizes without meaning, for planner tests",
                     .infer = infer,
                     .grad = nullptr,
                     .cost = cost,
                     .reference = nullptr,
                     .in_place = in_place,
                     .samples = nullptr};
const RegisterOp kRegister{kToy};

}  // namespace

NodeId add_node(Graph& graph, std::string_view name, std::vector<ValueId> inputs,
                std::vector<int64_t> elements, bool in_place) {
  Attrs attrs;
  for (size_t k = 0; k < elements.size(); ++k) {
    attrs["n" + std::to_string(k)] = static_cast<double>(elements[k]);
  }
  if (in_place) attrs["in_place"] = 1;
  return graph.add("toy", name, std::move(inputs), std::move(attrs));
}

ValueId add(Graph& graph, std::string_view name, std::vector<ValueId> inputs, int64_t elements,
            bool in_place) {
  return graph.node(add_node(graph, name, std::move(inputs), {elements}, in_place)).outputs[0];
}

Problem problem_of(const Graph& graph, std::vector<ValueId> results) {
  Problem problem;
  problem.graph = &graph;
  problem.results = std::move(results);
  problem.seconds.assign(graph.nodes().size(), 1.0);
  problem.workspace.assign(graph.nodes().size(), 0);
  problem.state_offset.assign(graph.values().size(), -1);
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (!is_state(value.role) || value.producer.valid()) continue;
    problem.state_offset[v] = problem.state_bytes;
    problem.state_bytes += problem.padded_bytes({static_cast<int32_t>(v)});
  }
  problem.device_to_host = {.bytes_per_s = 64, .latency_s = 0, .compute_slowdown = 1};
  problem.host_to_device = problem.device_to_host;
  problem.budget.fill(int64_t{1} << 40);
  return problem;
}

namespace {

// `size(k)` gives the elements of the k-th size asked for.
template <typename Size>
Training training_of(int layers, const Size& size) {
  Training result;
  Graph& graph = result.graph;
  const auto count = static_cast<size_t>(layers);
  ValueId h = graph.add_source("x", {{size()}}, Role::input);
  std::vector<ValueId> w, g, before, s;
  for (size_t l = 0; l < count; ++l) {
    const ValueType type{{size()}};
    w.push_back(graph.add_source("w" + std::to_string(l), type, Role::parameter));
    g.push_back(graph.add_source("g" + std::to_string(l), type, Role::gradient));
  }
  for (size_t l = 0; l < count; ++l) {
    const Scope scope(graph, "layer" + std::to_string(l));
    before.push_back(h);
    const ValueId a = add(graph, "a", {h, w[l]}, size());
    s.push_back(graph.node(add_node(graph, "s", {a}, {size(), size()}, true)).outputs[1]);
    h = add(graph, "h", {graph.find("layer" + std::to_string(l) + ".s"), h}, size(), true);
  }
  const ValueId loss = add(graph, "loss", {h}, 1);
  result.results = {loss};
  graph.set_phase(Phase::backward);
  ValueId d = add(graph, "seed", {loss, h}, size());
  for (size_t l = count; l-- > 0;) {
    graph.force_scope(static_cast<int32_t>(l));
    const std::string layer = "layer" + std::to_string(l);
    d = add(graph, layer + ".d", {d, s[l], graph.find(layer + ".a")}, size(), true);
    const ValueId gradient = add(graph, layer + ".dw", {d, before[l]}, graph.type(g[l]).shape[0]);
    graph.set_home(gradient, g[l]);
    graph.force_scope(-2);
  }
  graph.set_phase(Phase::update);
  for (size_t l = 0; l < count; ++l) {
    const ValueId updated = add(graph, "update" + std::to_string(l), {w[l], graph.newest(g[l])},
                                graph.type(w[l]).shape[0], true);
    graph.set_home(updated, w[l]);
  }
  return result;
}

}  // namespace

Training training(int layers, uint64_t seed) {
  std::mt19937_64 random(seed);
  return training_of(layers, [&] { return static_cast<int64_t>(1 + random() % 100); });
}

Training even_training(int layers) {
  return training_of(layers, [] { return int64_t{256}; });
}

Range whole(const Graph& graph, ValueId value) {
  return {0, graph.type(value).bytes()};
}

namespace {

// Keeps track of what is where, in at most two chunks per value, so that it only does what is
// allowed.
class RandomPlanner {
 public:
  RandomPlanner(const Problem& problem, uint64_t seed)
      : problem_(problem),
        graph_(*problem.graph),
        random_(seed),
        chunks_(graph_.values().size()),
        on_device_(graph_.values().size()),
        on_host_(graph_.values().size()),
        can_run_again_(graph_.values().size(), false) {
    for (size_t v = 0; v < graph_.values().size(); ++v) prepare(v);
  }

  Plan run() {
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      compute(n);
      for (int moves = below(4); moves > 0; --moves) move_something();
    }
    for (const ValueId result : problem_.results) bring(result);
    return std::move(plan_);
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  static size_t at(ValueId value) { return static_cast<size_t>(value.index); }
  bool is_result(ValueId value) const {
    return std::ranges::find(problem_.results, value) != problem_.results.end();
  }

  void prepare(size_t v) {
    const ValueId id{static_cast<int32_t>(v)};
    const Value& value = graph_.values()[v];
    const int64_t bytes = value.type.bytes();
    chunks_[v] = {{0, bytes}};
    const bool may_split = value.role == Role::activation && !is_result(id);
    if (may_split && bytes > 64 && below(2) == 0) {
      const int64_t cut = 64 * (1 + below(static_cast<int>((bytes - 1) / 64)));
      chunks_[v] = {{0, cut}, {cut, bytes}};
    }
    on_device_[v].assign(chunks_[v].size(), !value.producer.valid());
    on_host_[v].assign(chunks_[v].size(), false);
    if (!value.producer.valid() || value.home.valid()) return;
    // State may change before the node runs again, so only nodes that read none.
    const Node& node = graph_.node(value.producer);
    can_run_again_[v] =
        std::ranges::none_of(node.outputs,
                             [&](ValueId o) { return graph_.value(o).home.valid(); }) &&
        std::ranges::none_of(node.inputs, [&](ValueId i) { return graph_.value(i).home.valid(); });
  }

  void compute(size_t n) {
    const Node& node = graph_.nodes()[n];
    // Bringing one input may forget another's parts, so until all are there.
    const auto missing = [&] {
      return std::ranges::find_if(node.inputs, [&](ValueId i) { return !is_whole(i); });
    };
    for (auto input = missing(); input != node.inputs.end(); input = missing()) bring(*input);
    for (const ValueId output : node.outputs) {
      if (graph_.value(output).home.valid()) continue;
      for (size_t c = 0; c < chunks_[at(output)].size(); ++c) drop(output, c, Tier::device);
      on_device_[at(output)].assign(chunks_[at(output)].size(), true);
    }
    plan_.steps.push_back(compute_step(n));
  }

  bool is_whole(ValueId value) const {
    return graph_.value(value).home.valid() ||
           std::ranges::all_of(on_device_[at(value)], [](bool there) { return there; });
  }

  void bring(ValueId value) {
    if (is_whole(value)) return;
    bool from_host = true;
    for (size_t c = 0; c < chunks_[at(value)].size(); ++c) {
      from_host = from_host && (on_device_[at(value)][c] || on_host_[at(value)][c]);
    }
    if (!from_host) {
      compute(static_cast<size_t>(graph_.value(value).producer.index));
      return;
    }
    for (size_t c = 0; c < chunks_[at(value)].size(); ++c) {
      if (on_device_[at(value)][c]) continue;
      plan_.steps.push_back(copy_step(value, chunks_[at(value)][c], Tier::host, Tier::device));
      on_device_[at(value)][c] = true;
    }
  }

  void drop(ValueId value, size_t chunk, Tier tier) {
    auto there = (tier == Tier::device ? on_device_ : on_host_)[at(value)].begin() +
                 static_cast<std::ptrdiff_t>(chunk);
    if (!*there) return;
    *there = false;
    plan_.steps.push_back(drop_step(value, chunks_[at(value)][chunk], tier));
  }

  void move_something() {
    const ValueId value{below(static_cast<int>(graph_.values().size()))};
    if (graph_.value(value).home.valid()) return;
    const auto chunk = static_cast<size_t>(below(static_cast<int>(chunks_[at(value)].size())));
    const bool on_device = on_device_[at(value)][chunk];
    if (on_device && !on_host_[at(value)][chunk] && below(3) > 0) {
      plan_.steps.push_back(copy_step(value, chunks_[at(value)][chunk], Tier::device, Tier::host));
      on_host_[at(value)][chunk] = true;
    } else if (on_device && (on_host_[at(value)][chunk] || can_run_again_[at(value)])) {
      drop(value, chunk, Tier::device);
    } else if (on_device && below(2) == 0) {
      drop(value, chunk, Tier::host);
    }
  }

  const Problem& problem_;
  const Graph& graph_;
  std::mt19937_64 random_;
  std::vector<std::vector<Range>> chunks_;  // Per value.
  std::vector<std::vector<bool>> on_device_, on_host_;
  std::vector<bool> can_run_again_;
  Plan plan_;
};

}  // namespace

Plan random_plan(const Problem& problem, uint64_t seed) {
  return RandomPlanner(problem, seed).run();
}

}  // namespace olm2::toy
