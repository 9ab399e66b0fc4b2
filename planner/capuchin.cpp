#include "planner/capuchin.h"

#include <algorithm>

#include "planner/keep_all.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);
constexpr size_t kHost = index_of(Tier::host);

size_t at(int32_t i) {
  return static_cast<size_t>(i);
}

// A value is not read between the nodes `from` and `to`.
struct Gap {
  enum class Fate : uint8_t { kept, swapped, forgotten };
  ValueId value;
  int32_t from = 0;
  int32_t to = 0;
  int64_t bytes = 0;  // Padded.
  double out_s = 0;   // Its copies.
  double in_s = 0;
  double free_s = 0;
  bool may_hide = true;  // Until the lanes turned out to be too busy.
  Fate fate = Fate::kept;
  double out_done_s = 0;  // If swapped, in order on the lanes.
  double in_start_s = 0;
  bool covers(int32_t node) const { return from < node && node < to; }
};

class Chooser {
 public:
  Chooser(const Problem& problem, const AccessSequence& sequence)
      : problem_(problem),
        graph_(*problem.graph),
        sequence_(sequence),
        may_copy_(problem.budget[kHost] > 0 && problem.device_to_host.bytes_per_s > 0 &&
                  problem.host_to_device.bytes_per_s > 0),
        seen_(graph_.values().size(), 0) {
    start_s_.push_back(0);
    for (const double seconds : problem.seconds) start_s_.push_back(start_s_.back() + seconds);
    find_gaps();
    find_bytes();
  }

  OnlineHints run() {
    while (true) {
      const std::vector<int64_t> bytes = estimate();
      const auto most = std::ranges::max_element(bytes);
      if (most == bytes.end() || *most <= problem_.budget[kDevice]) break;
      if (!take_one(static_cast<int32_t>(most - bytes.begin()))) break;
    }
    return hints();
  }

 private:
  void find_gaps() {
    gaps_of_.resize(graph_.values().size());
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      const ValueId value{static_cast<int32_t>(v)};
      const NodeId producer = graph_.value(value).producer;
      const bool is_result = std::ranges::find(problem_.results, value) != problem_.results.end();
      if (!producer.valid() || graph_.value(value).home.valid() || is_result) continue;
      int32_t before = producer.index;
      for (const int32_t read : sequence_.reads[v]) {
        if (read > before + 1) add_gap(value, before, read);
        before = read;
      }
    }
  }

  void add_gap(ValueId value, int32_t from, int32_t to) {
    Gap gap{.value = value, .from = from, .to = to, .bytes = problem_.padded_bytes(value)};
    if (may_copy_) {
      gap.out_s = copy_seconds(problem_.device_to_host, value);
      gap.in_s = copy_seconds(problem_.host_to_device, value);
    }
    gap.free_s = start_s_[at(to)] - start_s_[at(from) + 1] - gap.out_s - gap.in_s;
    gap.may_hide = may_copy_ && gap.free_s >= 0;
    gaps_of_[at(value.index)].push_back(gaps_.size());
    gaps_.push_back(gap);
  }

  double copy_seconds(const LinkProfile& link, ValueId value) const {
    return link.latency_s + static_cast<double>(graph_.type(value).bytes()) / link.bytes_per_s;
  }

  // Device bytes at every node if everything is kept.
  void find_bytes() {
    const Plan plan = keep_all_plan(problem_);
    const Occupancy occupancy = replay(problem_, plan);
    for (size_t k = 0; k < plan.steps.size(); ++k) {
      if (plan.steps[k].kind == Step::Kind::compute) {
        kept_bytes_.push_back(occupancy.per_step[k][kDevice]);
      }
    }
  }

  std::vector<int64_t> estimate() const {
    std::vector<int64_t> bytes = kept_bytes_;
    for (const Gap& gap : gaps_) {
      if (gap.fate == Gap::Fate::kept) continue;
      const bool is_hidden = gap.fate == Gap::Fate::swapped && gap.out_done_s <= gap.in_start_s;
      for (int32_t n = gap.from + 1; n < gap.to; ++n) {
        const bool is_away = !is_hidden || (start_s_[at(n)] >= gap.out_done_s &&
                                            start_s_[at(n) + 1] <= gap.in_start_s);
        if (is_away) bytes[at(n)] -= gap.bytes;
      }
    }
    return bytes;
  }

  // Takes one value off the device at `node`; false if none can be.
  bool take_one(int32_t node) {
    std::vector<size_t> candidates;
    for (size_t g = 0; g < gaps_.size(); ++g) {
      if (gaps_[g].fate == Gap::Fate::kept && gaps_[g].covers(node)) candidates.push_back(g);
    }
    std::ranges::stable_sort(candidates, std::ranges::greater{},
                             [&](size_t g) { return gaps_[g].free_s; });
    return hide_one(candidates) || take_cheapest(candidates);
  }

  bool hide_one(const std::vector<size_t>& candidates) {
    for (const size_t g : candidates) {
      Gap& gap = gaps_[g];
      if (!gap.may_hide || !has_host_room(gap)) continue;
      gap.fate = Gap::Fate::swapped;
      if (time_copies()) return true;
      gap.fate = Gap::Fate::kept;
      gap.may_hide = false;  // Lanes only get busier.
    }
    time_copies();
    return false;
  }

  bool take_cheapest(const std::vector<size_t>& candidates) {
    Gap* best = nullptr;
    Gap::Fate fate = Gap::Fate::kept;
    double least = 0;
    const auto offer = [&](Gap& gap, Gap::Fate how, double seconds) {
      const double per_byte = seconds / static_cast<double>(std::max<int64_t>(gap.bytes, 1));
      if (best != nullptr && per_byte >= least) return;
      best = &gap;
      fate = how;
      least = per_byte;
    };
    for (const size_t g : candidates) {
      Gap& gap = gaps_[g];
      if (sequence_.remade_until[at(gap.value.index)] >= gap.to) {
        offer(gap, Gap::Fate::forgotten, remake_seconds(gap));
      }
      if (may_copy_ && has_host_room(gap)) offer(gap, Gap::Fate::swapped, gap.out_s + gap.in_s);
    }
    if (best == nullptr) return false;
    best->fate = fate;
    time_copies();
    return true;
  }

  // As if all that is swapped were there at once.
  bool has_host_room(const Gap& gap) const {
    int64_t bytes = gap.bytes;
    for (const Gap& other : gaps_) {
      const bool is_beside = other.fate == Gap::Fate::swapped && other.from < gap.to &&
                             gap.from < other.to && other.value != gap.value;
      if (is_beside) bytes += other.bytes;
    }
    return bytes <= problem_.budget[kHost];
  }

  // Puts the copies of all swaps on their lanes; true if all are hidden.
  bool time_copies() {
    std::vector<Gap*> swapped;
    for (Gap& gap : gaps_) {
      if (gap.fate == Gap::Fate::swapped) swapped.push_back(&gap);
    }
    std::ranges::stable_sort(swapped, {}, &Gap::from);
    double lane_s = 0;
    for (Gap* gap : swapped) {
      lane_s = gap->out_done_s = std::max(lane_s, start_s_[at(gap->from) + 1]) + gap->out_s;
    }
    std::ranges::stable_sort(swapped, std::ranges::greater{}, &Gap::to);
    lane_s = start_s_.back();
    bool all_hidden = true;
    for (Gap* gap : swapped) {
      lane_s = gap->in_start_s = std::min(lane_s, start_s_[at(gap->to)]) - gap->in_s;
      all_hidden = all_hidden && gap->out_done_s <= gap->in_start_s;
    }
    return all_hidden;
  }

  // To make a forgotten value again at the end of its gap.
  double remake_seconds(const Gap& gap) {
    ++round_;
    double seconds = 0;
    std::vector<ValueId> missing = {gap.value};
    while (!missing.empty()) {
      const NodeId producer = graph_.value(missing.back()).producer;
      missing.pop_back();
      seconds += problem_.run_seconds(at(producer.index), true);
      const Node& node = graph_.node(producer);
      for (const ValueId output : node.outputs) seen_[at(output.index)] = round_;
      for (const ValueId input : node.inputs) {
        if (seen_[at(input.index)] == round_ || is_there(input, gap.to)) continue;
        seen_[at(input.index)] = round_;
        missing.push_back(input);
      }
    }
    return seconds;
  }

  bool is_there(ValueId value, int32_t moment) const {
    if (!graph_.value(value).producer.valid() || graph_.value(value).home.valid()) return true;
    if (sequence_.next_read(value, moment) < 0) return false;
    return std::ranges::none_of(gaps_of_[at(value.index)], [&](size_t g) {
      return gaps_[g].fate == Gap::Fate::forgotten && gaps_[g].covers(moment);
    });
  }

  OnlineHints hints() const {
    OnlineHints hints;
    const size_t nodes = graph_.nodes().size();
    hints.send.resize(nodes);
    hints.forget.resize(nodes);
    hints.fetch.resize(nodes);
    std::vector<const Gap*> back;
    for (const Gap& gap : gaps_) {
      if (gap.fate == Gap::Fate::forgotten) hints.forget[at(gap.from)].push_back(gap.value);
      if (gap.fate != Gap::Fate::swapped) continue;
      hints.send[at(gap.from)].push_back(gap.value);
      back.push_back(&gap);
    }
    std::ranges::stable_sort(back, {}, &Gap::in_start_s);
    for (const Gap* gap : back) {
      const auto later = std::ranges::upper_bound(start_s_, gap->in_start_s);
      const auto node = static_cast<int32_t>(later - start_s_.begin()) - 1;
      hints.fetch[at(std::clamp(node, gap->from + 1, gap->to))].push_back(gap->value);
    }
    return hints;
  }

  const Problem& problem_;
  const Graph& graph_;
  const AccessSequence& sequence_;
  bool may_copy_ = false;
  std::vector<double> start_s_;  // Per node, and the end, if everything is kept.
  std::vector<int64_t> kept_bytes_;
  std::vector<Gap> gaps_;
  std::vector<std::vector<size_t>> gaps_of_;  // Per value.
  std::vector<int64_t> seen_;
  int64_t round_ = 0;
};

constexpr OnlineRule kPassive{.copies = true, .worth = least_recently_used};

}  // namespace

OnlineHints choose_capuchin(const Problem& problem, const AccessSequence& sequence) {
  return Chooser(problem, sequence).run();
}

PolicyResult plan_capuchin(const Problem& problem, const PlanOptions& /*options*/) {
  const AccessSequence sequence = access_sequence(problem);
  return plan_online(problem, sequence, kPassive, choose_capuchin(problem, sequence));
}

std::vector<Plan> smallest_capuchin(const Problem& problem, const PlanOptions& /*options*/) {
  return smallest_online(problem, kPassive);
}

}  // namespace olm2
