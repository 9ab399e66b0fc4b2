#include "train/optimizer.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace olm2 {
namespace {

// Moments of bf16 parameters are f32, like everything that small numbers are added to.
void declare_moment(Graph& graph, ValueId parameter, std::string name) {
  ValueType type = graph.type(parameter);
  if (type.dtype == DType::bf16) type.dtype = DType::f32;
  graph.add_source(std::move(name), std::move(type), Role::moment);
}

// Small parameters first: the moments of the largest are needed when few gradients are left, which
// matters to plans in which moments come and go.
std::vector<size_t> by_bytes(const Graph& graph, std::span<const Parameter> parameters) {
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {},
                           [&](size_t i) { return graph.type(parameters[i].value).bytes(); });
  return order;
}

}  // namespace

std::string gradient_name(std::string_view parameter) {
  return std::string(parameter) + ".grad";
}
std::string first_moment_name(std::string_view parameter) {
  return std::string(parameter) + ".m";
}
std::string second_moment_name(std::string_view parameter) {
  return std::string(parameter) + ".v";
}

void declare_gradients(Graph& graph, std::span<const Parameter> parameters) {
  for (const Parameter& p : parameters) {
    graph.add_source(gradient_name(graph.value(p.value).name), graph.type(p.value), Role::gradient);
  }
}

ValueId add_optimizer(Graph& graph, std::span<const Parameter> parameters, const AdamW& options) {
  std::vector<ValueId> gradients;
  for (const Parameter& p : parameters) {
    const std::string name = graph.value(p.value).name;
    declare_moment(graph, p.value, first_moment_name(name));
    declare_moment(graph, p.value, second_moment_name(name));
    gradients.push_back(graph.newest(graph.find(gradient_name(name))));
  }
  graph.set_phase(Phase::update);
  const ValueId rates = graph.add_source("rates", {{3}, DType::f32}, Role::input);
  const ValueId norm = global_norm(graph, "grad_norm", gradients);
  for (const size_t i : by_bytes(graph, parameters)) {
    const ValueId parameter = parameters[i].value;
    const std::string name = graph.value(parameter).name;
    AdamW mine = options;
    if (graph.type(parameter).shape.size() < 2) mine.weight_decay = 0;
    const ValueId m = graph.find(first_moment_name(name));
    const ValueId v = graph.find(second_moment_name(name));
    const Node& node =
        graph.node(adamw(graph, name + ".adamw", parameter, gradients[i], m, v, norm, rates, mine));
    const std::vector<ValueId> updated = node.outputs;
    graph.set_home(updated.at(0), parameter);
    graph.set_home(updated.at(1), m);
    graph.set_home(updated.at(2), v);
  }
  return norm;
}

}  // namespace olm2
