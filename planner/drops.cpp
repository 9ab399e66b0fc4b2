// Where a plan forgets: right after the last use, piece by piece and tier by tier, found by one
// walk from the end of the plan to its start.
#include <algorithm>
#include <array>

#include "planner/planner.h"
#include "planner/steps.h"
#include "planner/trace.h"

namespace olm2 {
namespace {

class DropWalk {
 public:
  DropWalk(const Problem& problem, const Plan& plan)
      : problem_(problem),
        graph_(*problem.graph),
        cuts_(cuts_of(problem, plan, false, {})),
        needed_(graph_.values().size()) {
    for (size_t v = 0; v < needed_.size(); ++v) {
      for (std::vector<bool>& pieces : needed_[v]) pieces.assign(cuts_[v].size() - 1, false);
    }
    for (const ValueId result : problem.results) {
      needed(result, Tier::device).assign(piece_count(result), true);
    }
  }

  // Drops that belong right after `step`, the walk having come from the end down to it.
  std::vector<Step> visit(const Step& step) {
    drops_.clear();
    if (step.kind == Step::Kind::compute) {
      const Node& node = graph_.node(step.node);
      for (const ValueId output : node.outputs) make(output, Tier::device, whole(output));
      for (const ValueId input : node.inputs) use(input, Tier::device, whole(input));
    } else {
      make(step.value, step.to, step.range);
      use(step.value, step.from, step.range);
    }
    std::ranges::sort(drops_, [](const Step& a, const Step& b) {
      return std::tuple(a.value, a.from, a.range) < std::tuple(b.value, b.from, b.range);
    });
    return merged(drops_);
  }

  // Inputs that nobody reads at all.
  std::vector<Step> before_first() {
    drops_.clear();
    for (size_t v = 0; v < needed_.size(); ++v) {
      if (graph_.values()[v].role != Role::input) continue;
      const ValueId input{static_cast<int32_t>(v)};
      make(input, Tier::device, whole(input));
    }
    return merged(drops_);
  }

 private:
  std::vector<bool>& needed(ValueId value, Tier tier) {
    return needed_[static_cast<size_t>(value.index)][index_of(tier)];
  }
  const std::vector<int64_t>& cuts(ValueId value) const {
    return cuts_[static_cast<size_t>(value.index)];
  }
  size_t piece_count(ValueId value) const { return cuts(value).size() - 1; }
  Range whole(ValueId value) const { return {0, graph_.type(value).bytes()}; }

  // Where state rests it is never dropped.
  bool rests(ValueId value, Tier tier) const {
    if (problem_.lives_at_home(value)) return true;
    const ValueId home = graph_.value(value).home;
    return tier != Tier::device && home.valid() && problem_.rest_of(home).tier == tier;
  }
  template <typename Visit>
  void for_pieces(ValueId value, Tier tier, Range range, const Visit& visit) {
    if (rests(value, tier)) return;
    for (size_t p = 0; p < piece_count(value); ++p) {
      const Range piece{cuts(value)[p], cuts(value)[p + 1]};
      if (piece.begin >= range.begin && piece.end <= range.end) visit(p, piece);
    }
  }
  void add_drop(ValueId value, Tier tier, Range range) {
    drops_.push_back(drop_step(value, range, tier));
  }
  void make(ValueId value, Tier tier, Range range) {
    for_pieces(value, tier, range, [&](size_t p, Range piece) {
      if (!needed(value, tier)[p]) add_drop(value, tier, piece);
      needed(value, tier)[p] = false;
    });
  }
  void use(ValueId value, Tier tier, Range range) {
    for_pieces(value, tier, range, [&](size_t p, Range piece) {
      if (!needed(value, tier)[p]) add_drop(value, tier, piece);
      needed(value, tier)[p] = true;
    });
  }
  static std::vector<Step> merged(const std::vector<Step>& drops) {
    std::vector<Step> result;
    for (const Step& drop : drops) {
      const bool follows = !result.empty() && result.back().value == drop.value &&
                           result.back().from == drop.from &&
                           result.back().range.end == drop.range.begin;
      if (follows) {
        result.back().range.end = drop.range.end;
      } else {
        result.push_back(drop);
      }
    }
    return result;
  }

  const Problem& problem_;
  const Graph& graph_;
  std::vector<std::vector<int64_t>> cuts_;
  std::vector<std::array<std::vector<bool>, kTierCount>> needed_;
  std::vector<Step> drops_;
};

}  // namespace

Plan with_earliest_drops(const Problem& problem, const Plan& plan) {
  DropWalk walk(problem, plan);
  std::vector<std::vector<Step>> drops(plan.steps.size());
  for (size_t k = plan.steps.size(); k-- > 0;) {
    if (plan.steps[k].kind != Step::Kind::drop) drops[k] = walk.visit(plan.steps[k]);
  }
  Plan result{.steps = walk.before_first()};
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    if (plan.steps[k].kind == Step::Kind::drop) continue;
    result.steps.push_back(plan.steps[k]);
    result.steps.insert(result.steps.end(), drops[k].begin(), drops[k].end());
  }
  return result;
}

}  // namespace olm2
