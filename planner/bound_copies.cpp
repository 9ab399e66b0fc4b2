#include "planner/bound_copies.h"

#include <algorithm>
#include <set>
#include <utility>

namespace olm2 {
namespace {

constexpr int64_t kManyBlocks = 16;  // From so many on, the short last block is given for nothing.
constexpr double kUsual = 1.25;      // A value's time per byte against another's.

size_t at(int32_t index) {
  return static_cast<size_t>(index);
}

// Time that copying all of a value takes at least, per part of it, and what is to be taken off
// once where a part is copied.
struct CopyTime {
  double whole = 0;
  double rebate = 0;
};

// One direction.
struct Side {
  const LinkProfile& link;
  double slowdown = 1;
};

// A value that is copied, and when it is made first or needed last.
struct Copied {
  int32_t when = 0;
  size_t value = 0;
  CopyTime time;
  double bytes = 0;  // Units.
};

class CopyRows {
 public:
  CopyRows(const Problem& problem, const TurnRequest& request, TurnModel& model)
      : problem_(problem), graph_(*problem.graph), request_(request), model_(model) {}

  void add() {
    limit_host();
    limit_outward();
    limit_homeward();
  }

 private:
  double time(size_t node) const { return problem_.seconds.at(node) / model_.unit_s; }
  ValueId id(size_t v) const { return {static_cast<int32_t>(v)}; }
  int32_t maker(size_t v) const { return graph_.values()[v].producer.index; }
  // Nothing needs to be sent of what is elsewhere when the step begins.
  bool is_sent(size_t v) const {
    return model_.sent[v] >= 0 && !(rests_elsewhere(problem_, id(v)) && maker(v) < 0);
  }
  int add_column(double cost, double upper) {
    return model_.linear.add({.cost = cost, .lower = 0, .upper = upper});
  }
  static Side side_of(const LinkProfile& link) {
    return {link, std::max(1.0, link.compute_slowdown)};
  }

  // Row 6: bytes of other tiers that do not belong to state at rest.
  void limit_host() {
    double bytes = 0;
    for (const Tier tier : {Tier::host, Tier::disk}) {
      bytes += std::max(0.0, static_cast<double>(problem_.budget[index_of(tier)]) -
                                 static_cast<double>(problem_.state_bytes_in(tier)));
    }
    Row row{.terms = {}, .upper = bytes / model_.unit_bytes};
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      if (model_.sent[v] < 0 || rests_elsewhere(problem_, id(v))) continue;
      row.terms.push_back(
          {.column = model_.sent[v], .factor = model_.units(bytes_of(problem_, id(v)))});
    }
    if (!row.terms.empty()) model_.add_row(std::move(row));
  }

  CopyTime copy_time(size_t v, const LinkProfile& link) const {
    const int64_t bytes = graph_.values()[v].type.bytes();
    const int64_t whole = problem_.padded_bytes(id(v));
    const int64_t blocks = whole / problem_.alignment;
    const double second = link.bytes_per_s * model_.unit_s;  // Bytes per unit of time.
    const double latency = link.latency_s / model_.unit_s;
    if (blocks >= kManyBlocks) {
      return {latency + static_cast<double>(whole) / second,
              static_cast<double>(whole - bytes) / second};
    }
    const int64_t last = bytes - (blocks - 1) * problem_.alignment;
    return {latency + static_cast<double>(blocks * last) / second, 0};
  }

  Copied copied(size_t v, int32_t when, const Side& side) const {
    return {when, v, copy_time(v, side.link), model_.units(bytes_of(problem_, id(v)))};
  }

  // Rows 4: a chain of sums, from the node before T backwards.
  void limit_outward() {
    const Side side = side_of(problem_.device_to_host);
    std::vector<Copied> values;
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      if (is_sent(v)) values.push_back(copied(v, maker(v), side));
    }
    std::ranges::stable_sort(values, std::greater<>(), &Copied::when);
    const int added = add_column(1, kUnbounded);
    int total = -1;
    double most = 0;
    double rebate = 0;
    double time_left = 0;
    int32_t left_from = request_.turn.index;  // time_left is from this node's start to T's.
    for (size_t k = 0; k < values.size();) {
      const int32_t when = values[k].when;
      for (; left_from > when + 1; --left_from) time_left += time(at(left_from - 1));
      Row sum{.terms = {}, .lower = 0, .upper = 0};
      for (; k < values.size() && values[k].when == when; ++k) {
        sum.terms.push_back(
            {.column = model_.sent[values[k].value], .factor = -values[k].time.whole});
        most += values[k].time.whole;
        rebate += values[k].time.rebate;
      }
      total = add_to(total, std::move(sum), most);
      model_.add_row(
          {.terms = {{.column = total, .factor = 1}, {.column = added, .factor = -side.slowdown}},
           .upper = side.slowdown * time_left + rebate});
    }
    charge(total, rebate, side);
  }

  // The next sum of a chain: that before, and minus what `terms` says.
  int add_to(int total, Row sum, double most) {
    if (total >= 0) sum.terms.push_back({.column = total, .factor = -1});
    const int next = add_column(0, most);
    sum.terms.push_back({.column = next, .factor = 1});
    model_.add_row(std::move(sum));
    return next;
  }

  // Computing that all copies of a side hold up.
  void charge(int total, double rebate, const Side& side) {
    if (total < 0) return;
    const double held_up = 1 - 1 / side.slowdown;
    model_.linear.columns[at(total)].cost += held_up;
    model_.linear.constant -= held_up * rebate;
  }

  // Column f of what is brought back: that of h, or, where a part may leave after T, one of its
  // own with f + c + k >= 1.
  int back_column(size_t v) {
    if (model_.kept[v] < 0) return model_.sent[v];
    const int back = add_column(0, 1);
    Row row{.terms = {{.column = back, .factor = 1}, {.column = model_.kept[v], .factor = 1}},
            .lower = 1};
    RowOrigin origin;
    const int32_t node = maker(v);
    if (node >= 0 && model_.again[at(node)] >= 0) {
      row.terms.push_back({.column = model_.again[at(node)], .factor = 1});
      const std::vector<ValueId>& outputs = graph_.nodes()[at(node)].outputs;
      const auto position = std::ranges::find(outputs, id(v)) - outputs.begin();
      origin = {.node = node, .which = kBackRows - static_cast<int>(position)};
    }
    model_.add_row(std::move(row), origin);
    return back;
  }

  // --- rows 5, 7 and 8 ---------------------------------------------------------------------------

  // From one cut to the next; sums and times count from its start.
  struct Interval {
    double start = 0;      // Time since T began.
    int added = -1;        // Column of the time added in it.
    int needed = -1;       // Column of the sum of what was needed before it; -1: 0.
    int ahead = -1;        // Column of the bytes that are there before they are needed; -1: 0.
    double rebate = 0;     // Of what was needed since.
    double not_ahead = 0;  // Time of copies since, of values that `ahead` does not count.
  };

  void limit_homeward() {
    const Side side = side_of(problem_.host_to_device);
    std::vector<Copied> values;
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      if (model_.sent[v] >= 0) values.push_back(copied(v, model_.needs.deadline[v], side));
    }
    std::ranges::stable_sort(values, {}, &Copied::when);
    find_ratios(values);
    std::vector<NodeId> cuts;
    if (request_.has_later_cuts) cuts = cuts_from(problem_, request_.turn);
    std::erase_if(cuts,
                  [&](NodeId cut) { return values.empty() || cut.index >= values.back().when; });
    limit_kept(values, cuts);
    walk(values, cuts, side);
    count_runs();
  }

  // `ahead` counts values whose time per byte is much like that of the largest.
  void find_ratios(const std::vector<Copied>& values) {
    if (values.empty()) return;
    const Copied& largest = *std::ranges::max_element(values, {}, &Copied::bytes);
    usual_ratio_ = least_ratio_ = most_ratio_ = largest.time.whole / largest.bytes;
    for (const Copied& value : values) {
      if (!may_be_ahead(value)) continue;
      least_ratio_ = std::min(least_ratio_, value.time.whole / value.bytes);
      most_ratio_ = std::max(most_ratio_, value.time.whole / value.bytes);
      all_rebates_ += value.time.rebate;
      all_bytes_ += value.bytes;
    }
  }
  bool may_be_ahead(const Copied& value) const {
    const double ratio = value.time.whole / value.bytes;
    return ratio <= kUsual * usual_ratio_ && usual_ratio_ <= kUsual * ratio;
  }

  // Left sides of rows 7: per cut the bytes kept for later, a chain from the last cut backwards.
  void limit_kept(const std::vector<Copied>& values, const std::vector<NodeId>& cuts) {
    kept_at_.assign(cuts.size(), -1);
    int total = -1;
    double most = 0;
    size_t left = values.size();
    for (size_t c = cuts.size(); c-- > 0;) {
      Row sum{.terms = {}, .lower = 0, .upper = 0};
      for (; left > 0 && values[left - 1].when > cuts[c].index; --left) {
        const Copied& value = values[left - 1];
        if (model_.kept[value.value] < 0) continue;
        sum.terms.push_back({.column = model_.kept[value.value], .factor = -value.bytes});
        most += value.bytes;
      }
      total = kept_at_[c] = add_to(total, std::move(sum), most);
    }
  }

  // Device bytes of what the node itself needs, as far as they are in no sum of row 7.
  int64_t own_bytes(NodeId node) const {
    int64_t bytes =
        padded(problem_.state_bytes, problem_.alignment) + made_bytes(problem_, at(node.index));
    const std::vector<ValueId>& inputs = graph_.node(node).inputs;
    for (const ValueId input : std::set<ValueId>(inputs.begin(), inputs.end())) {
      const size_t v = at(input.index);
      const bool is_summed = model_.kept[v] >= 0 && model_.needs.deadline[v] > node.index;
      if (!is_summed) bytes += bytes_of(problem_, input);
    }
    return bytes;
  }

  void walk(const std::vector<Copied>& values, const std::vector<NodeId>& cuts, const Side& side) {
    Interval interval{.start = 0, .added = open_added(), .needed = -1, .ahead = -1};
    double most = 0;
    double rebate = 0;
    size_t cut = 0;
    double now = 0;  // From the start of T to that of `node`.
    int32_t node = request_.turn.index;
    int needed = -1;
    for (size_t k = 0; k < values.size() || cut < cuts.size();) {
      const int32_t when = k < values.size() ? values[k].when : cuts[cut].index;
      const bool is_cut = cut < cuts.size() && cuts[cut].index < when;
      const int32_t until = is_cut ? cuts[cut].index : when;
      for (; node < until; ++node) now += time(at(node));
      if (is_cut) {
        interval = open_interval(interval, needed, now + time(at(cuts[cut].index)), cuts[cut],
                                 kept_at_[cut], side);
        ++cut;
        continue;
      }
      Row sum{.terms = {}, .lower = 0, .upper = 0};
      for (; k < values.size() && values[k].when == when; ++k) {
        const Copied& value = values[k];
        sum.terms.push_back({.column = back_column(value.value), .factor = -value.time.whole});
        most += value.time.whole;
        rebate += value.time.rebate;
        interval.rebate += value.time.rebate;
        if (!may_be_ahead(value)) interval.not_ahead += value.time.whole;
      }
      needed = add_to(needed, std::move(sum), most);
      model_.add_row(arrivals(interval, needed, now, side));
      if (cut < cuts.size() && cuts[cut].index == when) {
        interval = open_interval(interval, needed, now + time(at(cuts[cut].index)), cuts[cut],
                                 kept_at_[cut], side);
        ++cut;
      }
    }
    charge(needed, rebate, side);
  }

  int open_added() {
    added_.push_back(add_column(1, kUnbounded));
    return added_.back();
  }

  // Row 5 or 8: what is needed since the interval began, less what was ahead then, comes in time.
  Row arrivals(const Interval& interval, int needed, double now, const Side& side) const {
    Row row{.terms = {{.column = interval.added, .factor = -side.slowdown}},
            .upper = side.slowdown * (now - interval.start) + interval.rebate};
    if (needed != interval.needed) {
      if (needed >= 0) row.terms.push_back({.column = needed, .factor = 1});
      if (interval.needed >= 0) row.terms.push_back({.column = interval.needed, .factor = -1});
    }
    if (interval.ahead >= 0) {
      row.terms.push_back({.column = interval.ahead, .factor = -most_ratio_});
      row.upper += interval.not_ahead;
    }
    return row;
  }

  Interval open_interval(const Interval& before, int needed, double now, NodeId cut, int kept,
                         const Side& side) {
    const double room = model_.units(problem_.budget[index_of(Tier::device)] - own_bytes(cut));
    const int ahead = add_column(0, all_bytes_);
    model_.add_memory_row(
        {.terms = {{.column = kept, .factor = 1}, {.column = ahead, .factor = 1}}, .upper = room});
    Row row = arrivals(before, needed, now, side);
    row.terms.push_back({.column = ahead, .factor = least_ratio_});
    row.upper += all_rebates_;
    model_.add_row(std::move(row));
    return {.start = now, .added = open_added(), .needed = needed, .ahead = ahead};
  }

  // Everything that runs again after T is part of the time added there.
  void count_runs() {
    Row row{.terms = {}, .lower = 0};
    for (const int column : added_) row.terms.push_back({.column = column, .factor = 1});
    for (size_t n = 0; n < at(request_.turn.index); ++n) {
      if (model_.again[n] < 0) continue;
      row.terms.push_back(
          {.column = model_.again[n], .factor = -problem_.run_seconds(n, true) / model_.unit_s});
    }
    model_.add_row(std::move(row));
  }

  static constexpr int kBackRows = -1000;

  const Problem& problem_;
  const Graph& graph_;
  const TurnRequest& request_;
  TurnModel& model_;
  std::vector<int> added_;    // Per interval.
  std::vector<int> kept_at_;  // Per cut.
  double usual_ratio_ = 0;    // Time per byte, of the largest value and of those that may be ahead.
  double least_ratio_ = 0;
  double most_ratio_ = 0;
  double all_rebates_ = 0;
  double all_bytes_ = 0;
};

}  // namespace

bool may_copy(const Problem& problem, bool may_swap) {
  const bool has_links =
      problem.device_to_host.bytes_per_s > 0 && problem.host_to_device.bytes_per_s > 0;
  const bool state_moves = std::ranges::any_of(
      problem.rest, [](const StateRest& rest) { return rest.tier != Tier::device; });
  return has_links && (may_swap || state_moves);
}

bool rests_elsewhere(const Problem& problem, ValueId value) {
  const ValueId home = problem.graph->value(value).home;
  return home.valid() && problem.rest_of(home).tier != Tier::device;
}

void add_copies(const Problem& problem, const TurnRequest& request, TurnModel& model) {
  CopyRows(problem, request, model).add();
}

}  // namespace olm2
