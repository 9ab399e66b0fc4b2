#include "recompute_oracle.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "planner/in_place.h"

namespace olm2::oracle {
namespace {

// Packed into one number: what is on the device, a bit per counted value; how many nodes have run;
// which version each state source holds, four bits per source.
class State {
 public:
  explicit State(uint64_t packed = 0) : packed_(packed) {}
  uint64_t packed() const { return packed_; }
  uint32_t there() const { return static_cast<uint32_t>(packed_ & 0xffffU); }
  size_t done() const { return packed_ >> 16U & 0xffU; }
  uint64_t version(size_t home) const { return packed_ >> (24 + 4 * home) & 0xfU; }
  void set_there(uint32_t there) { packed_ = (packed_ & ~uint64_t{0xffff}) | there; }
  void count_one_more() { packed_ += uint64_t{1} << 16U; }
  void set_version(size_t home, uint64_t version) {
    packed_ &= ~(uint64_t{0xf} << (24 + 4 * home));
    packed_ |= version << (24 + 4 * home);
  }

 private:
  uint64_t packed_;
};

// What computing a node does, for one choice of inputs forgotten right after.
struct Effect {
  uint32_t gone = 0;       // Inputs that outputs come to lie on.
  int64_t more_bytes = 0;  // While it runs, beside what was there.
};

class Search {
 public:
  explicit Search(const Problem& problem) : problem_(problem), graph_(*problem.graph) {
    number_values();
    for (size_t n = 0; n < graph_.nodes().size(); ++n) add_node(n);
  }

  std::optional<int> run() {
    uint32_t inputs = 0;
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      if (!graph_.values()[v].producer.valid()) inputs |= bit_[v];
    }
    State start;
    start.set_there(inputs);
    if (bytes(inputs) > problem_.budget[0]) return std::nullopt;
    reach(start, 0);
    for (int cost = 0; cost < static_cast<int>(queue_.size()); ++cost) {
      for (size_t i = 0; i < queue_[at(cost)].size(); ++i) {
        const State state(queue_[at(cost)][i]);
        if (best_.at(state.packed()) < cost) continue;
        if (is_end(state)) return cost;
        expand(state, cost);
      }
    }
    return std::nullopt;
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }
  static size_t at(ValueId value) { return static_cast<size_t>(value.index); }

  // Counted values get a bit, versions of state a home and a rank.
  void number_values() {
    const size_t count = graph_.values().size();
    bit_.assign(count, 0);
    home_.assign(count, -1);
    rank_.assign(count, 0);
    uint32_t next = 1;
    std::map<int32_t, int> number_of;
    for (size_t v = 0; v < count; ++v) {
      const ValueId id{static_cast<int32_t>(v)};
      const Value& value = graph_.value(id);
      if (value.home.valid()) {
        const auto next_home = static_cast<int>(number_of.size());
        home_[v] = number_of.try_emplace(value.home.index, next_home).first->second;
        version_count_.resize(number_of.size(), 0);
        rank_[v] = version_count_[at(home_[v])]++;
        ensure(version_count_.size() <= 10 && rank_[v] < 16, "too much state to search");
      } else if (problem_.padded_bytes(id) > 0) {
        ensure(next != 0 && bytes_.size() < 16, "too many values to search");
        bit_[v] = next;
        next <<= 1U;
        bytes_.push_back(problem_.padded_bytes(id));
      }
    }
    for (const ValueId result : problem_.results) wanted_ |= bit_[at(result)];
  }

  void add_node(size_t n) {
    const Node& node = graph_.nodes()[n];
    uint32_t reads = 0;
    uint32_t writes = 0;
    for (const ValueId input : node.inputs) reads |= bit_[at(input)];
    for (const ValueId output : node.outputs) writes |= bit_[at(output)];
    reads_.push_back(reads);
    writes_.push_back(writes);
    std::vector<ValueId> may_go;
    for (const InPlace pair : possible_in_place(problem_, node)) {
      may_go.push_back(node.inputs[at(pair.input)]);
    }
    std::vector<Effect> effects;
    for (uint32_t chosen = 0; chosen < (1U << may_go.size()); ++chosen) {
      uint32_t freed = 0;
      for (size_t k = 0; k < may_go.size(); ++k) {
        if ((chosen >> k & 1U) != 0) freed |= bit_[at(may_go[k])];
      }
      effects.push_back(effect_of(n, freed));
    }
    effects_.push_back(effects);
  }

  Effect effect_of(size_t n, uint32_t freed) const {
    const Node& node = graph_.nodes()[n];
    Effect effect{
        .gone = 0,
        .more_bytes = bytes(writes_[n]) + padded(problem_.workspace[n], problem_.alignment)};
    const auto pairs = choose_in_place(
        problem_, node, [&](ValueId input) { return (bit_[at(input)] & freed) != 0; });
    for (const InPlace pair : pairs) {
      effect.gone |= bit_[at(node.inputs[at(pair.input)])];
      effect.more_bytes -= problem_.padded_bytes(node.outputs[at(pair.output)]);
    }
    return effect;
  }

  int64_t bytes(uint32_t there) const {
    int64_t sum = padded(problem_.state_bytes, problem_.alignment);
    for (size_t b = 0; b < bytes_.size(); ++b) {
      if ((there >> b & 1U) != 0) sum += bytes_[b];
    }
    return sum;
  }

  bool is_end(const State& state) const {
    if (state.done() != graph_.nodes().size() || (state.there() & wanted_) != wanted_) return false;
    for (size_t h = 0; h < version_count_.size(); ++h) {
      if (state.version(h) + 1 != version_count_[h]) return false;
    }
    return true;
  }

  void reach(const State& state, int cost) {
    const auto [known, is_new] = best_.try_emplace(state.packed(), cost);
    if (!is_new && known->second <= cost) return;
    known->second = cost;
    if (queue_.size() <= at(cost)) queue_.resize(at(cost) + 1);
    queue_[at(cost)].push_back(state.packed());
  }

  bool can_run(const State& state, size_t n) const {
    if ((state.there() & reads_[n]) != reads_[n] || (state.there() & writes_[n]) != 0) return false;
    for (const ValueId input : graph_.nodes()[n].inputs) {
      const int home = home_[at(input)];
      if (home >= 0 && state.version(at(home)) != rank_[at(input)]) return false;
    }
    return true;
  }

  void expand(const State& state, int cost) {
    for (size_t b = 0; b < bytes_.size(); ++b) {
      if ((state.there() >> b & 1U) == 0) continue;
      State less = state;
      less.set_there(state.there() & ~(1U << b));
      reach(less, cost);
    }
    const size_t last = std::min(state.done(), graph_.nodes().size() - 1);
    for (size_t n = 0; n <= last; ++n) {
      if (!can_run(state, n)) continue;
      for (const Effect& effect : effects_[n]) {
        if (bytes(state.there()) + effect.more_bytes > problem_.budget[0]) continue;
        State next = state;
        next.set_there((state.there() | writes_[n]) & ~effect.gone);
        for (const ValueId output : graph_.nodes()[n].outputs) {
          const int home = home_[at(output)];
          if (home >= 0) next.set_version(at(home), rank_[at(output)]);
        }
        if (n == state.done()) next.count_one_more();
        reach(next, cost + static_cast<int>(problem_.run_seconds(n, n != state.done())));
      }
    }
  }

  const Problem& problem_;
  const Graph& graph_;
  std::vector<uint32_t> bit_;   // Per value; 0: takes no bytes, or state.
  std::vector<int> home_;       // Per value; -1: no state.
  std::vector<uint64_t> rank_;  // Per version of state.
  std::vector<uint64_t> version_count_;
  std::vector<int64_t> bytes_;            // Per bit.
  std::vector<uint32_t> reads_, writes_;  // Per node.
  std::vector<std::vector<Effect>> effects_;
  uint32_t wanted_ = 0;
  std::unordered_map<uint64_t, int> best_;
  std::vector<std::vector<uint64_t>> queue_;  // States by cost.
};

}  // namespace

std::optional<int> fastest_without_copies(const Problem& problem) {
  return Search(problem).run();
}

}  // namespace olm2::oracle
