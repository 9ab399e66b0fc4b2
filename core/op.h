// What the framework must know of an operation.  One OpDef per file in ops/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph.h"

namespace olm2 {

// Bytes of one value while a kernel runs.  Owns nothing.
struct Tensor {
  void* data = nullptr;
  const ValueType* type = nullptr;
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  const Shape& shape() const { return type->shape; }
  int64_t elements() const { return element_count(type->shape); }
};

// Everything a reference kernel sees.
struct KernelArgs {
  const Attrs& attrs;
  std::span<const Tensor> in;
  std::span<const Tensor> out;
};
using ReferenceKernel = void (*)(const KernelArgs& args);

struct Cost {
  double flops = 0;
  double bytes = 0;  // Read plus written.
  // Scratch without which no kernel of the op can do, in bytes: what is planned where there is no
  // kernel to ask.
  int64_t workspace = 0;
};

// Everything a gradient rule sees.  `node` is a copy that stays valid while the graph grows.
struct GradRequest {
  Graph& graph;
  const Node& node;
  std::span<const ValueId> output_grads;  // Per output; invalid where nothing flows back.
  // Per input: the sum of what other readers contributed, to be added to; invalid: none.
  std::span<const ValueId> accumulators;
  const std::vector<bool>& wanted;  // Per input: somebody needs this gradient.

  // Name for a new node: "<forward node>.<suffix>".
  std::string name(std::string_view suffix) const { return node.name + "." + std::string(suffix); }
};

// The kernel may be given the same address for this output and this input: their types agree and
// each element of the output depends on no element of the input that is read later.
struct InPlace {
  int output = 0;
  int input = 0;
};

// A case to try an op on; tests run every op through its samples.
struct Sample {
  std::vector<ValueType> inputs = {};
  Attrs attrs = {};
  // Per input: integers are drawn from [0, integer_limit).  0: the input is floating point.
  // Empty: all inputs are.
  std::vector<int64_t> integer_limit = {};
  // Floating point inputs that must not be negative: drawn from (0, 1) instead of (-1, 1).
  std::vector<size_t> positive_inputs = {};
};

struct OpDef {
  std::string_view name;
  std::string_view summary;  // One line for the catalogue.

  // Types of the outputs.  Throws Error if the inputs do not fit.
  std::vector<ValueType> (*infer)(const Attrs&, std::span<const ValueType> in) = nullptr;

  // Appends the vector-Jacobian products and returns per input its gradient, accumulator
  // included; an invalid id means that no gradient flows (integers, or not wanted).
  // Null: the op is never differentiated, or only by grad_with_loss.
  std::vector<ValueId> (*grad)(const GradRequest& request) = nullptr;

  // For an op that makes its gradients cheaper along with its output than after it.  Used where
  // that output, a single number, is the loss itself: what flows back is then the number `seed`,
  // known while the graph is made.  Replaces the node (Graph::replace) and returns like `grad`.
  std::vector<ValueId> (*grad_with_loss)(const GradRequest& request, double seed) = nullptr;

  Cost (*cost)(const Attrs&, std::span<const ValueType> in,
               std::span<const ValueType> out) = nullptr;

  // Short, right, and a template over the scalar: runs f32 and f64.
  ReferenceKernel reference = nullptr;

  // Which outputs may lie on which inputs, given the attributes and how many inputs there are.
  std::vector<InPlace> (*in_place)(const Attrs&, size_t input_count) = nullptr;

  std::vector<Sample> (*samples)() = nullptr;
};

// Ops in alphabetical order, whatever the order of linking.
std::span<const OpDef* const> all_ops();
// Throws Error for an unknown name.
const OpDef& find_op(std::string_view name);

// `const RegisterOp kRegister{kMyOp};` at namespace scope adds an op to all_ops().
struct RegisterOp {
  explicit RegisterOp(const OpDef& op);
};

std::vector<InPlace> in_place_of(const Node& node);

// Types of a node's operands, in order.
std::vector<ValueType> types_of(const Graph& graph, std::span<const ValueId> values);

// Empty for an op without a cost.
Cost cost_of(const Graph& graph, const Node& node);

// Text that is equal for two nodes exactly if they launch the same kernel: op, attributes (but
// the ones that only select random numbers) and operand types.  Keys of a Profile.
std::string signature(const Graph& graph, const Node& node);

// `gradient`, or accumulator + gradient appended as an in-place add if there is an accumulator.
ValueId add_to(const GradRequest& request, size_t input, ValueId gradient);

}  // namespace olm2
