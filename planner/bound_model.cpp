#include "planner/bound_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "planner/in_place.h"

namespace olm2 {
namespace {

constexpr int32_t kNever = -1;
constexpr int64_t kManyBlocks = 16;  // From so many on, the short last block is given for nothing.

size_t at(int32_t index) {
  return static_cast<size_t>(index);
}
size_t at(ValueId value) {
  return static_cast<size_t>(value.index);
}

double sum_of(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

// Padded bytes that a value takes among those planned for; 0 for what is, or comes to rest, below
// state_bytes.
int64_t bytes_of(const Problem& problem, ValueId value) {
  if (problem.lives_at_home(value)) return 0;
  const ValueId home = problem.graph->value(value).home;
  const bool settles_below = home.valid() && problem.rest_of(home).tier == Tier::device &&
                             problem.state_offset.at(at(home)) < problem.state_bytes;
  return settles_below ? 0 : problem.padded_bytes(value);
}

// Least device bytes of what a node makes, beside its inputs, and of its scratch.
int64_t made_bytes(const Problem& problem, size_t n) {
  const Node& node = problem.graph->nodes()[n];
  const std::vector<InPlace> pairs = possible_in_place(problem, node);
  int64_t bytes = padded(problem.workspace.at(n), problem.alignment);
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    const bool may_be_free =
        std::ranges::any_of(pairs, [&](InPlace pair) { return at(pair.output) == o; });
    if (!may_be_free) bytes += bytes_of(problem, node.outputs[o]);
  }
  return bytes;
}

// Per value the last node that reads it; the number of nodes for results, -1: nobody.
std::vector<int32_t> last_readers(const Problem& problem) {
  const Graph& graph = *problem.graph;
  std::vector<int32_t> last(graph.values().size(), kNever);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    for (const ValueId input : graph.nodes()[n].inputs) last[at(input)] = static_cast<int32_t>(n);
  }
  for (const ValueId result : problem.results) {
    last[at(result)] = static_cast<int32_t>(graph.nodes().size());
  }
  return last;
}

class TurnBuilder {
 public:
  TurnBuilder(const Problem& problem, const TurnRequest& request)
      : problem_(problem), graph_(*problem.graph), request_(request), turn_(request.turn.index) {}

  TurnModel build() {
    choose_units();
    find_needs();
    model_.again.assign(graph_.nodes().size(), -1);
    model_.sent.assign(graph_.values().size(), -1);
    model_.held.assign(graph_.values().size(), -1);
    model_.needed.assign(graph_.values().size(), false);
    model_.read_by_turn.assign(graph_.values().size(), false);
    for (const ValueId input : graph_.node(request_.turn).inputs) {
      model_.read_by_turn[at(input)] = in_v_[at(input)];
    }
    find_deadlines();
    add_runs();
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      add_value({static_cast<int32_t>(v)});
    }
    add_memory();
    add_chains();
    if (copies_) {
      limit_host();
      limit_outward();
      limit_homeward();
    }
    return std::move(model_);
  }

 private:
  double units(int64_t bytes) const { return static_cast<double>(bytes) / model_.unit_bytes; }
  double time(size_t node) const { return problem_.seconds.at(node) / model_.unit_s; }
  // Node that makes a value, -1 for inputs.
  int32_t maker(ValueId value) const { return graph_.value(value).producer.index; }

  void choose_units() {
    const double total = sum_of(problem_.seconds);
    const auto count = static_cast<double>(std::max<size_t>(graph_.nodes().size(), 1));
    model_.unit_s = total > 0 ? total / count : 1;
    model_.linear.constant = total / model_.unit_s;
    int64_t largest = 0;
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      largest = std::max(largest, bytes_of(problem_, {static_cast<int32_t>(v)}));
    }
    model_.unit_bytes = static_cast<double>(std::max<int64_t>(largest / 4, 1));
    copies_ = problem_.device_to_host.bytes_per_s > 0 && problem_.host_to_device.bytes_per_s > 0;
  }

  // Bytes of other tiers that do not belong to state at rest.
  double elsewhere_bytes() const {
    double bytes = 0;
    for (const Tier tier : {Tier::host, Tier::disk}) {
      bytes += std::max(0.0, static_cast<double>(problem_.budget[index_of(tier)]) -
                                 static_cast<double>(problem_.state_bytes_in(tier)));
    }
    return bytes;
  }
  // State that rests in another tier moves whatever the policy, and has its bytes there already.
  bool rests_elsewhere(ValueId value) const {
    const ValueId home = graph_.value(value).home;
    return home.valid() && problem_.rest_of(home).tier != Tier::device;
  }
  bool may_move(ValueId value) const {
    return copies_ && (request_.may_swap || rests_elsewhere(value));
  }
  // Nothing needs to be sent of what is elsewhere when the step begins.
  bool is_sent(ValueId value) const {
    return model_.sent[at(value)] >= 0 && !(rests_elsewhere(value) && maker(value) < 0);
  }

  // V, and which of it is read later.
  void find_needs() {
    const std::vector<int32_t> last = last_readers(problem_);
    last_need_.assign(graph_.values().size(), kNever);
    in_v_.assign(graph_.values().size(), false);
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      const ValueId id{static_cast<int32_t>(v)};
      in_v_[v] = bytes_of(problem_, id) > 0 && maker(id) < turn_;
      if (in_v_[v] && last[v] >= turn_) last_need_[v] = last[v];
    }
  }

  // Until when a value can matter: its last reader at or after T, or, where there is none, that of
  // what is made from it.
  void find_deadlines() {
    deadline_ = last_need_;
    run_deadline_.assign(at(turn_), kNever);
    for (size_t n = at(turn_); n-- > 0;) {
      const Node& node = graph_.nodes()[n];
      for (const ValueId output : node.outputs) {
        if (in_v_[at(output)] && !model_.read_by_turn[at(output)]) {
          run_deadline_[n] = std::max(run_deadline_[n], deadline_[at(output)]);
        }
      }
      for (const ValueId input : node.inputs) {
        if (last_need_[at(input)] != kNever) continue;
        deadline_[at(input)] = std::max(deadline_[at(input)], run_deadline_[n]);
      }
    }
  }

  void add_runs() {
    if (!request_.may_recompute) return;
    for (size_t n = 0; n < at(turn_); ++n) {
      if (run_deadline_[n] == kNever) continue;
      model_.again[n] =
          model_.linear.add({.cost = copies_ ? 0.0 : time(n), .lower = 0, .upper = 1});
    }
  }

  int run_column(ValueId value) const {
    const int32_t node = maker(value);
    return node < 0 ? -1 : model_.again[at(node)];
  }

  void add_value(ValueId value) {
    if (!in_v_[at(value)] || deadline_[at(value)] == kNever) return;
    if (model_.read_by_turn[at(value)]) {  // Surely on the device.
      model_.needed[at(value)] = true;
      return;
    }
    const bool is_needed = last_need_[at(value)] != kNever;
    if (!is_needed && !request_.may_recompute) return;
    if (may_move(value)) {
      model_.sent[at(value)] = model_.linear.add({.cost = 0, .lower = 0, .upper = 1});
    }
    if (!is_needed) {
      model_.held[at(value)] = model_.linear.add({.cost = 0, .lower = 0, .upper = 1});
      return;
    }
    model_.needed[at(value)] = true;
    const int run = run_column(value);
    const int sent = model_.sent[at(value)];
    if (run < 0 || sent < 0) return;
    add_row({.terms = {{.column = run, .factor = 1}, {.column = sent, .factor = 1}}, .upper = 1});
  }

  void add_row(Row row) { model_.linear.rows.push_back(std::move(row)); }

  // Rows 3, where d of what is needed is 1 - h - c.
  void add_memory() {
    const int64_t budget = problem_.budget[index_of(Tier::device)];
    int64_t fixed =
        padded(problem_.state_bytes, problem_.alignment) + made_bytes(problem_, at(turn_));
    std::map<int, double> freed;  // One value per column h, several outputs per column c.
    Row row{.terms = {}};
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      const ValueId value{static_cast<int32_t>(v)};
      const double bytes = units(bytes_of(problem_, value));
      if (model_.held[v] >= 0) row.terms.push_back({.column = model_.held[v], .factor = bytes});
      if (!model_.needed[v]) continue;
      fixed += bytes_of(problem_, value);
      if (model_.read_by_turn[at(value)]) continue;
      if (model_.sent[v] >= 0) freed[model_.sent[v]] += bytes;
      if (run_column(value) >= 0) freed[run_column(value)] += bytes;
    }
    for (const auto& [column, bytes] : freed) {
      row.terms.push_back({.column = column, .factor = -bytes});
    }
    row.upper = units(budget - fixed);
    model_.is_impossible = row.terms.empty() && budget < fixed;
    model_.memory_row = static_cast<int>(model_.linear.rows.size());
    add_row(std::move(row));
  }

  // Rows 2; rows 1 imply them for inputs that are needed later anyway.
  void add_chains() {
    for (size_t n = 0; n < at(turn_); ++n) {
      if (model_.again[n] < 0) continue;
      std::vector<ValueId> inputs = graph_.nodes()[n].inputs;
      std::ranges::sort(inputs);
      inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
      for (const ValueId input : inputs) {
        if (model_.held[at(input)] < 0) continue;
        Row row{.terms = {{.column = model_.held[at(input)], .factor = 1},
                          {.column = model_.again[n], .factor = -1}},
                .lower = 0};
        if (model_.sent[at(input)] >= 0) {
          row.terms.push_back({.column = model_.sent[at(input)], .factor = 1});
        }
        if (run_column(input) >= 0) row.terms.push_back({.column = run_column(input), .factor = 1});
        add_row(std::move(row));
      }
    }
  }

  void limit_host() {
    Row row{.terms = {}, .upper = elsewhere_bytes() / model_.unit_bytes};
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      const ValueId value{static_cast<int32_t>(v)};
      if (model_.sent[v] < 0 || rests_elsewhere(value)) continue;
      row.terms.push_back({.column = model_.sent[v], .factor = units(bytes_of(problem_, value))});
    }
    if (!row.terms.empty()) add_row(std::move(row));
  }

  // Time that copying all of a value takes at least per part of it, and what is to be taken off
  // once where a part is copied.
  struct CopyTime {
    double whole = 0;
    double rebate = 0;
  };
  CopyTime copy_time(size_t v, const LinkProfile& link) const {
    const int64_t bytes = graph_.values()[v].type.bytes();
    const int64_t whole = problem_.padded_bytes({static_cast<int32_t>(v)});
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

  // `added` is the time added on one side of the turn.
  struct Side {
    const LinkProfile& link;
    double slowdown = 1;
    int added = -1;
  };
  Side open_side(const LinkProfile& link) {
    return {link, std::max(1.0, link.compute_slowdown),
            model_.linear.add({.cost = 1, .lower = 0, .upper = kUnbounded})};
  }
  void charge_copies(const Side& side, bool is_outward) {
    if (side.slowdown == 1) return;
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      if (model_.sent[v] < 0) continue;
      if (is_outward && !is_sent({static_cast<int32_t>(v)})) continue;
      const CopyTime copy = copy_time(v, side.link);
      const double held_up = 1 - 1 / side.slowdown;
      model_.linear.columns[at(model_.sent[v])].cost += held_up * copy.whole;
      model_.linear.constant -= held_up * copy.rebate;
    }
  }

  // Rows 4 or 5: values by the number of the node that makes them first, or needs them last, in the
  // order in which the time for their copies grows.
  void limit_copies(const Side& side, const std::vector<std::pair<int32_t, size_t>>& values,
                    const std::vector<double>& time_for) {
    int total = -1;
    double most = 0;
    double rebate = 0;
    for (size_t k = 0; k < values.size();) {
      Row row{.terms = {}, .lower = 0, .upper = 0};
      const int32_t when = values[k].first;
      for (; k < values.size() && values[k].first == when; ++k) {
        const CopyTime copy = copy_time(values[k].second, side.link);
        row.terms.push_back({.column = model_.sent[values[k].second], .factor = -copy.whole});
        most += copy.whole;
        rebate += copy.rebate;
      }
      if (total >= 0) row.terms.push_back({.column = total, .factor = -1});
      total = model_.linear.add({.cost = 0, .lower = 0, .upper = most});
      row.terms.push_back({.column = total, .factor = 1});
      add_row(std::move(row));
      add_row({.terms = {{.column = total, .factor = 1},
                         {.column = side.added, .factor = -side.slowdown}},
               .upper = side.slowdown * time_for[at(when + 1)] + rebate});
    }
  }

  void limit_outward() {
    const Side side = open_side(problem_.device_to_host);
    charge_copies(side, true);
    std::vector<double> time_left(at(turn_) + 1, 0);  // From the end of node n - 1 on.
    for (size_t n = at(turn_); n-- > 0;) time_left[n] = time_left[n + 1] + time(n);
    std::vector<std::pair<int32_t, size_t>> values;
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      const ValueId value{static_cast<int32_t>(v)};
      if (is_sent(value)) values.emplace_back(maker(value), v);
    }
    std::ranges::sort(values, std::greater<>());
    limit_copies(side, values, time_left);
  }

  void limit_homeward() {
    const Side side = open_side(problem_.host_to_device);
    charge_copies(side, false);
    Row again{.terms = {{.column = side.added, .factor = 1}}, .lower = 0};
    for (size_t n = 0; n < at(turn_); ++n) {
      if (model_.again[n] < 0) continue;
      again.terms.push_back({.column = model_.again[n], .factor = -time(n)});
    }
    add_row(std::move(again));
    // Entry k + 1: from the start of T to the start of node k, or to the end.
    std::vector<double> time_until(graph_.nodes().size() + 2, 0);
    for (size_t n = at(turn_); n < graph_.nodes().size(); ++n) {
      time_until[n + 2] = time_until[n + 1] + time(n);
    }
    std::vector<std::pair<int32_t, size_t>> values;
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      if (model_.sent[v] >= 0) values.emplace_back(deadline_[v], v);
    }
    std::ranges::sort(values);
    limit_copies(side, values, time_until);
  }

  const Problem& problem_;
  const Graph& graph_;
  const TurnRequest& request_;
  const int32_t turn_;
  bool copies_ = false;
  std::vector<bool> in_v_;             // Per value.
  std::vector<int32_t> last_need_;     // Per value: its last reader at or after T, else -1.
  std::vector<int32_t> deadline_;      // Per value, -1: it cannot matter after T.
  std::vector<int32_t> run_deadline_;  // Per node before T, of its outputs.
  TurnModel model_;
};

}  // namespace

TurnModel build_turn(const Problem& problem, const TurnRequest& request) {
  return TurnBuilder(problem, request).build();
}

std::vector<int64_t> bytes_at_turns(const Problem& problem) {
  const Graph& graph = *problem.graph;
  const std::vector<int32_t> last = last_readers(problem);
  const size_t count = graph.nodes().size();
  std::vector<int64_t> change(count + 1, 0);
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const ValueId value{static_cast<int32_t>(v)};
    const int32_t first = graph.value(value).producer.index + 1;  // Made before this node.
    if (last[v] < first) continue;
    change[at(first)] += bytes_of(problem, value);
    if (at(last[v]) < count) change[at(last[v]) + 1] -= bytes_of(problem, value);
  }
  std::vector<int64_t> bytes(count, 0);
  int64_t there = padded(problem.state_bytes, problem.alignment);
  for (size_t n = 0; n < count; ++n) {
    there += change[n];
    bytes[n] = there + made_bytes(problem, n);
  }
  return bytes;
}

}  // namespace olm2
