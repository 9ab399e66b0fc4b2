#include "planner/trace.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/error.h"
#include "planner/in_place.h"

namespace olm2 {
namespace {

constexpr int32_t kAbsent = -1;
constexpr int32_t kOverwritten = -2;  // By an output; the drop that follows has nothing to free.

size_t as_size(int32_t i) {
  return static_cast<size_t>(i);
}
int32_t as_index(size_t i) {
  return static_cast<int32_t>(i);
}

class Tracer {
 public:
  Tracer(const Problem& problem, const Plan& plan)
      : problem_(problem),
        graph_(*problem.graph),
        plan_(plan),
        choices_(in_place_choices(problem, plan)),
        cuts_(cuts_of(problem, plan, true, choices_)),
        stay_of_(graph_.values().size()),
        newest_(graph_.values().size()),
        home_stay_(graph_.values().size(), kAbsent),
        resting_(graph_.values().size()) {}

  PlanTrace run() {
    start();
    for (step_ = 0; step_ < plan_.steps.size(); ++step_) {
      const Step& step = plan_.steps[step_];
      trace_.steps.emplace_back();
      switch (step.kind) {
        case Step::Kind::compute:
          compute(step);
          break;
        case Step::Kind::copy:
          copy(step);
          break;
        case Step::Kind::drop:
          drop(step);
          break;
      }
    }
    finish();
    return std::move(trace_);
  }

 private:
  using Places = std::vector<int32_t>;  // Per piece of a value: the stay, or one of the above.

  const std::string& name(ValueId value) const { return graph_.value(value).name; }
  size_t piece_count(ValueId value) const { return cuts_[as_size(value.index)].size() - 1; }
  Range piece_range(ValueId value, size_t piece) const {
    const std::vector<int64_t>& cuts = cuts_[as_size(value.index)];
    return {cuts[piece], cuts[piece + 1]};
  }
  size_t piece_at(ValueId value, int64_t begin) const {
    const std::vector<int64_t>& cuts = cuts_[as_size(value.index)];
    return static_cast<size_t>(std::ranges::lower_bound(cuts, begin) - cuts.begin());
  }
  Places& places(ValueId value, Tier tier) {
    Places& result = stay_of_[as_size(value.index)][index_of(tier)];
    if (result.empty()) result.assign(piece_count(value), kAbsent);
    return result;
  }

  [[noreturn]] void fail(const std::string& what) const {
    std::string who = "plan: at its end";
    if (step_ < plan_.steps.size()) {
      const Step& step = plan_.steps[step_];
      const bool computes = step.kind == Step::Kind::compute;
      who =
          "plan: step " + std::to_string(step_) + ", " +
          (computes ? "compute " + graph_.node(step.node).name
                    : (step.kind == Step::Kind::copy ? "copy of " : "drop of ") + name(step.value));
    }
    throw Error(who + ": " + what);
  }

  int32_t open(ValueId value, Tier tier, Range range, int32_t begin) {
    trace_.stays.push_back({.value = value,
                            .node = {},
                            .range = range,
                            .tier = tier,
                            .bytes = padded(range.bytes(), problem_.alignment),
                            .begin = begin,
                            .end = kNeverDropped,
                            .is_home = false,
                            .home = {}});
    return as_index(trace_.stays.size() - 1);
  }

  // The place where (part of) a state source rests.
  int32_t open_home(ValueId value, Tier tier, Range range, int32_t begin) {
    const int32_t stay = open(value, tier, range, begin);
    settle(stay, graph_.value(value).home);
    return stay;
  }
  void settle(int32_t stay, ValueId home) {
    Stay& place = trace_.stays[as_size(stay)];
    place.home = home;
    place.is_home =
        problem_.state_offset.at(as_size(home.index)) < problem_.state_bytes_in(place.tier);
  }

  Operand piece(ValueId value, int32_t stay, Range range) const {
    return {.value = value, .pieces = {{.buffer = {stay}, .range = range}}};
  }

  void start() {
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      const Value& value = graph_.values()[v];
      if (value.producer.valid()) continue;
      const ValueId id{as_index(v)};
      if (is_state(value.role)) {
        start_state(id);
        continue;
      }
      const Range whole{0, value.type.bytes()};
      const int32_t stay = open(id, Tier::device, whole, -1);
      places(id, Tier::device).assign(1, stay);
      trace_.at_start.push_back(piece(id, stay, whole));
    }
  }

  void start_state(ValueId source) {
    const StateRest rest = problem_.rest_of(source);
    const auto v = as_size(source.index);
    if (!rest.at_start) return;
    ensure(problem_.state_offset.at(v) >= 0, name(source) + " is state without an address");
    if (problem_.lives_at_home(source)) {
      const Range whole{0, graph_.type(source).bytes()};
      newest_[v] = source;
      home_stay_[v] = open_home(source, Tier::device, whole, -1);
      trace_.at_start.push_back(piece(source, home_stay_[v], whole));
      return;
    }
    Places& stays = places(source, rest.tier);
    Operand operand{.value = source, .pieces = {}};
    for (size_t p = 0; p < stays.size(); ++p) {
      stays[p] = open_home(source, rest.tier, piece_range(source, p), -1);
      operand.pieces.push_back({.buffer = {stays[p]}, .range = piece_range(source, p)});
    }
    resting_[v].assign(stays.size(), source);
    trace_.at_start.push_back(std::move(operand));
  }

  // All of a value on the device.
  Operand whole_operand(ValueId value) {
    if (!problem_.lives_at_home(value)) return whole_operand(value, Tier::device);
    const ValueId home = graph_.value(value).home;
    const ValueId there = newest_[as_size(home.index)];
    if (there != value) {
      fail("needs " + name(value) + ", but " + name(home) + " holds " +
           (there.valid() ? name(there) : std::string("nothing")) + " here");
    }
    const int32_t stay = home_stay_[as_size(home.index)];
    if (!problem_.rest_of(home).at_end) trace_.stays[as_size(stay)].end = as_index(step_) + 1;
    return piece(value, stay, {0, graph_.type(value).bytes()});
  }

  Operand whole_operand(ValueId value, Tier tier) {
    Operand operand{.value = value, .pieces = {}};
    const Places& stays = places(value, tier);
    for (size_t p = 0; p < stays.size(); ++p) {
      if (stays[p] < 0) {
        fail("needs " + describe(value, p) + ", which is not on the " +
             std::string(to_string(tier)));
      }
      operand.pieces.push_back({.buffer = {stays[p]}, .range = piece_range(value, p)});
    }
    return operand;
  }

  std::string describe(ValueId value, size_t piece) const {
    if (piece_count(value) == 1) return name(value);
    const Range range = piece_range(value, piece);
    return name(value) + "[" + std::to_string(range.begin) + "," + std::to_string(range.end) + ")";
  }

  void compute(const Step& step) {
    const Node& node = graph_.node(step.node);
    StepOperands& operands = trace_.steps.back();
    for (const ValueId input : node.inputs) operands.reads.push_back(whole_operand(input));
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId output = node.outputs[o];
      if (problem_.lives_at_home(output)) {
        write_version(node, o);
      } else {
        make_output(node, o);
      }
      operands.writes.push_back(whole_operand(output));
    }
    const int64_t workspace = problem_.workspace.at(as_size(step.node.index));
    if (workspace > 0) {
      operands.workspace = {as_index(trace_.stays.size())};
      const auto begin = as_index(step_);
      trace_.stays.push_back({.value = {},
                              .node = step.node,
                              .range = {0, workspace},
                              .tier = Tier::device,
                              .bytes = padded(workspace, problem_.alignment),
                              .begin = begin,
                              .end = begin + 1,
                              .is_home = false,
                              .home = {}});
    }
  }

  void write_version(const Node& node, size_t output) {
    const ValueId value = node.outputs[output];
    const ValueId home = graph_.value(value).home;
    const ValueId old = newest_[as_size(home.index)];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != old) continue;
      const bool allowed = std::ranges::any_of(in_place_of(node), [&](InPlace pair) {
        return as_size(pair.output) == output && as_size(pair.input) == i;
      });
      ensure(allowed, node.name + " reads " + name(old) + " and writes " + name(value) +
                          " in its place, which its op does not allow");
    }
    newest_[as_size(home.index)] = value;
  }

  void make_output(const Node& node, size_t output) {
    const ValueId value = node.outputs[output];
    Places& stays = places(value, Tier::device);
    for (size_t p = 0; p < stays.size(); ++p) {
      if (stays[p] != kAbsent) {
        fail("makes " + describe(value, p) + ", which is on the device already; drop it before");
      }
    }
    for (const InPlace pair : choices_[step_]) {
      if (as_size(pair.output) != output) continue;
      Places& under = places(node.inputs[as_size(pair.input)], Tier::device);
      stays = under;
      std::ranges::fill(under, kOverwritten);
      return;
    }
    for (size_t p = 0; p < stays.size(); ++p) {
      stays[p] = open(value, Tier::device, piece_range(value, p), as_index(step_));
    }
  }

  // The pieces [first, last) of a copy or drop.  Refuses what cannot be moved or forgotten.
  std::pair<size_t, size_t> pieces_of(const Step& step) const {
    const Value& value = graph_.value(step.value);
    const int64_t bytes = value.type.bytes();
    const auto [begin, end] = step.range;
    const std::string text = "[" + std::to_string(begin) + "," + std::to_string(end) + ")";
    if (problem_.lives_at_home(step.value)) fail("state stays at its address for the whole step");
    if (begin < 0 || end > bytes || begin > end || (begin == end && bytes > 0)) {
      fail("range " + text + " of a value of " + std::to_string(bytes) + " bytes");
    }
    if (begin % problem_.alignment != 0 || (end % problem_.alignment != 0 && end != bytes)) {
      fail("range " + text + " does not begin and end at multiples of " +
           std::to_string(problem_.alignment));
    }
    const bool is_result = !value.home.valid() && std::ranges::find(problem_.results, step.value) !=
                                                      problem_.results.end();
    if ((value.role == Role::input || is_result) && step.range.bytes() != bytes) {
      fail("inputs and results move and are dropped whole, got " + text);
    }
    const size_t first = piece_at(step.value, begin);
    return {first, std::max(first + 1, piece_at(step.value, end))};
  }

  void copy(const Step& step) {
    lane_of_copy(step.from, step.to);  // Throws if there is no such link.
    const auto [first, last] = pieces_of(step);
    const Places& source = places(step.value, step.from);
    Places& target = places(step.value, step.to);
    StepOperands& operands = trace_.steps.back();
    for (size_t p = first; p < last; ++p) {
      const Range range = piece_range(step.value, p);
      if (source[p] < 0) {
        fail("needs " + describe(step.value, p) + ", which is not on the " +
             std::string(to_string(step.from)));
      }
      if (target[p] != kAbsent) {
        fail(describe(step.value, p) + " is on the " + std::string(to_string(step.to)) +
             " already");
      }
      target[p] = rests_in(step.value, step.to) ? bring_home(step.value, p, range, step.to)
                                                : open(step.value, step.to, range, as_index(step_));
      operands.reads.push_back(piece(step.value, source[p], range));
      operands.writes.push_back(piece(step.value, target[p], range));
    }
  }

  // Whether `value` is a version of state whose resting place is another tier, `tier`.
  bool rests_in(ValueId value, Tier tier) const {
    const ValueId home = graph_.value(value).home;
    return tier != Tier::device && home.valid() && problem_.rest_of(home).tier == tier;
  }

  // Where piece `p` of a version of state rests from now on: in the place of the version before.
  int32_t bring_home(ValueId value, size_t p, Range range, Tier tier) {
    std::vector<ValueId>& resting = resting_[as_size(graph_.value(value).home.index)];
    if (resting.empty()) resting.resize(piece_count(value));
    const ValueId before = std::exchange(resting[p], value);
    if (!before.valid()) return open_home(value, tier, range, as_index(step_));
    return std::exchange(places(before, tier)[p], kAbsent);
  }

  void drop(const Step& step) {
    const auto [first, last] = pieces_of(step);
    if (rests_in(step.value, step.from)) {
      fail("the " + std::string(to_string(step.from)) + " is where this state rests");
    }
    Places& stays = places(step.value, step.from);
    for (size_t p = first; p < last; ++p) {
      if (stays[p] == kAbsent) {
        fail(describe(step.value, p) + " is not on the " + std::string(to_string(step.from)));
      }
      if (stays[p] >= 0) trace_.stays[as_size(stays[p])].end = as_index(step_);
      stays[p] = kAbsent;
    }
  }

  void finish() {
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      const Value& value = graph_.values()[v];
      if (value.producer.valid() || !is_state(value.role)) continue;
      const ValueId source{as_index(v)};
      if (problem_.rest_of(source).at_end) trace_.at_end.push_back(rest(source));
    }
    for (const ValueId result : problem_.results) {
      const ValueId home = graph_.value(result).home;
      const bool is_listed = home.valid() && problem_.rest_of(home).at_end &&
                             graph_.newest(home) == result;  // With the state.
      if (!is_listed) trace_.at_end.push_back(whole_operand(result));
    }
  }

  // The newest version of a state source, where it rests; from now on its address is given.
  Operand rest(ValueId source) {
    const ValueId newest = graph_.newest(source);
    if (problem_.lives_at_home(newest)) return whole_operand(newest);
    Operand operand = whole_operand(newest, problem_.rest_of(source).tier);
    for (const Piece& piece : operand.pieces) settle(piece.buffer.index, source);
    return operand;
  }

  const Problem& problem_;
  const Graph& graph_;
  const Plan& plan_;
  std::vector<std::vector<InPlace>> choices_;
  std::vector<std::vector<int64_t>> cuts_;
  std::vector<std::array<Places, kTierCount>> stay_of_;
  std::vector<ValueId> newest_;     // Per state source at home: the version its home holds.
  std::vector<int32_t> home_stay_;  // Per state source at home.
  // Per state source that rests in another tier, and piece: the version there.
  std::vector<std::vector<ValueId>> resting_;
  size_t step_ = 0;
  PlanTrace trace_;
};

}  // namespace

PlanTrace trace_plan(const Problem& problem, const Plan& plan) {
  return Tracer(problem, plan).run();
}

}  // namespace olm2
