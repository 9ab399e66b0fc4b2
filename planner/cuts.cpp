#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "planner/trace.h"

namespace olm2 {
namespace {

// Sets of values that are cut alike (union-find with path halving).
class CutClasses {
 public:
  explicit CutClasses(size_t values) : parent_(values) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t find(size_t value) {
    while (parent_[value] != value) value = parent_[value] = parent_[parent_[value]];
    return value;
  }
  void join(size_t a, size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<size_t> parent_;
};

size_t index(ValueId value) {
  return static_cast<size_t>(value.index);
}

void join_chains(const Problem& problem, const Plan& plan,
                 const std::vector<std::vector<InPlace>>& choices, CutClasses& classes) {
  for (size_t k = 0; k < choices.size(); ++k) {
    for (const InPlace pair : choices[k]) {
      const Node& node = problem.graph->node(plan.steps[k].node);
      classes.join(index(node.outputs[static_cast<size_t>(pair.output)]),
                   index(node.inputs[static_cast<size_t>(pair.input)]));
    }
  }
}

// Versions of state that rests in another tier take each other's place there, piece by piece.
void join_versions(const Problem& problem, CutClasses& classes) {
  for (size_t v = 0; v < problem.graph->values().size(); ++v) {
    const ValueId home = problem.graph->values()[v].home;
    if (home.valid() && problem.rest_of(home).tier != Tier::device) classes.join(v, index(home));
  }
}

}  // namespace

std::vector<std::vector<int64_t>> cuts_of(const Problem& problem, const Plan& plan, bool with_drops,
                                          const std::vector<std::vector<InPlace>>& choices) {
  const size_t values = problem.graph->values().size();
  CutClasses classes(values);
  join_chains(problem, plan, choices, classes);
  join_versions(problem, classes);
  std::vector<std::vector<int64_t>> by_class(values);
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::compute) continue;
    if (step.kind == Step::Kind::drop && !with_drops) continue;
    std::vector<int64_t>& cuts = by_class[classes.find(index(step.value))];
    cuts.push_back(step.range.begin);
    cuts.push_back(step.range.end);
  }
  for (std::vector<int64_t>& cuts : by_class) {
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  }
  std::vector<std::vector<int64_t>> result(values);
  for (size_t v = 0; v < values; ++v) {
    const int64_t bytes = problem.graph->values()[v].type.bytes();
    result[v].push_back(0);
    for (const int64_t cut : by_class[classes.find(v)]) {
      if (cut > 0 && cut < bytes) result[v].push_back(cut);
    }
    result[v].push_back(bytes);  // A value of no bytes has one piece of no bytes.
  }
  return result;
}

}  // namespace olm2
