#include "core/graph.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "core/op.h"

namespace olm2 {
namespace {

constexpr std::array<std::string_view, 5> kRoleNames = {"input", "parameter", "gradient", "moment",
                                                        "activation"};
constexpr std::array<std::string_view, 3> kPhaseNames = {"forward", "backward", "update"};

ValueId value_id(size_t index) {
  return {static_cast<int32_t>(index)};
}

}  // namespace

std::string_view to_string(Role role) {
  return kRoleNames.at(static_cast<size_t>(role));
}
std::string_view to_string(Phase phase) {
  return kPhaseNames.at(static_cast<size_t>(phase));
}

double attr_or(const Attrs& attrs, std::string_view key, double otherwise) {
  const auto found = attrs.find(key);
  return found == attrs.end() ? otherwise : found->second;
}

ValueId Graph::add_source(std::string name, ValueType type, Role role) {
  if (value_by_name_.contains(name)) throw Error("graph: two sources named " + name);
  if (role == Role::activation) throw Error("graph: " + name + " has no node, so no activation");
  element_count(type.shape);  // Throws for impossible shapes.
  const ValueId id = value_id(values_.size());
  value_by_name_.emplace(name, id);
  values_.push_back({.name = std::move(name),
                     .type = std::move(type),
                     .role = role,
                     .producer = {},
                     .home = is_state(role) ? id : ValueId{}});
  return id;
}

std::string Graph::unique_name(std::string name) const {
  const auto taken = [&](const std::string& text) {
    return value_by_name_.contains(text) || node_by_name_.contains(text);
  };
  if (!taken(name)) return name;
  for (int i = 2;; ++i) {
    std::string numbered = name + "#" + std::to_string(i);
    if (!taken(numbered)) return numbered;
  }
}

std::string Graph::node_name(std::string_view name) const {
  std::string full_name;
  if (forced_scope_ == -2) {
    for (const std::string& scope : open_scopes_) full_name += scope + ".";
  }
  full_name += name;
  return unique_name(std::move(full_name));
}

NodeId Graph::add(std::string_view op, std::string_view name, std::vector<ValueId> inputs,
                  Attrs attrs) {
  Node node{.op = &find_op(op),
            .name = node_name(name),
            .inputs = std::move(inputs),
            .outputs = {},
            .attrs = std::move(attrs),
            .phase = phase_,
            .scope = forced_scope_ != -2 ? forced_scope_ : scope_};
  std::vector<ValueType> types = infer_outputs(node);
  const NodeId id{static_cast<int32_t>(nodes_.size())};
  append_outputs(id, node, std::move(types));
  node_by_name_.emplace(node.name, id);
  nodes_.push_back(std::move(node));
  return id;
}

std::vector<ValueType> Graph::infer_outputs(const Node& node) const {
  for (const ValueId input : node.inputs) {
    ensure(input.valid() && static_cast<size_t>(input.index) < values_.size(),
           node.name + " reads a value that does not exist");
  }
  try {
    return node.op->infer(node.attrs, types_of(*this, node.inputs));
  } catch (const Error& error) {
    throw Error(node.name + ": " + error.what());
  }
}

void Graph::append_outputs(NodeId id, Node& node, std::vector<ValueType> types) {
  for (size_t i = node.outputs.size(); i < types.size(); ++i) {
    std::string value_name = i == 0 ? node.name : node.name + "." + std::to_string(i);
    if (i > 0) value_name = unique_name(std::move(value_name));
    const ValueId output = value_id(values_.size());
    value_by_name_.emplace(value_name, output);
    values_.push_back({.name = std::move(value_name),
                       .type = std::move(types[i]),
                       .role = Role::activation,
                       .producer = id,
                       .home = {}});
    node.outputs.push_back(output);
  }
}

void Graph::replace(NodeId id, std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  Node node = this->node(id);
  node.op = &find_op(op);
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  std::vector<ValueType> types = infer_outputs(node);
  for (const ValueId input : node.inputs) {
    ensure(value(input).producer < id, node.name + " would read a value made after it");
  }
  ensure(types.size() >= node.outputs.size(), node.name + " would make less than before");
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    ensure(types[i] == type(node.outputs[i]), node.name + " would make other values than before");
  }
  append_outputs(id, node, std::move(types));
  nodes_.at(static_cast<size_t>(id.index)) = std::move(node);
}

ValueId Graph::add_value(std::string_view op, std::string_view name, std::vector<ValueId> inputs,
                         Attrs attrs) {
  return node(add(op, name, std::move(inputs), std::move(attrs))).outputs.at(0);
}

void Graph::set_home(ValueId version, ValueId home) {
  Value& value = values_.at(static_cast<size_t>(version.index));
  const Value& source = this->value(home);
  if (!is_state(source.role) || source.producer.valid()) {
    throw Error("graph: " + source.name + " is no state source; " + value.name +
                " cannot live there");
  }
  if (value.type != source.type) {
    throw Error("graph: " + value.name + " is " + to_string(value.type) + ", its home " +
                source.name + " is " + to_string(source.type));
  }
  if (value.home.valid() && value.home != home) {
    throw Error("graph: " + value.name + " already lives at " + this->value(value.home).name +
                "; it cannot live at " + source.name + " too");
  }
  value.home = home;
  value.role = source.role;
  newest_[home.index] = version;
}

ValueId Graph::newest(ValueId home) const {
  const auto found = newest_.find(home.index);
  return found == newest_.end() ? home : found->second;
}

ValueId Graph::find_or_invalid(std::string_view name) const {
  const auto found = value_by_name_.find(std::string(name));
  return found == value_by_name_.end() ? ValueId{} : found->second;
}

ValueId Graph::find(std::string_view name) const {
  const ValueId id = find_or_invalid(name);
  if (!id.valid()) throw Error("graph: no value is named '" + std::string(name) + "'");
  return id;
}

void Graph::enter_scope(std::string_view name) {
  if (open_scopes_.empty()) {
    const auto known = std::ranges::find(scopes_, name);
    scope_ = static_cast<int32_t>(known - scopes_.begin());
    if (known == scopes_.end()) scopes_.emplace_back(name);
  }
  open_scopes_.emplace_back(name);
}

void Graph::leave_scope() {
  open_scopes_.pop_back();
  if (open_scopes_.empty()) scope_ = -1;
}

std::string to_string(const Graph& graph) {
  std::string text;
  const auto names = [&](std::span<const ValueId> ids) {
    for (const ValueId id : ids) {
      text += ' ';
      text += graph.value(id).name;
    }
  };
  for (const Value& value : graph.values()) {
    if (value.producer.valid()) continue;
    text += std::string(to_string(value.role)) + " " + value.name + " " + to_string(value.type);
    text += '\n';
  }
  for (const Node& node : graph.nodes()) {
    text += std::string(to_string(node.phase)) + " " + std::string(node.op->name) + " " + node.name;
    for (const auto& [key, number] : node.attrs) {
      std::array<char, 32> digits{};
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
      text += " " + key + "=" + std::string(digits.data(), end.ptr);
    }
    text += " :";
    names(node.inputs);
    text += " ->";
    for (const ValueId output : node.outputs) {
      const Value& value = graph.value(output);
      text += " " + value.name + " " + to_string(value.type);
      if (value.home.valid()) text += "@" + graph.value(value.home).name;
    }
    text += '\n';
  }
  return text;
}

}  // namespace olm2
