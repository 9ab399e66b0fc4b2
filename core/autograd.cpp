#include "core/autograd.h"

#include <algorithm>

#include "core/error.h"
#include "core/op.h"

namespace olm2 {
namespace {

// Marks every value that one of the targets flows into.
std::vector<bool> reached_from(const Graph& graph, std::span<const GradTarget> targets) {
  std::vector<bool> reached(graph.values().size(), false);
  for (const GradTarget& target : targets) reached[static_cast<size_t>(target.value.index)] = true;
  for (const Node& node : graph.nodes()) {
    const bool any = std::ranges::any_of(
        node.inputs, [&](ValueId id) { return reached[static_cast<size_t>(id.index)]; });
    if (!any) continue;
    for (const ValueId output : node.outputs) reached[static_cast<size_t>(output.index)] = true;
  }
  return reached;
}

// While it lives, appended nodes are backward nodes of the scope last forced.
class BackwardSection {
 public:
  explicit BackwardSection(Graph& graph) : graph_(graph), phase_(graph.phase()) {
    graph_.set_phase(Phase::backward);
  }
  ~BackwardSection() {
    graph_.set_phase(phase_);
    graph_.force_scope(-2);
  }
  BackwardSection(const BackwardSection&) = delete;
  BackwardSection& operator=(const BackwardSection&) = delete;

 private:
  Graph& graph_;
  Phase phase_;
};

// An input that a node read before, at an earlier place.
bool is_repeated(const Node& node, size_t input) {
  const auto here = node.inputs.begin() + static_cast<std::ptrdiff_t>(input);
  return std::find(node.inputs.begin(), here, node.inputs[input]) != here;
}

// The sweep over the forward nodes, last one first, and the gradient sums it keeps.
class ReverseSweep {
 public:
  ReverseSweep(Graph& graph, std::span<const GradTarget> targets)
      : graph_(graph),
        reached_(reached_from(graph, targets)),
        gradient_(graph.values().size()),
        home_(graph.values().size()) {
    for (const GradTarget& target : targets) {
      home_[slot(target.value)] = target.home;
      if (target.accumulate) gradient_[slot(target.value)] = graph.newest(target.home);
    }
  }

  ValueId gradient(ValueId value) const { return gradient_[slot(value)]; }

  void seed(ValueId loss, double seed) {
    graph_.force_scope(-1);
    const ValueType& type = graph_.type(loss);
    Attrs attrs{{"value", seed}, {"f64", type.dtype == DType::f64 ? 1.0 : 0.0}};
    for (size_t i = 0; i < type.shape.size(); ++i) attrs["d" + std::to_string(i)] = 1;
    gradient_[slot(loss)] = graph_.add_value("fill", graph_.value(loss).name + ".seed", {}, attrs);
  }

  // Appends what `node` contributes to the gradients of its inputs.
  void visit(const Node& node) {
    std::vector<ValueId> output_grads;
    for (const ValueId output : node.outputs) output_grads.push_back(gradient(output));
    const std::vector<bool> wanted = wanted_inputs(node);
    const bool flows = std::ranges::any_of(output_grads, &ValueId::valid);
    if (!flows || std::ranges::count(wanted, true) == 0) return;
    if (node.op->grad == nullptr) {
      const bool as_loss = node.op->grad_with_loss != nullptr;
      throw Error("differentiate: op " + std::string(node.op->name) + " of " + node.name +
                  " has no gradient" + (as_loss ? " where its output is not the loss itself" : ""));
    }
    contribute(node, output_grads, wanted,
               [&](const GradRequest& request) { return node.op->grad(request); });
  }

  // The same for the node of the loss, where its op makes the gradients along with it.
  void replace_loss(const Node& node, double seed) {
    const std::vector<bool> wanted = wanted_inputs(node);
    if (std::ranges::count(wanted, true) == 0) return;
    const std::vector<ValueId> output_grads(node.outputs.size());
    contribute(node, output_grads, wanted,
               [&](const GradRequest& request) { return node.op->grad_with_loss(request, seed); });
  }

 private:
  static size_t slot(ValueId value) { return static_cast<size_t>(value.index); }

  std::vector<bool> wanted_inputs(const Node& node) const {
    std::vector<bool> wanted;
    for (const ValueId input : node.inputs) {
      wanted.push_back(reached_[slot(input)] && graph_.type(input).dtype != DType::i32);
    }
    return wanted;
  }

  template <typename Rule>
  void contribute(const Node& node, std::span<const ValueId> output_grads,
                  const std::vector<bool>& wanted, const Rule& rule) {
    // A second contribution to an input that is read twice is added separately, in store().
    std::vector<ValueId> accumulators;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const bool fused = wanted[k] && !is_repeated(node, k);
      accumulators.push_back(fused ? gradient(node.inputs[k]) : ValueId{});
    }
    graph_.force_scope(node.scope);
    const GradRequest request{graph_, node, output_grads, accumulators, wanted};
    const std::vector<ValueId> grads = rule(request);
    ensure(grads.size() == node.inputs.size(), "a gradient rule returned the wrong count");
    for (size_t k = 0; k < grads.size(); ++k) {
      if (wanted[k] && grads[k].valid()) store(request, k, grads[k]);
    }
  }

  void store(const GradRequest& request, size_t input, ValueId sum) {
    const ValueId value = request.node.inputs[input];
    if (is_repeated(request.node, input)) {
      sum = graph_.add_value("add", request.name("accumulate"), {gradient(value), sum});
    }
    gradient_[slot(value)] = sum;
    if (home_[slot(value)].valid()) graph_.set_home(sum, home_[slot(value)]);
  }

  Graph& graph_;
  std::vector<bool> reached_;
  std::vector<ValueId> gradient_;  // Per forward value, the sum so far.
  std::vector<ValueId> home_;      // Per forward value.
};

}  // namespace

std::vector<ValueId> differentiate(Graph& graph, ValueId loss, std::span<const GradTarget> targets,
                                   double seed) {
  if (element_count(graph.type(loss).shape) != 1) {
    throw Error("differentiate: " + graph.value(loss).name + " is " + to_string(graph.type(loss)) +
                ", expected a loss of one element");
  }
  const size_t forward_nodes = graph.nodes().size();
  ReverseSweep sweep(graph, targets);
  std::vector<ValueId> before;
  for (const GradTarget& target : targets) before.push_back(sweep.gradient(target.value));

  const BackwardSection section(graph);
  const NodeId producer = graph.value(loss).producer;
  const bool at_once = producer.valid() && graph.node(producer).op->grad_with_loss != nullptr;
  if (at_once) {
    const Node node = graph.node(producer);  // A copy: the graph grows.
    sweep.replace_loss(node, seed);
  } else {
    sweep.seed(loss, seed);
  }
  for (size_t i = forward_nodes; i-- > 0;) {
    const NodeId id{static_cast<int32_t>(i)};
    if (at_once && id == producer) continue;
    const Node node = graph.node(id);
    sweep.visit(node);
  }

  std::vector<ValueId> results;
  for (size_t i = 0; i < targets.size(); ++i) {
    results.push_back(sweep.gradient(targets[i].value));
    if (results.back() == before[i]) {
      throw Error("differentiate: the loss does not depend on " +
                  graph.value(targets[i].value).name);
    }
  }
  return results;
}

}  // namespace olm2
