#include "planner/in_place.h"

#include <algorithm>

namespace olm2 {
namespace {

// State that comes to rest at the end of the step may be cut and computed over its older versions.
bool is_result(const Problem& problem, ValueId value) {
  return !problem.graph->value(value).home.valid() &&
         std::ranges::find(problem.results, value) != problem.results.end();
}

// An input whose bytes an output may take over, as far as its role goes.
bool is_transient(const Problem& problem, ValueId input, ValueId output) {
  const Value& value = problem.graph->value(input);
  if (value.role == Role::activation) return true;
  if (!value.home.valid() || problem.lives_at_home(input)) return false;
  return value.producer.valid() || problem.graph->value(output).home == value.home;
}

bool obeys_graph(const Problem& problem, const Node& node, InPlace pair) {
  const Graph& graph = *problem.graph;
  const ValueId output = node.outputs.at(static_cast<size_t>(pair.output));
  const ValueId input = node.inputs.at(static_cast<size_t>(pair.input));
  return !problem.lives_at_home(output) && is_transient(problem, input, output) &&
         std::ranges::count(node.inputs, input) == 1 && !is_result(problem, input) &&
         !is_result(problem, output) && graph.type(output).bytes() == graph.type(input).bytes();
}

// Follows which values on the device have been copied off it.
class SentValues {
 public:
  explicit SentValues(const Problem& problem)
      : graph_(*problem.graph),
        present_bytes_(graph_.values().size(), 0),
        sent_(graph_.values().size(), false) {}

  void apply(const Step& step) {
    switch (step.kind) {
      case Step::Kind::compute:
        for (const ValueId output : graph_.node(step.node).outputs) {
          present(output) = graph_.type(output).bytes();
          sent_[index(output)] = false;
        }
        break;
      case Step::Kind::copy:
        if (step.from == Tier::device) sent_[index(step.value)] = true;
        if (step.to == Tier::device) {
          if (present(step.value) == 0) sent_[index(step.value)] = false;
          present(step.value) += step.range.bytes();
        }
        break;
      case Step::Kind::drop:
        if (step.from == Tier::device) present(step.value) -= step.range.bytes();
        break;
    }
  }
  bool was_sent(ValueId value) const { return sent_[index(value)]; }

 private:
  static size_t index(ValueId value) { return static_cast<size_t>(value.index); }
  int64_t& present(ValueId value) { return present_bytes_[index(value)]; }

  const Graph& graph_;
  std::vector<int64_t> present_bytes_;
  std::vector<bool> sent_;
};

bool is_dropped_after(const Problem& problem, const Plan& plan, size_t step, ValueId value) {
  int64_t dropped = 0;
  for (size_t k = step + 1; k < plan.steps.size(); ++k) {
    const Step& next = plan.steps[k];
    if (next.kind != Step::Kind::drop) break;
    if (next.value == value && next.from == Tier::device) dropped += next.range.bytes();
  }
  return dropped > 0 && dropped == problem.graph->type(value).bytes();
}

}  // namespace

std::vector<InPlace> possible_in_place(const Problem& problem, const Node& node) {
  std::vector<InPlace> pairs = in_place_of(node);
  std::erase_if(pairs, [&](InPlace pair) { return !obeys_graph(problem, node, pair); });
  return pairs;
}

std::vector<InPlace> choose_in_place(const Problem& problem, const Node& node,
                                     const std::function<bool(ValueId)>& is_free) {
  std::vector<InPlace> chosen;
  for (const InPlace pair : possible_in_place(problem, node)) {
    const bool taken = std::ranges::any_of(chosen, [&](InPlace other) {
      return other.output == pair.output || other.input == pair.input;
    });
    if (!taken && is_free(node.inputs[static_cast<size_t>(pair.input)])) chosen.push_back(pair);
  }
  return chosen;
}

std::vector<std::vector<InPlace>> in_place_choices(const Problem& problem, const Plan& plan) {
  std::vector<std::vector<InPlace>> choices(plan.steps.size());
  SentValues sent(problem);
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const Step& step = plan.steps[k];
    if (step.kind == Step::Kind::compute) {
      choices[k] = choose_in_place(problem, problem.graph->node(step.node), [&](ValueId input) {
        return !sent.was_sent(input) && is_dropped_after(problem, plan, k, input);
      });
    }
    sent.apply(step);
  }
  return choices;
}

}  // namespace olm2
