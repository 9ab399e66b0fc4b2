#include "planner/state_copies.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>

#include "planner/run_seconds.h"
#include "planner/steps.h"

namespace olm2 {
namespace {

constexpr int64_t kSmallestChunk = int64_t{4} << 20;
constexpr int64_t kMostChunks = 8;
constexpr double kEarly = 1.25;  // Copies in start as if they took this many times as long.

size_t at(int position) {
  return static_cast<size_t>(position);
}

// Part of a visit that is copied by itself.
struct Chunk {
  Range range;
  int64_t bytes = 0;  // Padded.
  int issue = 0;      // The copy in is listed before this position.
};

// One stay of a state source on the device.  Positions count the plan's compute steps.
struct Visit {
  ValueId source;
  ValueId fetched;  // The version that is copied in; invalid: made here.
  ValueId left;     // The version its last change made; invalid: none.
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
  int not_before = 0;  // The visit before ends at the position before this one.
  int next = -1;       // Visit of the same source.
  bool is_merged = false;
  std::vector<Chunk> chunks = {};
  ValueId last_version() const { return left.valid() ? left : fetched; }
};

// A plan cut at its compute steps.
struct Track {
  std::vector<NodeId> nodes;              // Per position.
  std::vector<std::vector<Step>> before;  // Per position, and one more: steps since the last drops.
  std::vector<std::vector<Step>> drops;   // Per position: drops that follow it directly.
  std::vector<double> start_s;            // Per position, and one more, without any waiting.
};

Track track_of(const Problem& problem, const Plan& plan) {
  Track track;
  track.before.emplace_back();
  track.start_s.push_back(0);
  bool follows = false;
  RunSeconds runs(problem);
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::compute) {
      track.nodes.push_back(step.node);
      track.drops.emplace_back();
      track.before.emplace_back();
      track.start_s.push_back(track.start_s.back() + runs.next(step.node));
      follows = true;
      continue;
    }
    follows = follows && step.kind == Step::Kind::drop;
    (follows ? track.drops : track.before).back().push_back(step);
  }
  return track;
}

double copy_seconds(const LinkProfile& link, int64_t bytes) {
  if (!(link.bytes_per_s > 0)) return 0;  // The simulation says that there is no link.
  const double alone = static_cast<double>(bytes) / link.bytes_per_s + link.latency_s;
  return alone / std::max(1.0, link.compute_slowdown);
}

class StateMover {
 public:
  StateMover(const Problem& problem, const Plan& plan, std::vector<int64_t> bytes, int64_t budget)
      : problem_(problem),
        graph_(*problem.graph),
        track_(track_of(problem, plan)),
        bytes_(std::move(bytes)),
        budget_(budget),
        replaced_(track_.nodes.size()) {
    find_visits();
    for (const Visit& visit : visits_) occupy(visit.bytes, visit.first, visit.last);
  }

  void keep_between_uses() {
    std::vector<int> gaps;  // Visits with one after them.
    for (size_t v = 0; v < visits_.size(); ++v) {
      if (visits_[v].next >= 0) gaps.push_back(static_cast<int>(v));
    }
    const auto length_s = [&](int v) {
      return track_.start_s[at(visits_[at(visits_[at(v)].next)].first)] -
             track_.start_s[at(visits_[at(v)].last) + 1];
    };
    std::ranges::stable_sort(gaps, {}, length_s);
    for (const int v : gaps) {
      const Visit& a = visits_[at(v)];
      const Visit& b = visits_[at(a.next)];
      bool fits = true;
      for (int e = a.last + 1; e < b.first && fits; ++e) fits = bytes_[at(e)] + a.bytes <= budget_;
      if (!fits) continue;
      occupy(a.bytes, a.last + 1, b.first - 1);
      joined_.push_back(v);
    }
    // From the end, so that chains of visits collapse into their first one.
    std::ranges::sort(joined_, std::greater<>(), [&](int v) { return visits_[at(v)].first; });
    for (const int v : joined_) {
      Visit& a = visits_[at(v)];
      Visit& b = visits_[at(a.next)];
      a.last = b.last;
      a.left = b.left;
      a.next = b.next;
      b.is_merged = true;
    }
  }

  void fetch_in_time() {
    cut_into_chunks();
    std::vector<Visit*> order;
    for (Visit& visit : visits_) {
      if (!visit.is_merged && visit.fetched.valid()) order.push_back(&visit);
    }
    std::ranges::stable_sort(order, std::greater<>(), [](const Visit* v) { return v->first; });
    double lane_s = track_.start_s.back();
    int scanned =
        static_cast<int>(track_.nodes.size());  // Copies of the plan counted from here on.
    for (Visit* visit : order) {
      for (size_t c = visit->chunks.size(); c-- > 0;) {
        Chunk& chunk = visit->chunks[c];
        lane_s = std::min(lane_s, track_.start_s[at(visit->first)]) -
                 kEarly * copy_seconds(problem_.host_to_device, chunk.bytes);
        int e = visit->first;
        while (e > visit->not_before && track_.start_s[at(e)] > lane_s) {
          if (e < scanned) {
            lane_s -= plan_copies_s(e);
            scanned = e;
          }
          --e;
        }
        chunk.issue = e;
        fit(*visit, chunk);
      }
    }
  }

  const std::vector<int64_t>& bytes() const { return bytes_; }

  StateTraffic traffic(int end) const {
    StateTraffic traffic;
    for (const Visit& visit : visits_) {
      if (visit.first >= end) continue;
      const int64_t bytes = graph_.type(visit.source).bytes();
      if (visit.fetched.valid()) traffic.in_s += copy_seconds(problem_.host_to_device, bytes);
      if (goes_back(visit)) traffic.out_s += copy_seconds(problem_.device_to_host, bytes);
    }
    return traffic;
  }

  Plan write() {
    send_out();
    std::vector<std::vector<std::pair<int, Step>>> fetches(track_.nodes.size());
    for (const Visit& visit : visits_) {
      if (visit.is_merged || !visit.fetched.valid()) continue;
      const Tier tier = problem_.rest_of(visit.source).tier;
      for (const Chunk& chunk : visit.chunks) {
        fetches[at(chunk.issue)].emplace_back(
            visit.first, copy_step(visit.fetched, chunk.range, tier, Tier::device));
      }
    }
    Plan plan;
    const auto append = [&](const std::vector<Step>& steps) {
      plan.steps.insert(plan.steps.end(), steps.begin(), steps.end());
    };
    for (size_t e = 0; e < track_.nodes.size(); ++e) {
      append(given_up_[e]);
      append(track_.before[e]);
      std::ranges::stable_sort(fetches[e], {}, [](const auto& fetch) { return fetch.first; });
      for (const auto& [first, step] : fetches[e]) plan.steps.push_back(step);
      plan.steps.push_back(compute_step(track_.nodes[e]));
      append(track_.drops[e]);
      append(forgotten_[e]);
      append(sent_[e]);
    }
    append(given_up_.back());
    append(track_.before.back());
    return plan;
  }

 private:
  void occupy(int64_t bytes, int first, int last) {
    for (int e = first; e <= last; ++e) bytes_[at(e)] += bytes;
  }

  void find_visits() {
    for (int e = 0; e < static_cast<int>(track_.nodes.size()); ++e) {
      const Node& node = graph_.node(track_.nodes[at(e)]);
      for (const ValueId input : node.inputs) {
        if (moves(input)) visit_at(e, input, true);
      }
      for (const ValueId output : node.outputs) {
        if (!moves(output)) continue;
        Visit& visit = visit_at(e, output, false);
        if (visit.last_version().valid()) replaced_[at(e)].push_back(visit.last_version());
        visit.left = output;
      }
    }
  }

  // The visit that the use of `version` at position `e` belongs to: the one before, if it was at
  // the position before or has changed the source, else a new one.
  Visit& visit_at(int e, ValueId version, bool reads) {
    const ValueId source = graph_.value(version).home;
    const auto [known, is_first] = latest_.try_emplace(source, -1);
    int not_before = 0;
    if (!is_first) {
      Visit& before = visits_[at(known->second)];
      if (before.last >= e - 1 || before.left.valid()) {
        before.last = e;
        return before;
      }
      before.next = static_cast<int>(visits_.size());
      not_before = before.last + 1;
    }
    known->second = static_cast<int>(visits_.size());
    visits_.push_back({.source = source,
                       .fetched = reads ? version : ValueId{},
                       .left = {},
                       .bytes = problem_.padded_bytes(source),
                       .first = e,
                       .last = e,
                       .not_before = not_before});
    return visits_.back();
  }

  bool moves(ValueId value) const {
    const ValueId home = graph_.value(value).home;
    return home.valid() && is_moving(problem_, home);
  }

  void cut_into_chunks() {
    for (Visit& visit : visits_) {
      const int64_t whole = graph_.type(visit.source).bytes();
      const int64_t count = std::clamp(visit.bytes / kSmallestChunk, int64_t{1}, kMostChunks);
      const int64_t size = padded((visit.bytes + count - 1) / count, problem_.alignment);
      visit.chunks.clear();
      for (int64_t begin = 0; begin < visit.bytes; begin += size) {
        const int64_t end = std::min(begin + size, visit.bytes);
        visit.chunks.push_back(
            {.range = {begin, std::min(end, whole)}, .bytes = end - begin, .issue = visit.first});
      }
    }
  }

  // Seconds that the plan's own copies in before position `e` take.
  double plan_copies_s(int e) const {
    double seconds = 0;
    for (const Step& step : track_.before[at(e)]) {
      const bool is_in = step.kind == Step::Kind::copy && step.to == Tier::device;
      if (is_in) seconds += copy_seconds(problem_.host_to_device, step.range.bytes());
    }
    return seconds;
  }

  // Later, where the chunk's bytes do not fit beside the others yet.
  void fit(const Visit& visit, Chunk& chunk) {
    for (int e = visit.first - 1; e >= chunk.issue; --e) {
      if (bytes_[at(e)] + chunk.bytes > budget_) chunk.issue = e + 1;
    }
    occupy(chunk.bytes, chunk.issue, visit.first - 1);
  }

  // Whether a changed version has to go back to where the source rests.
  bool goes_back(const Visit& visit) const {
    return visit.left.valid() && problem_.rest_of(visit.source).at_end;
  }

  // Walks the positions with a clock: what is forgotten, what is sent and when it is given up.
  void send_out() {
    const auto end = static_cast<int>(track_.nodes.size());
    given_up_.assign(at(end) + 1, {});
    forgotten_.assign(at(end), {});
    sent_.assign(at(end), {});
    std::vector<std::vector<const Visit*>> ending(at(end));
    for (const Visit& visit : visits_) {
      if (!visit.is_merged) ending[at(visit.last)].push_back(&visit);
    }
    RunSeconds runs(problem_);
    for (int e = 0; e < end; ++e) {
      while (!on_the_way_.empty() &&
             (on_the_way_.front().done_s <= now_s_ || bytes_[at(e)] + pending_ > budget_)) {
        give_up_first(e);
      }
      pass_copies_of_plan(e);
      now_s_ += runs.next(track_.nodes[at(e)]);
      for (const ValueId old : replaced_[at(e)]) forget(old, e);
      for (const Visit* visit : ending[at(e)]) end_visit(*visit, e);
    }
    while (!on_the_way_.empty()) give_up_first(end);
  }

  void give_up_first(int position) {
    const Sending& first = on_the_way_.front();
    given_up_[at(position)].push_back(drop_step(first.value, first.chunk.range));
    now_s_ = std::max(now_s_, first.done_s);
    pending_ -= first.chunk.bytes;
    on_the_way_.pop_front();
  }

  void pass_copies_of_plan(int e) {
    for (const Step& step : track_.before[at(e)]) {
      if (step.kind == Step::Kind::copy && step.from == Tier::device) {
        take_lane(step.range.bytes());
      }
    }
  }
  // When a copy out that is listed now is done.
  double take_lane(int64_t bytes) {
    lane_out_s_ = std::max(lane_out_s_, now_s_) + copy_seconds(problem_.device_to_host, bytes);
    return lane_out_s_;
  }

  void forget(ValueId value, int position) {
    const Range whole{0, graph_.type(value).bytes()};
    forgotten_[at(position)].push_back(drop_step(value, whole));
  }

  void end_visit(const Visit& visit, int e) {
    if (!goes_back(visit)) return forget(visit.last_version(), e);
    const Tier tier = problem_.rest_of(visit.source).tier;
    for (const Chunk& chunk : visit.chunks) {
      sent_[at(e)].push_back(copy_step(visit.left, chunk.range, Tier::device, tier));
      on_the_way_.push_back(
          {.value = visit.left, .chunk = chunk, .done_s = take_lane(chunk.bytes)});
      pending_ += chunk.bytes;
    }
  }

  const Problem& problem_;
  const Graph& graph_;
  Track track_;
  std::vector<int64_t> bytes_;  // Per position: what is on the device.
  int64_t budget_;
  std::vector<Visit> visits_;
  std::map<ValueId, int> latest_;               // Per source its last visit.
  std::vector<std::vector<ValueId>> replaced_;  // Per position: versions that it makes anew.
  std::vector<int> joined_;                     // Visits that go on until the next one.
  std::vector<std::vector<Step>> given_up_;     // Per position, and one more: before it.
  std::vector<std::vector<Step>> forgotten_;    // Per position: directly after it.
  std::vector<std::vector<Step>> sent_;         // Per position: after those.

  // Copies out that are not done, oldest first, and the clocks of the walk.
  struct Sending {
    ValueId value;
    Chunk chunk;
    double done_s = 0;
  };
  std::deque<Sending> on_the_way_;
  int64_t pending_ = 0;    // Their bytes.
  double now_s_ = 0;       // Of the compute lane.
  double lane_out_s_ = 0;  // When the lane of copies out is free.
};

// Every node once, in order, with nothing else on the device and any amount of room.
StateMover mover_of_all_nodes(const Problem& problem) {
  Plan plan;
  for (size_t n = 0; n < problem.graph->nodes().size(); ++n) {
    plan.steps.push_back(compute_step(n));
  }
  const std::vector<int64_t> nothing(problem.graph->nodes().size(), 0);
  return {problem, plan, nothing, std::numeric_limits<int64_t>::max()};
}

}  // namespace

bool is_moving(const Problem& problem, ValueId source) {
  const StateRest rest = problem.rest_of(source);
  return rest.tier != Tier::device && (rest.at_start || rest.at_end) &&
         problem.graph->type(source).bytes() > 0;
}

Plan with_state_copies(const Problem& problem, const Plan& plan,
                       std::vector<int64_t> device_bytes) {
  StateMover mover(problem, plan, std::move(device_bytes), problem.budget[index_of(Tier::device)]);
  mover.keep_between_uses();
  mover.fetch_in_time();
  return mover.write();
}

std::vector<int64_t> state_windows(const Problem& problem, bool early) {
  StateMover mover = mover_of_all_nodes(problem);
  if (early) mover.fetch_in_time();
  return mover.bytes();
}

StateTraffic traffic_before_update(const Problem& problem) {
  const auto& nodes = problem.graph->nodes();
  const auto update = std::ranges::find(nodes, Phase::update, &Node::phase);
  return mover_of_all_nodes(problem).traffic(static_cast<int>(update - nodes.begin()));
}

}  // namespace olm2
