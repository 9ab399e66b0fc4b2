#include "planner/milp_streams.h"

#include <algorithm>

namespace olm2 {
namespace {

constexpr double kMilliseconds = 1e3;

size_t at(int32_t index) {
  return static_cast<size_t>(index);
}

class StreamBuilder {
 public:
  StreamBuilder(const Problem& problem, MilpModel& model) : problem_(problem), model_(model) {}

  void build(int turn, bool all_sent_at_turn, const std::vector<Transfer>& made,
             const std::vector<Transfer>& released, const std::vector<Transfer>& needed) {
    const int first = std::ranges::min_element(made, {}, &Transfer::slot)->slot;
    const int last = std::ranges::max_element(needed, {}, &Transfer::slot)->slot;
    out_ = stream_of(problem_.device_to_host, made);
    in_ = stream_of(problem_.host_to_device, needed);
    for (int s = first; s <= last; ++s) {
      slot_ = s;
      wait_ = add_fluid("wait", 1);
      if (s == turn && all_sent_at_turn) at_most("gone", released_, sent_);
      if (s <= turn) send(s);
      if (s + 1 >= turn) bring_back(s, needed);
      accumulate("made", made_, made, out_.fixed, s);
      accumulate("released", released_, released, out_.fixed, s);
    }
  }

 private:
  struct Stream {
    double rate = 0;   // Units per millisecond of computing.
    double fixed = 0;  // Units that pass in the fixed time of a copy.
    double share = 1;  // Of bytes in all units.
  };

  Stream stream_of(const LinkProfile& link, const std::vector<Transfer>& transfers) const {
    const double slowdown = std::max(1.0, link.compute_slowdown);
    Stream stream{.rate = link.bytes_per_s / model_.unit_bytes / kMilliseconds * slowdown,
                  .fixed = link.latency_s * link.bytes_per_s / model_.unit_bytes};
    double bytes = 0;
    for (const Transfer& transfer : transfers) bytes += transfer.units;
    const double all = bytes + stream.fixed * static_cast<double>(transfers.size());
    stream.share = all > 0 ? bytes / all : 1;
    return stream;
  }

  int add_fluid(const char* what, double cost = 0) {
    return model_.linear.add({.cost = cost,
                              .lower = 0,
                              .upper = kUnbounded,
                              .integer = false,
                              .label = {what, -1, slot_}});
  }
  void add_row(const char* what, Row row) {
    row.label = {what, -1, slot_};
    model_.linear.rows.push_back(std::move(row));
  }
  void add_span(std::vector<Span>& spans, int column, int slot, double factor) {
    if (column < 0) return;
    spans.push_back({.column = column, .first = slot, .last = slot, .factor = factor});
  }
  void at_most(const char* what, int smaller, int larger) {  // -1 is nothing.
    if (smaller < 0) return;
    Row row{.terms = {{.column = smaller, .factor = 1}}, .lower = -kUnbounded, .upper = 0};
    if (larger >= 0) row.terms.push_back({.column = larger, .factor = -1});
    add_row(what, std::move(row));
  }

  // total becomes the old total + what happens at the slot; false if nothing does.
  bool accumulate(const char* what, int& total, const std::vector<Transfer>& transfers,
                  double fixed, int slot) {
    Row row{.terms = {}, .lower = 0, .upper = 0};
    for (const Transfer& transfer : transfers) {
      if (transfer.slot != slot) continue;
      row.terms.push_back({.column = transfer.column, .factor = -transfer.units - fixed});
    }
    if (row.terms.empty()) return false;
    const int next = add_fluid(what);
    row.terms.push_back({.column = next, .factor = 1});
    if (total >= 0) row.terms.push_back({.column = total, .factor = -1});
    add_row(what, std::move(row));
    total = next;
    return true;
  }

  // A stream moves on by at most its rate times the time of the slot.
  void flow(const char* what, int& total, double rate, int slot) {
    const int next = add_fluid(what);
    Row limit{.terms = {{.column = next, .factor = 1}, {.column = wait_, .factor = -rate}},
              .lower = -kUnbounded,
              .upper = 0};
    const double amount = rate * run_seconds(problem_, model_.slots[at(slot)]) * kMilliseconds;
    if (model_.run[at(slot)] >= 0) {
      limit.terms.push_back({.column = model_.run[at(slot)], .factor = -amount});
    } else {
      limit.upper = amount;
    }
    if (total >= 0) limit.terms.push_back({.column = total, .factor = -1});
    add_row(what, std::move(limit));
    at_most("more", total, next);
    total = next;
  }

  void send(int slot) {
    if (made_ < 0) return;
    add_span(model_.outward, released_, slot, out_.share);
    add_span(model_.outward, sent_, slot, -out_.share);
    flow("sent", sent_, out_.rate, slot);
    at_most("after", sent_, made_);
  }

  void bring_back(int slot, const std::vector<Transfer>& needed) {
    if (accumulate("needed", needed_, needed, in_.fixed, slot)) at_most("in_time", needed_, back_);
    flow("back", back_, in_.rate, slot);
    add_span(model_.homeward, back_, slot, in_.share);
    add_span(model_.homeward, wait_, slot, -in_.rate * in_.share);
    add_span(model_.homeward, needed_, slot, -in_.share);
  }

  const Problem& problem_;
  MilpModel& model_;
  Stream out_;
  Stream in_;
  int slot_ = 0;
  // Columns of the slot before; -1: nothing yet.
  int wait_ = -1;
  int made_ = -1;
  int released_ = -1;
  int sent_ = -1;
  int needed_ = -1;
  int back_ = -1;
};

}  // namespace

void add_streams(const Problem& problem, int turn, bool all_sent_at_turn,
                 const std::vector<Transfer>& made, const std::vector<Transfer>& released,
                 const std::vector<Transfer>& needed, MilpModel& model) {
  StreamBuilder(problem, model).build(turn, all_sent_at_turn, made, released, needed);
}

}  // namespace olm2
