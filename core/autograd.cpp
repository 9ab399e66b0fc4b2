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

}  // namespace

std::vector<ValueId> differentiate(Graph& graph, ValueId loss, std::span<const GradTarget> targets,
                                   double seed) {
  if (element_count(graph.type(loss).shape) != 1) {
    throw Error("differentiate: " + graph.value(loss).name + " is " + to_string(graph.type(loss)) +
                ", expected a loss of one element");
  }
  const std::vector<bool> reached = reached_from(graph, targets);
  const size_t forward_nodes = graph.nodes().size();
  std::vector<ValueId> gradient(graph.values().size());
  std::vector<ValueId> home(graph.values().size());
  for (const GradTarget& target : targets) {
    const auto index = static_cast<size_t>(target.value.index);
    home[index] = target.home;
    if (target.accumulate) gradient[index] = graph.newest(target.home);
  }
  const std::vector<ValueId> start = gradient;

  const BackwardSection section(graph);
  graph.force_scope(-1);
  Attrs fill_attrs{{"value", seed}, {"f64", graph.type(loss).dtype == DType::f64 ? 1.0 : 0.0}};
  for (size_t i = 0; i < graph.type(loss).shape.size(); ++i) {
    fill_attrs["d" + std::to_string(i)] = 1;
  }
  gradient[static_cast<size_t>(loss.index)] =
      graph.add_value("fill", graph.value(loss).name + ".seed", {}, fill_attrs);

  for (size_t i = forward_nodes; i-- > 0;) {
    const Node node = graph.node({static_cast<int32_t>(i)});
    std::vector<ValueId> output_grads;
    for (const ValueId output : node.outputs) {
      output_grads.push_back(gradient[static_cast<size_t>(output.index)]);
    }
    std::vector<bool> wanted;
    for (const ValueId input : node.inputs) {
      const DType dtype = graph.type(input).dtype;
      wanted.push_back(reached[static_cast<size_t>(input.index)] && dtype != DType::i32);
    }
    const bool flows = std::ranges::any_of(output_grads, &ValueId::valid);
    if (!flows || std::ranges::none_of(wanted, [](bool is_wanted) { return is_wanted; })) continue;
    if (node.op->grad == nullptr) {
      throw Error("differentiate: op " + std::string(node.op->name) + " of " + node.name +
                  " has no gradient");
    }
    // An input read twice by one node gets its second contribution added separately.
    std::vector<ValueId> accumulators;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const auto earlier = node.inputs.begin() + static_cast<std::ptrdiff_t>(k);
      const bool repeated = std::find(node.inputs.begin(), earlier, node.inputs[k]) != earlier;
      accumulators.push_back(
          repeated || !wanted[k] ? ValueId{} : gradient[static_cast<size_t>(node.inputs[k].index)]);
    }
    graph.force_scope(node.scope);
    const GradRequest request{graph, node, output_grads, accumulators, wanted};
    const std::vector<ValueId> grads = node.op->grad(request);
    ensure(grads.size() == node.inputs.size(), "a gradient rule returned the wrong count");
    for (size_t k = 0; k < grads.size(); ++k) {
      if (!wanted[k] || !grads[k].valid()) continue;
      const auto input = static_cast<size_t>(node.inputs[k].index);
      ValueId sum = grads[k];
      const auto earlier = node.inputs.begin() + static_cast<std::ptrdiff_t>(k);
      if (std::find(node.inputs.begin(), earlier, node.inputs[k]) != earlier) {
        sum = graph.add_value("add", request.name("accumulate"), {gradient[input], sum});
      }
      gradient[input] = sum;
      if (home[input].valid()) graph.set_home(sum, home[input]);
    }
  }

  std::vector<ValueId> results;
  for (const GradTarget& target : targets) {
    const auto index = static_cast<size_t>(target.value.index);
    const ValueId result = gradient[index];
    if (result == start[index]) {
      throw Error("differentiate: the loss does not depend on " + graph.value(target.value).name);
    }
    results.push_back(result);
  }
  return results;
}

}  // namespace olm2
