#include "planner/milp_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "planner/in_place.h"
#include "planner/milp_streams.h"

namespace olm2 {
namespace {

constexpr double kMilliseconds = 1e3;
constexpr double kPreference = 1e-6;     // Cost of a needless copy, relative to its time.
constexpr double kEarliness = 3e-4;      // Of sending what is made last instead of first, likewise.
constexpr int64_t kSmallestSwap = 1024;  // Smaller than the largest value by this: never swapped.
constexpr int64_t kSmallestTracked = 16;  // Further outputs smaller by this get no variable.

size_t at(int32_t index) {
  return static_cast<size_t>(index);
}
size_t at(ValueId value) {
  return static_cast<size_t>(value.index);
}

struct Event {
  int slot = 0;
  bool reads = false;
  bool optional = false;
};

// A variable or a constant.
struct Level {
  int column = -1;
  double constant = 0;
  bool is_constant(double value) const { return column < 0 && constant == value; }
};

// A value over the step.
struct Track {
  ValueId value;
  double units = 0;  // Padded bytes.
  std::vector<Event> events;
  std::vector<Level> hold;           // D: between event k and k+1.
  std::vector<int> in;               // Per event the column, -1: none.
  std::vector<bool> is_overwritten;  // Per event: an output comes to lie on it.
  int w = -1;
  int leave = -1;  // Event after which w goes out.
  bool is_minor = false;
};

class Builder {
 public:
  Builder(const Problem& problem, std::vector<Slot> slots, const MilpRequest& request)
      : problem_(problem), graph_(*problem.graph), request_(request) {
    model_.slots = std::move(slots);
    slot_count_ = static_cast<int>(model_.slots.size());
    choose_unit();
    find_turn();
  }

  MilpModel build() {
    add_budget();
    add_runs();
    find_events();
    for (Track& track : tracks_) choose_levels(track);
    choose_overwritten();
    for (Track& track : tracks_) {
      if (track.is_minor) {
        add_minor(track);
      } else {
        add_track(track);
      }
    }
    if (!model_.swaps.empty()) {
      limit_host();
      if (!request_.minimise_budget) {
        const bool is_fullest = fullest_slot(model_) == turn_;
        add_streams(problem_, turn_, is_fullest, made_, released_, needed_, model_);
      }
    }
    return std::move(model_);
  }

 private:
  double units(int64_t bytes) const { return static_cast<double>(bytes) / model_.unit_bytes; }
  const Node& node_at(int slot) const { return graph_.node(model_.slots[at(slot)].node); }
  bool is_counted(ValueId value) const {
    return !problem_.lives_at_home(value) && problem_.padded_bytes(value) > 0;
  }
  double seconds_ms(int slot) const {
    return run_seconds(problem_, model_.slots[at(slot)]) * kMilliseconds;
  }

  // The largest activation is four units, so that factors are near 1.
  void choose_unit() {
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      if (graph_.values()[v].role != Role::activation) continue;
      largest_ = std::max(largest_, problem_.padded_bytes({static_cast<int32_t>(v)}));
    }
    model_.unit_bytes = static_cast<double>(std::max<int64_t>(largest_ / 4, 1));
  }

  void find_turn() {
    const int32_t turn_node = turn_of(graph_);
    for (int s = 0; s < slot_count_; ++s) {
      const Slot& slot = model_.slots[at(s)];
      if (turn_ < 0 && !slot.optional && slot.node.index == turn_node) turn_ = s;
    }
  }

  void add_budget() {
    model_.budget_units = units(request_.budget[index_of(Tier::device)]);
    if (!request_.minimise_budget) return;
    model_.budget_column = model_.linear.add({.cost = 1,
                                              .lower = 0,
                                              .upper = kUnbounded,
                                              .integer = false,
                                              .label = {.what = "budget", .of = -1, .at = -1}});
  }

  void add_runs() {
    add_span(-1, 0, slot_count_, units(problem_.state_bytes));
    for (int s = 0; s < slot_count_; ++s) {
      int column = -1;
      if (model_.slots[at(s)].optional) {
        const double cost = request_.minimise_budget ? 0 : seconds_ms(s);
        column = model_.linear.add({.cost = cost,
                                    .lower = 0,
                                    .upper = 1,
                                    .integer = true,
                                    .label = {"run", model_.slots[at(s)].node.index, s}});
      } else if (!request_.minimise_budget) {
        model_.linear.constant += seconds_ms(s);
      }
      model_.run.push_back(column);
      const int64_t scratch = problem_.workspace[at(model_.slots[at(s)].node.index)];
      if (scratch > 0) add_span(column, s, s, units(padded(scratch, problem_.alignment)));
    }
  }

  void add_event(ValueId value, const Event& event) {
    if (!is_counted(value)) return;
    int& index = track_of_[at(value)];
    if (index < 0) {
      index = static_cast<int>(tracks_.size());
      tracks_.push_back({.value = value,
                         .units = units(problem_.padded_bytes(value)),
                         .events = {},
                         .hold = {},
                         .in = {},
                         .is_overwritten = {}});
    }
    std::vector<Event>& events = tracks_[at(index)].events;
    if (!events.empty() && events.back().slot == event.slot) return;  // Read twice by one node.
    events.push_back(event);
  }

  void find_events() {
    track_of_.assign(graph_.values().size(), -1);
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      if (graph_.values()[v].producer.valid()) continue;
      add_event({static_cast<int32_t>(v)}, {.slot = -1, .reads = false, .optional = false});
    }
    for (int s = 0; s < slot_count_; ++s) {
      const bool optional = model_.slots[at(s)].optional;
      for (const ValueId input : node_at(s).inputs) {
        add_event(input, {.slot = s, .reads = true, .optional = optional});
      }
      for (const ValueId output : node_at(s).outputs) {
        add_event(output, {.slot = s, .reads = false, .optional = optional});
      }
    }
    for (const ValueId result : problem_.results) {
      add_event(result, {.slot = slot_count_, .reads = true, .optional = false});
    }
  }

  // A small further output whose node may run again once: productions 0 and m, mandatory reads
  // before.
  bool is_minor(const Track& track) const {
    const NodeId producer = graph_.value(track.value).producer;
    if (!producer.valid()) return false;
    const ValueId main = graph_.node(producer).outputs.front();
    if (track.value == main || !is_counted(main)) return false;
    if (problem_.padded_bytes(track.value) * kSmallestTracked > problem_.padded_bytes(main)) {
      return false;
    }
    int productions = 0;
    for (const Event& event : track.events) {
      if (!event.reads) ++productions;
      if (event.reads && productions == 1 && (event.optional || event.slot > turn_)) return false;
    }
    return productions == 2;
  }

  bool is_swappable(const Track& track) const {
    const bool has_links =
        problem_.device_to_host.bytes_per_s > 0 && problem_.host_to_device.bytes_per_s > 0;
    if (!request_.may_swap || !has_links || turn_ < 0) return false;
    if (request_.budget[index_of(Tier::host)] <= 0) return false;
    if (problem_.padded_bytes(track.value) * kSmallestSwap < largest_) return false;
    const bool leaves_early =
        std::ranges::none_of(track.events, [&](const Event& e) { return e.slot == turn_; });
    const bool is_made = graph_.value(track.value).producer.valid();
    return is_made && leaves_early && track.events.front().slot < turn_;
  }

  // A part of a value, from 0 to 1.
  int add_part(const char* what, const Track& track, int slot) {
    return model_.linear.add({.cost = 0,
                              .lower = 0,
                              .upper = 1,
                              .integer = false,
                              .label = {what, track.value.index, slot}});
  }

  // Adds w and in where the value may be away over the turn.
  void choose_swap(Track& track) {
    if (!is_swappable(track)) return;
    for (size_t k = 0; k < track.events.size(); ++k) {
      const Event& event = track.events[k];
      if (event.slot <= turn_ && !event.optional) track.leave = static_cast<int>(k);
    }
    bool comes_back = false;
    for (size_t k = 0; k < track.events.size(); ++k) {
      const Event& event = track.events[k];
      if (event.slot <= turn_ || event.slot == slot_count_) continue;
      if (!event.reads && !event.optional) break;  // Made again in any case.
      if (!event.reads) continue;
      track.in[k] = add_part("fetch", track, event.slot);
      comes_back = true;
    }
    if (!comes_back) return;
    track.w = add_part("send", track, -1);
    model_.linear.columns[at(track.w)].integer = !request_.partial_swap;
  }

  // D between the events: 1 where a mandatory read leaves no choice, 0 where nobody reads later.
  void choose_levels(Track& track) {
    const size_t count = track.events.size();
    track.in.assign(count, -1);
    track.is_overwritten.assign(count, false);
    track.hold.resize(count);
    track.is_minor = is_minor(track);
    if (track.is_minor) return;
    choose_swap(track);
    bool read_later = false;
    for (size_t k = count - 1; k-- > 0;) {
      const Event& next = track.events[k + 1];
      const bool is_made_next = !next.reads && !next.optional;
      read_later = next.reads || (read_later && !is_made_next);
      const bool is_needed = !next.optional || track.hold[k + 1].is_constant(1);
      if (!read_later) {
        track.hold[k] = {.column = -1, .constant = 0};
      } else if (next.reads && is_needed && track.in[k + 1] < 0) {
        track.hold[k] = {.column = -1, .constant = 1};
      } else {
        track.hold[k].column = add_part("keep", track, track.events[k].slot);
        model_.holds.push_back(track.hold[k].column);
      }
    }
  }

  // Which inputs are computed over.  Of several that an output may lie on, the surest to die.
  void choose_overwritten() {
    for (int s = 0; s < slot_count_; ++s) {
      const Node& node = node_at(s);
      std::vector<int> done;
      for (const bool surely : {true, false}) {
        for (const InPlace& pair : possible_in_place(problem_, node)) {
          const int index = track_of_[at(node.inputs[at(pair.input)])];
          if (index < 0 || std::ranges::find(done, pair.output) != done.end()) continue;
          Track& track = tracks_[at(index)];
          const auto event = std::ranges::lower_bound(track.events, s, {}, &Event::slot);
          const auto k = static_cast<size_t>(event - track.events.begin());
          const Level& after = track.hold[k];
          if (track.is_minor || track.is_overwritten[k] || after.is_constant(1)) continue;
          if (surely && !after.is_constant(0)) continue;
          track.is_overwritten[k] = true;
          done.push_back(pair.output);
        }
      }
    }
  }

  void add_span(int column, int first, int last, double factor) {
    if (factor == 0) return;
    first = std::max(first, 0);
    last = std::min(last, slot_count_);
    if (first > last) return;
    model_.spans.push_back({.column = column, .first = first, .last = last, .factor = factor});
  }
  void add_span(const Level& level, int first, int last, double factor) {
    if (level.column >= 0) {
      add_span(level.column, first, last, factor);
    } else {
      add_span(-1, first, last, factor * level.constant);
    }
  }

  static void add_term(Row& row, const Level& level, double factor) {
    if (level.column >= 0) {
      row.terms.push_back({.column = level.column, .factor = factor});
    } else {
      row.lower -= factor * level.constant;
      row.upper -= factor * level.constant;
    }
  }
  void add_row(const char* what, ValueId of, int slot, Row row) {
    if (row.terms.empty()) return;
    row.label = {what, of.index, slot};
    model_.linear.rows.push_back(std::move(row));
  }

  void add_minor(const Track& track) {
    const auto again =
        std::ranges::find(track.events.begin() + 1, track.events.end(), false, &Event::reads);
    const int last_before = std::prev(again)->slot;
    const int run = model_.run[at(again->slot)];
    const bool read_later = std::next(again) != track.events.end();
    add_span(-1, track.events.front().slot, read_later ? track.events.back().slot : last_before,
             track.units);
    if (read_later) {
      add_span(run, last_before + 1, again->slot - 1, -track.units);
    } else {
      add_span(run, again->slot, again->slot, track.units);
    }
  }

  void add_track(const Track& track) {
    add_span(-1, track.events.front().slot, track.events.front().slot, track.units);
    for (size_t k = 0; k < track.events.size(); ++k) {
      if (k > 0 && track.events[k].reads) add_read(track, k);
      if (k > 0 && !track.events[k].reads) add_production(track, k);
      if (k + 1 < track.events.size()) {
        add_span(track.hold[k], track.events[k].slot + 1, track.events[k + 1].slot - 1,
                 track.units);
      }
    }
    if (track.w >= 0) add_swap(track);
  }

  void add_read(const Track& track, size_t k) {
    const Event& event = track.events[k];
    const Level& before = track.hold[k - 1];
    const Level in{.column = track.in[k], .constant = 0};
    Row enough{.terms = {}, .lower = event.optional ? 0.0 : 1.0};
    add_term(enough, before, 1);
    add_term(enough, in, 1);
    if (event.optional) {
      enough.terms.push_back({.column = model_.run[at(event.slot)], .factor = -1});
    }
    if (!before.is_constant(1) || event.optional) {
      if (!(before.is_constant(1) && in.column < 0))
        add_row("there", track.value, event.slot, std::move(enough));
    }
    if (in.column >= 0) {
      Row at_most_all{.terms = {}, .lower = -kUnbounded, .upper = 1};
      add_term(at_most_all, before, 1);
      add_term(at_most_all, in, 1);
      add_row("once", track.value, event.slot, std::move(at_most_all));
    }
    const Level& after = track.hold[k];
    if (after.column >= 0 && !(before.is_constant(1))) {
      Row kept{.terms = {{.column = after.column, .factor = 1}}, .lower = -kUnbounded, .upper = 0};
      add_term(kept, before, -1);
      add_term(kept, in, -1);
      add_row("stays", track.value, event.slot, std::move(kept));
    }
    if (track.is_overwritten[k]) {
      add_span(after, event.slot, event.slot, track.units);
      if (track.leave == static_cast<int>(k)) {
        add_span(track.w, event.slot, event.slot, track.units);
      }
    } else {
      add_span(before, event.slot, event.slot, track.units);
      if (in.column >= 0) add_span(in, event.slot, event.slot, track.units);
    }
  }

  void add_production(const Track& track, size_t k) {
    const Event& event = track.events[k];
    const int run = model_.run[at(event.slot)];
    if (run < 0) {  // What was there before is forgotten: the level before is 0.
      add_span(-1, event.slot, event.slot, track.units);
      return;
    }
    const Level& before = track.hold[k - 1];
    const Level& after = track.hold[k];
    Row once{.terms = {{.column = run, .factor = 1}}, .lower = -kUnbounded, .upper = 1};
    add_term(once, before, 1);
    add_row("anew", track.value, event.slot, std::move(once));
    if (k + 1 < track.events.size()) {
      Row kept{.terms = {{.column = run, .factor = -1}}, .lower = -kUnbounded, .upper = 0};
      add_term(kept, after, 1);
      add_term(kept, before, -1);
      add_row("stays", track.value, event.slot, std::move(kept));
    }
    const bool is_only_output = graph_.node(graph_.value(track.value).producer).outputs.size() == 1;
    if (is_only_output && after.column >= 0) {  // Nobody makes it again to forget it.
      add_row("used", track.value, event.slot,
              {.terms = {{.column = after.column, .factor = 1}, {.column = run, .factor = -1}},
               .lower = 0,
               .upper = kUnbounded});
    }
    add_span(before, event.slot, event.slot, track.units);
    add_span(run, event.slot, event.slot, track.units);
  }

  void add_swap(const Track& track) {
    const double sent_units = units(graph_.type(track.value).bytes());  // Without padding.
    Row once{.terms = {{.column = track.w, .factor = -1}}, .lower = -kUnbounded, .upper = 0};
    for (size_t k = 0; k < track.in.size(); ++k) {
      if (track.in[k] < 0) continue;
      once.terms.push_back({.column = track.in[k], .factor = 1});
      needed_.push_back({.slot = track.events[k].slot, .column = track.in[k], .units = sent_units});
      add_copy_cost(track.in[k], problem_.host_to_device, sent_units);
    }
    add_row("away", track.value, -1, std::move(once));
    released_.push_back(
        {.slot = track.events[at(track.leave)].slot, .column = track.w, .units = sent_units});
    made_.push_back({.slot = track.events.front().slot, .column = track.w, .units = sent_units});
    add_copy_cost(track.w, problem_.device_to_host, sent_units);
    prefer_early(track);
    Swap swap{.value = track.value, .sent = track.w, .brought_back = {}};
    for (const int column : track.in) {
      if (column >= 0) swap.brought_back.push_back(column);
    }
    model_.swaps.push_back(std::move(swap));
    if (request_.partial_swap) forbid_both(track);  // Else roundings would be infeasible.
  }

  // Of values that serve equally well, the first ones are sent, and whole: the link has work from
  // the beginning, one value at most is cut, and pieces that must return to their place beside the
  // rest are few.  They pack badly.
  void prefer_early(const Track& track) {
    if (request_.minimise_budget) return;
    const double lateness = track.events.front().slot / static_cast<double>(turn_);
    const double seconds =
        static_cast<double>(graph_.type(track.value).bytes()) / problem_.device_to_host.bytes_per_s;
    const double cost = seconds * kMilliseconds * kEarliness * std::max(0.0, lateness);
    model_.linear.columns[at(track.w)].cost += cost;
    model_.preference_ms += cost;
  }

  // Nobody brings back what was made again.
  void forbid_both(const Track& track) {
    Row later{.terms = {}, .lower = -kUnbounded, .upper = 1};
    for (size_t k = track.events.size(); k-- > 0 && track.events[k].slot > turn_;) {
      const Event& event = track.events[k];
      if (track.in[k] >= 0) later.terms.push_back({.column = track.in[k], .factor = 1});
      if (event.reads || !event.optional || later.terms.empty()) continue;
      Row row = later;
      row.terms.push_back({.column = model_.run[at(event.slot)], .factor = 1});
      add_row("either", track.value, event.slot, std::move(row));
    }
  }

  void add_copy_cost(int column, const LinkProfile& link, double units) {
    if (request_.minimise_budget) return;
    const double alone_ms =
        (units * model_.unit_bytes / link.bytes_per_s + link.latency_s) * kMilliseconds;
    const double held_up = 1.0 - 1.0 / std::max(1.0, link.compute_slowdown);
    model_.linear.columns[at(column)].cost += alone_ms * (held_up + kPreference);
    model_.preference_ms += alone_ms * kPreference;
  }

  void limit_host() {
    Row row{
        .terms = {}, .lower = -kUnbounded, .upper = units(request_.budget[index_of(Tier::host)])};
    for (const Swap& swap : model_.swaps) {
      row.terms.push_back(
          {.column = swap.sent, .factor = units(problem_.padded_bytes(swap.value))});
    }
    add_row("host", {}, -1, std::move(row));
  }

  const Problem& problem_;
  const Graph& graph_;
  const MilpRequest& request_;
  MilpModel model_;
  int slot_count_ = 0;
  int turn_ = -1;
  int64_t largest_ = 0;
  std::vector<Track> tracks_;
  std::vector<int> track_of_;  // Per value; -1: takes no bytes.
  std::vector<Transfer> made_;
  std::vector<Transfer> released_;
  std::vector<Transfer> needed_;
};

}  // namespace

MilpModel build_model(const Problem& problem, std::vector<Slot> slots, const MilpRequest& request) {
  return Builder(problem, std::move(slots), request).build();
}

Decisions decisions_of(const Problem& problem, const MilpModel& model, std::span<const double> x) {
  Decisions decisions;
  for (size_t s = 0; s < model.slots.size(); ++s) {
    const bool runs = model.run[s] < 0 || x[at(model.run[s])] > 0.5;
    if (runs) decisions.order.push_back(model.slots[s].node);
  }
  decisions.swapped.resize(problem.graph->values().size(), 0);
  for (const Swap& swap : model.swaps) {
    double back = 0;
    for (const int column : swap.brought_back) back += x[at(column)];
    const double part = x[at(swap.sent)];
    if (part < 1e-6 || back < 1e-6) continue;
    const int64_t whole = problem.padded_bytes(swap.value);
    const auto wanted = static_cast<int64_t>(std::ceil((part - 1e-7) * static_cast<double>(whole)));
    decisions.swapped[at(swap.value)] = std::min(padded(wanted, problem.alignment), whole);
  }
  return decisions;
}

}  // namespace olm2
