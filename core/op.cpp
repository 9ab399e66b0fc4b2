#include "core/op.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "core/error.h"

namespace olm2 {
namespace {

std::vector<const OpDef*>& registry() {
  static std::vector<const OpDef*> ops;
  return ops;
}

}  // namespace

RegisterOp::RegisterOp(const OpDef& op) {
  std::vector<const OpDef*>& ops = registry();
  const auto position = std::ranges::lower_bound(ops, op.name, {}, &OpDef::name);
  ensure(position == ops.end() || (*position)->name != op.name, "two ops of one name");
  ops.insert(position, &op);
}

std::span<const OpDef* const> all_ops() {
  return registry();
}

const OpDef& find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto position = std::ranges::lower_bound(ops, name, {}, &OpDef::name);
  if (position == ops.end() || (*position)->name != name) {
    throw Error("no op is named '" + std::string(name) + "'");
  }
  return **position;
}

std::vector<InPlace> in_place_of(const Node& node) {
  if (node.op->in_place == nullptr) return {};
  return node.op->in_place(node.attrs, node.inputs.size());
}

std::vector<ValueType> types_of(const Graph& graph, std::span<const ValueId> values) {
  std::vector<ValueType> types;
  types.reserve(values.size());
  for (const ValueId id : values) types.push_back(graph.type(id));
  return types;
}

Cost cost_of(const Graph& graph, const Node& node) {
  if (node.op->cost == nullptr) return {};
  return node.op->cost(node.attrs, types_of(graph, node.inputs), types_of(graph, node.outputs));
}

std::string signature(const Graph& graph, const Node& node) {
  std::string text(node.op->name);
  for (const auto& [key, number] : node.attrs) {
    if (key == "stream") continue;
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    text += " " + key + "=" + std::string(digits.data(), end.ptr);
  }
  for (const ValueId input : node.inputs) text += " " + to_string(graph.type(input));
  text += " ->";
  for (const ValueId output : node.outputs) text += " " + to_string(graph.type(output));
  return text;
}

ValueId add_to(const GradRequest& request, size_t input, ValueId gradient) {
  const ValueId accumulator = request.accumulators[input];
  if (!accumulator.valid() || !gradient.valid()) return gradient;
  return request.graph.add_value("add", request.name("accumulate"), {accumulator, gradient});
}

}  // namespace olm2
