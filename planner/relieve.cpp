#include "planner/relieve.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/trace.h"

namespace olm2 {
namespace {

size_t at(int32_t index) {
  return static_cast<size_t>(index);
}

// Bytes that are on the device from step `begin` to step `end` and could do without.
// Of a copy out: from the last use to the drop, which may be anywhere between them.
// Of a copy in: from the copy, which may be anywhere between them, to the first use.
struct Slack {
  int32_t begin = 0;
  int32_t end = 0;
  int64_t bytes = 0;
  int32_t follower = -1;  // The host's drop right behind a copy in, which moves along.
};

// Per step how far the device reaches above `limit`.
std::vector<int64_t> excess_of(const Problem& problem, const Plan& plan, const Schedule& placed,
                               int64_t limit) {
  const PlanTrace trace = trace_plan(problem, plan);
  std::vector<int64_t> excess(plan.steps.size(), 0);
  for (size_t k = 0; k < trace.stays.size(); ++k) {
    const Stay& stay = trace.stays[k];
    const int64_t above = placed.buffers[k].offset + placed.buffers[k].bytes - limit;
    if (stay.tier != Tier::device || above <= 0) continue;
    const size_t end = std::min(plan.steps.size(), at(stay.end));
    for (size_t s = at(std::max(stay.begin, 0)); s < end; ++s) {
      excess[s] = std::max(excess[s], above);
    }
  }
  return excess;
}

class SlackFinder {
 public:
  SlackFinder(const Problem& problem, const Plan& plan) : problem_(problem), plan_(plan) {
    for (int32_t k = 0; at(k) < plan.steps.size(); ++k) visit(k);
  }
  std::vector<Slack> out;  // In the order in which the copies leave.
  std::vector<Slack> in;   // In the order in which they arrive.

 private:
  using Key = std::tuple<int32_t, int64_t, int64_t>;  // Value and range.

  Key key(const Step& step) const { return {step.value.index, step.range.begin, step.range.end}; }

  void visit(int32_t k) {
    const Step& step = plan_.steps[at(k)];
    if (step.kind == Step::Kind::compute) {
      for (const ValueId input : problem_.graph->node(step.node).inputs) touch(input, k);
    } else if (step.kind == Step::Kind::copy && step.from == Tier::device) {
      touch(step.value, k);
      leaving_[key(step)] = k;
    } else if (step.kind == Step::Kind::copy && step.to == Tier::device) {
      in.push_back({.begin = k, .end = k, .bytes = step.range.bytes()});
      arriving_[step.value.index].push_back(in.size() - 1);
    } else if (step.kind == Step::Kind::drop && step.from == Tier::device) {
      drop(step, k);
    } else if (step.kind == Step::Kind::drop) {
      const bool follows =
          !in.empty() && in.back().begin == k - 1 && key(plan_.steps[at(k - 1)]) == key(step);
      if (follows) {
        in.back().follower = k;
      } else {
        must_have_arrived(step.value, k);
      }
    }
  }

  // `value` is used on the device: what arrives must be there, what leaves may not be gone.
  void touch(ValueId value, int32_t k) {
    last_use_[value.index] = k;
    must_have_arrived(value, k);
  }
  void must_have_arrived(ValueId value, int32_t k) {
    const auto found = arriving_.find(value.index);
    if (found == arriving_.end()) return;
    for (const size_t i : found->second) in[i].end = k;
    arriving_.erase(found);
  }

  void drop(const Step& step, int32_t k) {
    const auto found = leaving_.find(key(step));
    if (found != leaving_.end()) {
      const int32_t last_use = last_use_[step.value.index];
      out.push_back({.begin = last_use, .end = k, .bytes = step.range.bytes()});
      leaving_.erase(found);
    }
    touch(step.value, k);
  }

  const Problem& problem_;
  const Plan& plan_;
  std::map<Key, int32_t> leaving_;                   // The copy out.
  std::map<int32_t, std::vector<size_t>> arriving_;  // Per value: of `in`.
  std::map<int32_t, int32_t> last_use_;              // Per value.
};

// A plan whose steps move.
class Rewriting {
 public:
  Rewriting(const Plan& plan, std::vector<int64_t> excess)
      : plan_(plan),
        excess_(std::move(excess)),
        before_(plan.steps.size() + 1),
        is_moved_(plan.steps.size(), false) {}

  // What left first is given up first.
  void give_up_earlier(std::vector<Slack> out) {
    std::ranges::stable_sort(out, {}, &Slack::begin);
    for (size_t s = 0; s < excess_.size(); ++s) {
      for (Slack& slack : out) {
        if (excess_[s] <= 0 || at(slack.begin) >= s) break;
        if (at(slack.end) <= s) continue;
        move(slack.end, s);
        relieve(s, at(slack.end), slack.bytes);
        slack.end = static_cast<int32_t>(s);
      }
    }
  }

  // What is needed last is taken last.
  void take_later(std::vector<Slack> in) {
    std::ranges::stable_sort(in, {}, &Slack::begin);
    for (size_t s = excess_.size(); s-- > 0;) {
      for (size_t k = in.size(); k-- > 0 && excess_[s] > 0;) {
        Slack& slack = in[k];
        if (at(slack.begin) > s || at(slack.end) <= s) continue;
        move(slack.begin, s + 1);
        if (slack.follower >= 0) move(slack.follower, s + 1);
        relieve(at(slack.begin), s + 1, slack.bytes);
        slack.begin = slack.end;  // Once is enough.
      }
    }
  }

  bool has_moved() const { return has_moved_; }

  Plan plan() const {
    Plan result;
    for (size_t s = 0; s <= plan_.steps.size(); ++s) {
      std::vector<int32_t> here = before_[s];
      std::ranges::sort(here);  // Copies stay in the order of their lane.
      for (const int32_t k : here) result.steps.push_back(plan_.steps[at(k)]);
      if (s < plan_.steps.size() && !is_moved_[s]) result.steps.push_back(plan_.steps[s]);
    }
    return result;
  }

 private:
  void move(int32_t step, size_t before) {
    before_[before].push_back(step);
    is_moved_[at(step)] = true;
    has_moved_ = true;
  }
  void relieve(size_t from, size_t to, int64_t bytes) {
    for (size_t s = from; s < to; ++s) excess_[s] -= bytes;
  }

  const Plan& plan_;
  std::vector<int64_t> excess_;               // Per step, what is still too much.
  std::vector<std::vector<int32_t>> before_;  // Per step: those that come right before it now.
  std::vector<bool> is_moved_;
  bool has_moved_ = false;
};

}  // namespace

std::optional<Plan> relieve(const Problem& problem, const Plan& plan, const Schedule& placed,
                            int64_t limit) {
  SlackFinder slack(problem, plan);
  Rewriting rewriting(plan, excess_of(problem, plan, placed, limit));
  rewriting.give_up_earlier(std::move(slack.out));
  rewriting.take_later(std::move(slack.in));
  if (!rewriting.has_moved()) return std::nullopt;
  return rewriting.plan();
}

}  // namespace olm2
