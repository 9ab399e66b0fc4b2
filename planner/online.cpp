#include "planner/online.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "core/error.h"
#include "planner/evicted.h"
#include "planner/in_place.h"
#include "planner/steps.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);
constexpr size_t kHost = index_of(Tier::host);

class OnlineRun {
 public:
  OnlineRun(const Problem& problem, const AccessSequence& sequence, const OnlineRule& rule,
            const OnlineHints& hints)
      : problem_(problem),
        graph_(*problem.graph),
        sequence_(sequence),
        rule_(rule),
        hints_(hints),
        entries_(graph_.values().size()),
        may_copy_(rule.copies && problem.budget[kHost] > 0 &&
                  problem.device_to_host.bytes_per_s > 0 &&
                  problem.host_to_device.bytes_per_s > 0) {
    if (rule.wants_remake_s) evicted_.emplace(problem);
  }

  std::optional<Plan> run() {
    start();
    if (used_ > problem_.budget[kDevice]) return std::nullopt;
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      moment_ = static_cast<int32_t>(n);
      fetch_early(n);
      if (!execute({moment_}, {})) return std::nullopt;
      ++moment_;
      leave_early(n);
    }
    return std::move(plan_);
  }

 private:
  struct Entry {
    int64_t bytes = 0;      // Padded.
    bool is_fixed = false;  // State or a result: never leaves.
    bool on_device = false;
    bool on_host = false;
    bool is_leaving = false;  // In leaving_: on its way to the host.
    bool was_sent = false;    // Since it was made or came back: nothing may be computed over it.
    int pins = 0;             // Nodes about to run that read it.
    int64_t last_use = 0;
    double last_use_s = 0;
  };
  struct Leaving {
    ValueId value;
    double done_s = 0;
  };

  Entry& entry(ValueId value) { return entries_[static_cast<size_t>(value.index)]; }
  bool is_state(ValueId value) const { return graph_.value(value).home.valid(); }
  Range whole(ValueId value) const { return {0, graph_.type(value).bytes()}; }

  void start() {
    used_ = padded(problem_.state_bytes, problem_.alignment);
    for (const ValueId result : problem_.results) entry(result).is_fixed = true;
    for (size_t v = 0; v < entries_.size(); ++v) {
      const ValueId id{static_cast<int32_t>(v)};
      entries_[v].bytes = problem_.padded_bytes(id);
      if (is_state(id)) entries_[v].is_fixed = true;
      if (graph_.values()[v].role != Role::input) continue;
      entries_[v].on_device = true;
      present_.push_back(id);
      used_ += entries_[v].bytes;
    }
    for (size_t v = 0; v < entries_.size(); ++v) {
      if (graph_.values()[v].role == Role::input) forget_if_over({static_cast<int32_t>(v)}, 0);
    }
  }

  // --- bringing and running -------------------------------------------------------------------

  // Runs a node with everything it reads on the device.  `wanted`: the output for whose sake it
  // runs again, pinned for its reader; invalid: it is the node's turn.
  bool execute(NodeId id, ValueId wanted) {
    const Node& node = graph_.node(id);
    if (++executions_ > kMostExecutions * graph_.nodes().size()) return false;
    if (!gather(node)) return false;
    for (const ValueId output : node.outputs) {  // Of a node that runs again.
      if (!is_state(output) && entry(output).on_device) drop(output, Tier::device);
    }
    const int32_t after = wanted.valid() ? moment_ : moment_ + 1;
    const std::vector<InPlace> in_place =
        choose_in_place(problem_, node, [&](ValueId input) { return is_free(input, after); });
    if (!make_room(bytes_to_run(id, in_place))) return false;
    plan_.steps.push_back(compute_step(id));
    now_s_ += problem_.run_seconds(static_cast<size_t>(id.index), wanted.valid());
    ++clock_;
    for (const ValueId output : node.outputs) {
      if (!is_state(output)) appear(output);  // Over an input: counted twice until that is dropped.
    }
    release(node, wanted, after);
    return true;
  }

  // Pins every input, those that are there first; brings the others back.
  bool gather(const Node& node) {
    std::vector<ValueId> missing;
    for (const ValueId input : node.inputs) {
      if (is_state(input)) continue;
      if (!entry(input).on_device) {
        missing.push_back(input);
      } else {
        pin(input);
      }
    }
    return std::ranges::all_of(missing, [&](ValueId input) { return bring(input); });
  }

  void pin(ValueId value) {
    ++entry(value).pins;
    if (!entry(value).is_leaving) return;
    entry(value).is_leaving = false;  // Stays after all; the host keeps its copy.
    std::erase_if(leaving_, [&](const Leaving& other) { return other.value == value; });
  }

  bool bring(ValueId value) {
    if (entry(value).on_device) {  // Listed twice, or made beside another.
      pin(value);
      return true;
    }
    if (!entry(value).on_host) {
      const NodeId producer = graph_.value(value).producer;
      ensure(producer.valid(), graph_.value(value).name + " was forgotten, and nothing makes it");
      return execute(producer, value);
    }
    if (!make_room(entry(value).bytes)) return false;
    fetch(value);
    now_s_ = std::max(now_s_, in_lane_s_);
    pin(value);
    return true;
  }

  void fetch(ValueId value) {
    plan_.steps.push_back(copy_step(value, whole(value), Tier::host, Tier::device));
    in_lane_s_ = std::max(in_lane_s_, now_s_) + copy_seconds(problem_.host_to_device, value);
    appear(value);
  }

  double copy_seconds(const LinkProfile& link, ValueId value) const {
    return link.latency_s + static_cast<double>(graph_.type(value).bytes()) / link.bytes_per_s;
  }

  void appear(ValueId value) {
    Entry& there = entry(value);
    there.on_device = true;
    present_.push_back(value);
    there.was_sent = false;
    there.last_use = clock_;
    there.last_use_s = now_s_;
    used_ += there.bytes;
    if (evicted_) evicted_->come_back(value);
  }

  int64_t bytes_to_run(NodeId id, const std::vector<InPlace>& in_place) const {
    const Node& node = graph_.node(id);
    int64_t bytes =
        padded(problem_.workspace.at(static_cast<size_t>(id.index)), problem_.alignment);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const bool is_free = std::ranges::any_of(
          in_place, [&](InPlace pair) { return static_cast<size_t>(pair.output) == o; });
      if (!is_free && !is_state(node.outputs[o])) bytes += problem_.padded_bytes(node.outputs[o]);
    }
    return bytes;
  }

  // The node has run: nobody holds its inputs for it any longer.
  void release(const Node& node, ValueId wanted, int32_t after) {
    for (const ValueId input : node.inputs) {
      if (is_state(input)) continue;
      --entry(input).pins;
      entry(input).last_use = clock_;
      entry(input).last_use_s = now_s_;
    }
    if (wanted.valid()) pin(wanted);
    for (const ValueId input : node.inputs) forget_if_over(input, after);
    for (const ValueId output : node.outputs) forget_if_over(output, after);
  }

  bool is_over(ValueId value, int32_t after) const {
    return sequence_.needed_until[static_cast<size_t>(value.index)] < after;
  }
  bool is_free(ValueId input, int32_t after) {
    return is_over(input, after) && entry(input).pins == 1 && !entry(input).was_sent;
  }

  void forget_if_over(ValueId value, int32_t after) {
    const Entry& there = entry(value);
    if (there.is_fixed || there.pins > 0 || !is_over(value, after)) return;
    if (there.on_device) {
      drop(value, Tier::device);
      if (evicted_) evicted_->leave(value, false);
    }
    if (there.on_host) drop(value, Tier::host);
  }

  void drop(ValueId value, Tier tier) {
    plan_.steps.push_back(drop_step(value, whole(value), tier));
    Entry& there = entry(value);
    if (tier == Tier::host) {
      there.on_host = false;
      host_used_ -= there.bytes;
      return;
    }
    there.on_device = false;
    std::erase(present_, value);
    used_ -= there.bytes;
    if (!there.is_leaving) return;
    there.is_leaving = false;
    std::erase_if(leaving_, [&](const Leaving& other) { return other.value == value; });
  }

  // --- leaving --------------------------------------------------------------------------------

  bool make_room(int64_t bytes) {
    while (!leaving_.empty() && leaving_.front().done_s <= now_s_) {
      drop(leaving_.front().value, Tier::device);
    }
    while (used_ + bytes > problem_.budget[kDevice]) {
      if (!leaving_.empty()) {  // Whoever takes its bytes waits for the copy.
        now_s_ = std::max(now_s_, leaving_.front().done_s);
        drop(leaving_.front().value, Tier::device);
      } else if (!evict_one()) {
        return false;
      }
    }
    return true;
  }

  bool evict_one() {
    const int64_t host_room = room_on_host();
    std::optional<Evictable> chosen;
    double least = 0;
    for (const ValueId value : present_) {
      if (!can_leave(value, host_room)) continue;
      const Evictable candidate = describe(value);
      const double worth = rule_.worth(candidate);
      if (chosen && std::pair(worth, value) >= std::pair(least, chosen->value)) continue;
      chosen = candidate;
      least = worth;
    }
    if (!chosen) return false;
    if (!send(chosen->value)) forget(chosen->value);
    return true;
  }

  bool can_leave(ValueId value, int64_t host_room) {
    const Entry& there = entry(value);
    if (!there.on_device || there.is_fixed || there.pins > 0 || there.is_leaving) return false;
    return there.on_host || (may_copy_ && there.bytes <= host_room) || can_be_remade(value);
  }
  bool can_be_remade(ValueId value) const {
    const auto v = static_cast<size_t>(value.index);
    return graph_.value(value).producer.valid() &&
           sequence_.remade_until[v] >= sequence_.next_read(value, moment_);
  }

  Evictable describe(ValueId value) {
    const Entry& there = entry(value);
    return {.value = value,
            .bytes = there.bytes,
            .last_use = there.last_use,
            .next_read = sequence_.next_read(value, moment_),
            .idle_s = now_s_ - there.last_use_s,
            .remake_s = evicted_ ? evicted_->remake_seconds(value) : 0};
  }

  // Host bytes that could be had: free, or copies of what is on the device again.
  int64_t room_on_host() {
    if (!may_copy_) return 0;
    int64_t bytes = problem_.budget[kHost] - host_used_;
    for (const ValueId value : present_) {
      if (is_spare(entry(value))) bytes += entry(value).bytes;
    }
    return bytes;
  }
  static bool is_spare(const Entry& there) {
    return there.on_host && there.on_device && !there.is_leaving;
  }

  // To the host; false if that cannot be.
  bool send(ValueId value) {
    Entry& there = entry(value);
    if (there.on_host) {
      drop(value, Tier::device);
      return true;
    }
    if (!may_copy_ || there.bytes > room_on_host()) return false;
    for (size_t v = 0; host_used_ + there.bytes > problem_.budget[kHost]; ++v) {
      if (is_spare(entries_[v])) drop({static_cast<int32_t>(v)}, Tier::host);
    }
    plan_.steps.push_back(copy_step(value, whole(value), Tier::device, Tier::host));
    there.on_host = there.was_sent = there.is_leaving = true;
    host_used_ += there.bytes;
    out_lane_s_ = std::max(out_lane_s_, now_s_) + copy_seconds(problem_.device_to_host, value);
    leaving_.push_back({value, out_lane_s_});
    return true;
  }

  void forget(ValueId value) {
    drop(value, Tier::device);
    if (evicted_) evicted_->leave(value, true);
  }

  // --- what was decided beforehand ------------------------------------------------------------

  void fetch_early(size_t node) {
    if (node < hints_.fetch.size()) {
      const std::vector<ValueId>& due = hints_.fetch[node];
      to_fetch_.insert(to_fetch_.end(), due.begin(), due.end());
    }
    while (!to_fetch_.empty()) {
      const ValueId value = to_fetch_.front();
      if (entry(value).on_host && !entry(value).on_device) {
        if (used_ + entry(value).bytes > problem_.budget[kDevice]) return;  // Later, in order.
        fetch(value);
      }
      to_fetch_.pop_front();
    }
  }

  void leave_early(size_t node) {
    const auto is_there = [&](ValueId value) {
      return entry(value).on_device && !entry(value).is_fixed && !entry(value).is_leaving;
    };
    if (node < hints_.send.size()) {
      for (const ValueId value : hints_.send[node]) {
        if (is_there(value)) send(value);
      }
    }
    if (node >= hints_.forget.size()) return;
    for (const ValueId value : hints_.forget[node]) {
      if (is_there(value) && can_be_remade(value)) forget(value);
    }
  }

  const Problem& problem_;
  const Graph& graph_;
  const AccessSequence& sequence_;
  const OnlineRule& rule_;
  const OnlineHints& hints_;
  std::vector<Entry> entries_;
  std::vector<ValueId> present_;  // On the device, but state.
  bool may_copy_ = false;
  std::optional<EvictedValues> evicted_;
  std::deque<Leaving> leaving_;
  std::deque<ValueId> to_fetch_;
  int64_t used_ = 0;
  int64_t host_used_ = 0;
  size_t executions_ = 0;
  int32_t moment_ = 0;  // The node whose turn it is; past its execution the next.
  int64_t clock_ = 0;
  double now_s_ = 0;
  double out_lane_s_ = 0;
  double in_lane_s_ = 0;
  Plan plan_;
};

}  // namespace

std::optional<Plan> run_online(const Problem& problem, const AccessSequence& sequence,
                               const OnlineRule& rule, const OnlineHints& hints) {
  return OnlineRun(problem, sequence, rule, hints).run();
}

}  // namespace olm2
