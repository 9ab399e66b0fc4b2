#include "copy_oracle.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_set>
#include <vector>

#include "core/error.h"
#include "planner/in_place.h"

namespace olm2::oracle {
namespace {

using Mask = uint32_t;  // One bit per block of a value.

constexpr int kNobody = -1;

struct State {
  Mask device = 0;
  Mask host = 0;
  int done = 0;           // Nodes [0, done) have run or run now.
  int running = kNobody;  // A node, with its choice of what it overwrites.
  int way = 0;
  int seconds_left = 0;

  uint64_t packed() const {
    return device | uint64_t{host} << 16U | static_cast<uint64_t>(done) << 32U |
           static_cast<uint64_t>(running + 1) << 40U | static_cast<uint64_t>(way) << 48U |
           static_cast<uint64_t>(seconds_left) << 52U;
  }
};

// What a node takes while it runs, and what it leaves, for one choice of inputs overwritten.
struct Way {
  int more_blocks = 0;
  Mask gone = 0;
};

struct Work {
  Mask reads = 0;
  Mask writes = 0;
  int seconds = 0;
  std::vector<Way> ways;
};

int count(Mask mask) {
  return std::popcount(mask);
}

// Calls `use` with every subset of `from` of `size` bits.
void for_subsets(Mask from, int size, const std::function<void(Mask)>& use, Mask chosen = 0) {
  if (size == 0) {
    use(chosen);
    return;
  }
  while (count(from) >= size) {
    const Mask lowest = from & (~from + 1);
    from &= ~lowest;
    for_subsets(from, size - 1, use, chosen | lowest);
  }
}

class Search {
 public:
  Search(const Problem& problem, const CopySearch& asked)
      : problem_(problem),
        graph_(*problem.graph),
        block_bytes_(asked.block_bytes > 0 ? asked.block_bytes : problem.alignment),
        may_recompute_(asked.may_recompute),
        leaves_once_(asked.leaves_once) {
    device_blocks_ = blocks(problem.budget[index_of(Tier::device)]);
    host_blocks_ = blocks(problem.budget[index_of(Tier::host)]);
    number_blocks();
    for (size_t n = 0; n < graph_.nodes().size(); ++n) work_.push_back(work_of(n));
    if (leaves_once_) find_turn();
  }

  std::optional<int> run() {
    State start;
    for (size_t v = 0; v < mask_.size(); ++v) {
      if (!graph_.values()[v].producer.valid()) start.device |= mask_[v];
    }
    if (count(start.device) > device_blocks_) return std::nullopt;
    reach(start);
    for (int time = 0; !next_.empty(); ++time) {
      const std::vector<State> now = std::move(next_);
      next_.clear();
      for (const State& state : now) {
        if (is_end(state)) return time;
      }
      for (const State& state : now) start_something(state);
    }
    return std::nullopt;
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }
  int blocks(int64_t bytes) const {
    return static_cast<int>(std::min<int64_t>(bytes / block_bytes_, 1000));
  }

  void number_blocks() {
    int next = 0;
    mask_.assign(graph_.values().size(), 0);
    for (size_t v = 0; v < mask_.size(); ++v) {
      const int64_t bytes = graph_.values()[v].type.bytes();
      ensure(!graph_.values()[v].home.valid() && bytes % block_bytes_ == 0,
             "values of broken blocks");
      for (int b = 0; b < blocks(bytes); ++b) mask_[v] |= Mask{1} << static_cast<unsigned>(next++);
    }
    ensure(next <= 16, "too many blocks to search");
    for (const ValueId result : problem_.results) wanted_ |= mask_[at(result.index)];
  }

  Work work_of(size_t n) const {
    const Node& node = graph_.nodes()[n];
    Work work{
        .reads = 0, .writes = 0, .seconds = static_cast<int>(problem_.seconds[n]), .ways = {}};
    for (const ValueId input : node.inputs) work.reads |= mask_[at(input.index)];
    for (const ValueId output : node.outputs) work.writes |= mask_[at(output.index)];
    const int scratch = blocks(problem_.workspace[n] + block_bytes_ - 1);
    work.ways.push_back({.more_blocks = count(work.writes) + scratch, .gone = 0});
    for (const InPlace pair : possible_in_place(problem_, node)) {  // One output: one at a time.
      ensure(node.outputs.size() == 1, "several outputs in place");
      work.ways.push_back(
          {.more_blocks = scratch, .gone = mask_[at(node.inputs[at(pair.input)].index)]});
    }
    return work;
  }

  void find_turn() {
    for (size_t n = 0; n < work_.size(); ++n) {
      if (graph_.nodes()[n].phase == Phase::forward) turn_ = static_cast<int>(n);
    }
    last_forward_read_.assign(16, -1);
    if (may_recompute_) read_after_turn_ = ~Mask{0};
    for (size_t n = 0; n < work_.size(); ++n) {
      if (static_cast<int>(n) > turn_) {
        read_after_turn_ |= work_[n].reads;
        continue;
      }
      for (size_t b = 0; b < last_forward_read_.size(); ++b) {
        if ((work_[n].reads >> b & 1U) != 0) last_forward_read_[b] = static_cast<int>(n);
      }
    }
  }

  bool is_turn_over(const State& state) const {
    return state.done > turn_ + 1 || (state.done == turn_ + 1 && state.running != turn_);
  }

  // Blocks that may start their way out.
  Mask may_leave(const State& state) const {
    if (!leaves_once_) return ~Mask{0};
    return is_turn_over(state) ? 0 : read_after_turn_;
  }

  // Blocks that may be given up: those without a copy for good, the others as they leave.
  Mask may_go(const State& state) const {
    if (!leaves_once_) return ~Mask{0};
    Mask mask = ~state.host;
    for (size_t b = 0; b < last_forward_read_.size(); ++b) {
      const int reader = last_forward_read_[b];
      if (state.done > reader && state.running != reader) mask |= Mask{1} << b;
    }
    return mask;
  }

  bool is_end(const State& state) const {
    return at(state.done) == work_.size() && state.running == kNobody &&
           (state.device & wanted_) == wanted_;
  }

  void reach(const State& state) {
    if (seen_.insert(state.packed()).second) next_.push_back(state);
  }

  void start_something(const State& state) {
    copy_out(state);  // And start nothing.
    if (state.running != kNobody) return;
    const int last = std::min(state.done, static_cast<int>(work_.size()) - 1);
    for (int n = may_recompute_ ? 0 : state.done; n <= last; ++n) {
      const Work& work = work_[at(n)];
      if ((state.device & work.reads) != work.reads) continue;
      for (size_t way = 0; way < work.ways.size(); ++way) {
        State begun = state;
        begun.device &= ~work.writes;
        if (leaves_once_ && is_turn_over(state)) begun.host &= ~work.reads;
        begun.running = n;
        begun.way = static_cast<int>(way);
        begun.seconds_left = work.seconds;
        if (n == state.done) ++begun.done;
        copy_out(begun);
      }
    }
  }

  // Which block goes out during the next second, if any.
  void copy_out(const State& state) {
    copy_in(state, 0);
    for (Mask left = state.device & ~state.host & may_leave(state); left != 0; left &= left - 1) {
      const Mask block = left & (~left + 1);
      if (count(state.host) < host_blocks_) {
        copy_in(state, block);
        continue;
      }
      if (leaves_once_) continue;
      for_subsets(state.host, std::min(1, host_blocks_), [&](Mask dropped) {
        if (dropped == 0) return;
        State less = state;
        less.host &= ~dropped;
        copy_in(less, block);
      });
    }
  }

  // Which comes in, if any; then what is dropped to make room.
  void copy_in(const State& state, Mask out) {
    Mask allowed = state.host & ~state.device;
    if (state.running != kNobody) allowed &= ~work_[at(state.running)].writes;
    make_room(state, out, 0);
    for (; allowed != 0; allowed &= allowed - 1) {
      make_room(state, out, allowed & (~allowed + 1));
    }
  }

  void make_room(const State& state, Mask out, Mask in) {
    int needed = count(state.device) + count(in) - device_blocks_;
    Mask busy = out;
    if (state.running != kNobody) {
      const Work& work = work_[at(state.running)];
      needed += work.ways[at(state.way)].more_blocks;
      busy |= work.reads;
    }
    for_subsets(state.device & ~busy & may_go(state), std::max(needed, 0), [&](Mask dropped) {
      State after = state;
      after.device = (state.device & ~dropped) | in;
      after.host |= out;
      if (leaves_once_) after.host &= ~in;
      pass_second(after);
    });
  }

  void pass_second(State state) {
    if (state.running != kNobody && --state.seconds_left == 0) {
      const Work& work = work_[at(state.running)];
      state.device = (state.device & ~work.ways[at(state.way)].gone) | work.writes;
      state.running = kNobody;
      state.way = 0;
    }
    reach(state);
  }

  const Problem& problem_;
  const Graph& graph_;
  int64_t block_bytes_ = 0;
  bool may_recompute_ = true;
  bool leaves_once_ = false;
  int turn_ = 0;                        // The last forward node.
  std::vector<int> last_forward_read_;  // Per block: a node; -1: nothing reads it before the turn.
  Mask read_after_turn_ = 0;
  int device_blocks_ = 0;
  int host_blocks_ = 0;
  std::vector<Mask> mask_;  // Per value.
  std::vector<Work> work_;  // Per node.
  Mask wanted_ = 0;
  std::unordered_set<uint64_t> seen_;
  std::vector<State> next_;
};

}  // namespace

std::optional<int> fastest_with_copies(const Problem& problem, const CopySearch& asked) {
  return Search(problem, asked).run();
}

}  // namespace olm2::oracle
