// What is computed, never where or when.
//
// A Graph is append-only, in SSA form and in topological order: a node may only read values that
// already exist, and every value is written once.  (One exception, Graph::replace, makes a node
// give more than it did; no value changes.)  Values have types but no bytes; bytes belong to
// a Schedule (core/schedule.h) and to the arenas it is run in (memory/arena.h).
//
// State (parameters, gradients, optimizer moments) outlives a step.  Each state source is a value
// with role parameter, gradient or moment.  A node that changes it returns a new version, a value
// whose `home` is the state source: the planner stores every version at the same address.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/shape.h"

namespace olm2 {

// Index into one of the vectors of a Graph, Plan or Schedule.  Ids of different things do not
// convert into each other.
template <typename Tag>
struct Id {
  int32_t index = -1;
  bool valid() const { return index >= 0; }
  auto operator<=>(const Id&) const = default;
};
using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;
using BufferId = Id<struct BufferTag>;

enum class Role : uint8_t { input, parameter, gradient, moment, activation };
std::string_view to_string(Role role);
constexpr bool is_state(Role role) {
  return role == Role::parameter || role == Role::gradient || role == Role::moment;
}

struct Value {
  std::string name;  // Unique in its graph.
  ValueType type;
  Role role = Role::activation;
  NodeId producer;  // Invalid for sources: inputs and state.
  ValueId home;     // The state source at whose address this version lives; invalid: not state.
};

struct OpDef;

// Numbers that select what an op computes.  Doubles hold every int32 and every hash of 32 bits.
using Attrs = std::map<std::string, double, std::less<>>;
double attr_or(const Attrs& attrs, std::string_view key, double otherwise);

// Which part of a training step a node belongs to.
enum class Phase : uint8_t { forward, backward, update };
std::string_view to_string(Phase phase);

struct Node {
  const OpDef* op = nullptr;
  std::string name;  // Unique in its graph, e.g. "h.3.mlp.c_fc".
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
  Phase phase = Phase::forward;
  // Number of the outermost scope ("h.3") the node was made in, -1 outside of any.  A backward
  // node has the scope of its forward node.  Policies treat a scope as one layer.
  int32_t scope = -1;
};

class Graph {
 public:
  // Appends a value that no node makes.  Throws Error if the name is taken.
  ValueId add_source(std::string name, ValueType type, Role role);

  // Appends a node; its first output is named like the node, the k-th further one "name.k".
  // The name is prefixed by the open scopes; a taken name gets "#2", "#3" ...
  // Throws Error if the op is unknown or the inputs do not fit it.
  NodeId add(std::string_view op, std::string_view name, std::vector<ValueId> inputs,
             Attrs attrs = {});
  // The same, returning the first output.
  ValueId add_value(std::string_view op, std::string_view name, std::vector<ValueId> inputs,
                    Attrs attrs = {});

  // Puts another op in the place of a node.  Its first outputs are the values the node had, under
  // their names; further ones are appended.  Name, phase and scope stay.
  // Throws Error if the inputs do not fit the op; the first outputs must have the types the node
  // had, and every input must exist when the node runs.
  void replace(NodeId id, std::string_view op, std::vector<ValueId> inputs, Attrs attrs);

  // The name a node appended now under `name` gets: scopes in front, made unique.
  std::string node_name(std::string_view name) const;

  // Declares that `version` is the next content of the state source `home`.
  // Throws Error unless the types agree, `home` is a state source, and `version` lives nowhere
  // else.
  void set_home(ValueId version, ValueId home);
  // The newest version of a state source: the source itself if no node changes it.
  ValueId newest(ValueId home) const;

  const Value& value(ValueId id) const { return values_.at(static_cast<size_t>(id.index)); }
  const Node& node(NodeId id) const { return nodes_.at(static_cast<size_t>(id.index)); }
  std::span<const Value> values() const { return values_; }
  std::span<const Node> nodes() const { return nodes_; }
  const ValueType& type(ValueId id) const { return value(id).type; }
  // Throws Error if there is no value or scope of this name.
  ValueId find(std::string_view name) const;
  // Invalid id if there is none.
  ValueId find_or_invalid(std::string_view name) const;
  std::span<const std::string> scopes() const { return scopes_; }

  // Where appended nodes belong; used by Scope and by differentiate.
  Phase phase() const { return phase_; }
  void set_phase(Phase phase) { phase_ = phase; }
  void enter_scope(std::string_view name);
  void leave_scope();
  // While set, appended nodes get this scope number and no name prefix (backward nodes name
  // themselves after their forward node).  -2 unsets.
  void force_scope(int32_t scope) { forced_scope_ = scope; }

 private:
  std::string unique_name(std::string name) const;
  std::vector<ValueType> infer_outputs(const Node& node) const;
  // Appends the outputs of `node`, number `id`, that it does not have yet.
  void append_outputs(NodeId id, Node& node, std::vector<ValueType> types);

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, ValueId> value_by_name_;
  std::unordered_map<std::string, NodeId> node_by_name_;
  std::vector<std::string> scopes_;              // Outermost scopes, by number.
  std::vector<std::string> open_scopes_;         // The path of the scope we are in.
  std::unordered_map<int32_t, ValueId> newest_;  // State source -> newest version.
  int32_t scope_ = -1;
  int32_t forced_scope_ = -2;
  Phase phase_ = Phase::forward;
};

// `const Scope scope(graph, "h.3");` prefixes the names made while it lives.
class Scope {
 public:
  Scope(Graph& graph, std::string_view name) : graph_(graph) { graph_.enter_scope(name); }
  ~Scope() { graph_.leave_scope(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Graph& graph_;
};

// One line per source and node, stable across runs: also what the plan's graph hash is taken of.
std::string to_string(const Graph& graph);

// A graph to run as one step, and the values somebody reads afterwards.
struct Program {
  std::string name;  // "first", "middle", "last", "step", "evaluation", "sampling".
  Graph graph;
  std::vector<ValueId> results;
};

}  // namespace olm2
