#include "planner/packing_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "planner/packing_layout.h"

namespace olm2 {
namespace {

// Numbers 0..n-1 by a key of theirs.  Keys change one at a time and not far, and few of the numbers
// are wanted in order: the wanted ones are marked by rank, and read as marked.
class Ranking {
 public:
  void begin(std::vector<int64_t> keys) {
    keys_ = std::move(keys);
    order_.resize(keys_.size());
    std::iota(order_.begin(), order_.end(), uint32_t{0});
    std::ranges::stable_sort(order_, {}, [&](uint32_t i) { return keys_[i]; });
    rank_.resize(keys_.size());
    for (uint32_t r = 0; r < order_.size(); ++r) rank_[order_[r]] = r;
    marks_.assign(keys_.size() / 64 + 1, 0);
  }
  int64_t key(uint32_t i) const { return keys_[i]; }

  void change(uint32_t i, int64_t key) {
    keys_[i] = key;
    uint32_t r = rank_[i];
    for (; r + 1 < order_.size() && keys_[order_[r + 1]] < key; ++r) set(r, order_[r + 1]);
    for (; r > 0 && keys_[order_[r - 1]] > key; --r) set(r, order_[r - 1]);
    set(r, i);
  }

  void mark(uint32_t i, bool is_wanted) {
    marks_[rank_[i] / 64] |= uint64_t{is_wanted} << (rank_[i] % 64);
  }
  // Those marked, in ascending order, each of them once; n when there are no more.
  uint32_t next() {
    while (word_ < marks_.size() && marks_[word_] == 0) ++word_;
    if (word_ == marks_.size()) return static_cast<uint32_t>(order_.size());
    const auto bit = static_cast<size_t>(std::countr_zero(marks_[word_]));
    marks_[word_] &= marks_[word_] - 1;
    return order_[word_ * 64 + bit];
  }
  void unmark_all() {
    std::ranges::fill(marks_, uint64_t{0});
    word_ = 0;
  }

 private:
  void set(uint32_t r, uint32_t i) {
    order_[r] = i;
    rank_[i] = r;
  }

  std::vector<int64_t> keys_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> rank_;
  std::vector<uint64_t> marks_;  // By rank.
  size_t word_ = 0;              // None is marked below.
};

class EjectionSearch {
 public:
  EjectionSearch(std::span<const BoxGroup> groups, int64_t base)
      : groups_(groups), base_(base), extents_(groups.size()), in_the_way_(groups.size(), 0) {
    for (size_t g = 0; g < groups.size(); ++g) {
      Extent& extent = extents_[g];
      extent.first_box = static_cast<uint32_t>(boxes_.size());
      double area = 0;
      for (const Box& box : groups[g].boxes) {
        extent.height = std::max(extent.height, box.offset + box.bytes);
        area += static_cast<double>(box.bytes) * (static_cast<double>(box.last) - box.first + 1);
        if (box.bytes > 0) boxes_.push_back({box, static_cast<uint32_t>(g)});
      }
      extent.last_box = static_cast<uint32_t>(boxes_.size());
      // Between counting groups and counting bytes times moments; measured best.
      constexpr double kScale = 1024;
      extent.size = 1 + static_cast<int64_t>(kScale * std::sqrt(area));
    }
    neighbours_.resize(boxes_.size());
  }

  // Tries to bring everything below `ceiling`, beginning with `start`, whose offsets may collide.
  // Where it fails, all is as when the least waited, and what waited lies on top.
  bool run(const std::vector<int64_t>& start, int64_t ceiling, uint64_t steps) {
    begin(start);
    Order order = any_order(groups_);
    std::ranges::stable_sort(order, {}, [&](size_t g) { return offset_[g]; });
    for (const size_t g : order) is_in_[g] = false;
    for (const size_t g : order) {
      is_in_[g] = offset_[g] >= base_ && offset_[g] + extents_[g].height <= ceiling && is_free(g);
      if (!is_in_[g]) waiting_.push_back(g);
    }
    sort_waiting();
    Moment best;
    if (waiting_.empty()) best.size = 0;
    for (step_ = 0; step_ < steps && !waiting_.empty(); ++step_) {
      const size_t g = waiting_.back();
      waiting_.pop_back();
      if (!put_back(g, ceiling - extents_[g].height)) break;
      const int64_t size = size_of_waiting();
      if (size < best.size) best = {size, offset_, waiting_};
    }
    if (best.size == 0) return true;
    if (best.offset.empty()) best = {0, offset_, {order.rbegin(), order.rend()}};
    put_on_top(best);
    return false;
  }

  // One group after the other, from below, sinks as far as the others let it.
  void sink() {
    Order order = any_order(groups_);
    std::ranges::stable_sort(order, {}, [&](size_t g) { return offset_[g]; });
    step_ = 0;
    for (const size_t g : order) move_to(g, lightest_offset(g, offset_[g]).first);
  }

  Packing packing() const {
    Packing packing{.offset = offset_, .top = base_};
    for (size_t g = 0; g < groups_.size(); ++g) {
      packing.top = std::max(packing.top, offset_[g] + extents_[g].height);
    }
    return packing;
  }

 private:
  struct Extent {
    uint32_t first_box = 0;
    uint32_t last_box = 0;  // One behind.
    int64_t height = 0;
    int64_t size = 0;
    int64_t weight = 0;  // Grows.
  };
  struct GroupBox {
    Box box;
    uint32_t group = 0;
  };
  // Where a box begins or ends to be in the way, as an offset of the group that looks for a place.
  struct Edge {
    int64_t offset = 0;
    int32_t change = 0;  // Of the number of boxes in the way.
    uint32_t group = 0;
  };

  // Of a search: where everything was, and what was out.
  struct Moment {
    int64_t size = std::numeric_limits<int64_t>::max();  // Of what waited.
    std::vector<int64_t> offset;
    std::vector<size_t> waiting;
  };

  void begin(const std::vector<int64_t>& start) {
    offset_ = start;
    is_in_.assign(groups_.size(), true);
    waiting_.clear();
    random_ = RandomNumbers(1);
    for (Extent& extent : extents_) extent.weight = extent.size;
    std::vector<int64_t> bottoms;
    std::vector<int64_t> tops;
    for (const GroupBox& b : boxes_) {
      bottoms.push_back(offset_[b.group] + b.box.offset);
      tops.push_back(bottoms.back() + b.box.bytes);
    }
    bottoms_.begin(std::move(bottoms));
    tops_.begin(std::move(tops));
  }

  void move_to(size_t g, int64_t offset) {
    offset_[g] = offset;
    for (uint32_t b = extents_[g].first_box; b < extents_[g].last_box; ++b) {
      const Box& box = boxes_[b].box;
      bottoms_.change(b, offset + box.offset);
      tops_.change(b, offset + box.offset + box.bytes);
    }
  }

  // Goes back to a moment; what waited then comes to lie as low as it goes, whatever the ceiling.
  void put_on_top(const Moment& moment) {
    constexpr int64_t kAnywhere = std::numeric_limits<int64_t>::max() / 4;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (offset_[g] != moment.offset[g]) move_to(g, moment.offset[g]);
    }
    is_in_.assign(groups_.size(), true);
    for (const size_t g : moment.waiting) is_in_[g] = false;
    step_ = 0;
    for (auto g = moment.waiting.rbegin(); g != moment.waiting.rend(); ++g) {
      move_to(*g, lightest_offset(*g, kAnywhere).first);
      is_in_[*g] = true;
    }
  }

  void take_out(size_t g) {
    is_in_[g] = false;
    waiting_.push_back(g);
  }
  int64_t size_of_waiting() const {
    int64_t size = 0;
    for (const size_t g : waiting_) size += extents_[g].size;
    return size;
  }
  // The heaviest is put back first.
  void sort_waiting() {
    std::ranges::sort(waiting_, {}, [&](size_t g) { return std::pair(extents_[g].weight, g); });
  }

  // Boxes of other groups that are in use at the same moments.
  const std::vector<uint32_t>& neighbours(uint32_t b) {
    std::vector<uint32_t>& found = neighbours_[b];
    if (!found.empty()) return found;
    const GroupBox& mine = boxes_[b];
    for (uint32_t other = 0; other < boxes_.size(); ++other) {
      const Box& box = boxes_[other].box;
      const bool meet = box.first <= mine.box.last && mine.box.first <= box.last;
      if (meet && boxes_[other].group != mine.group) found.push_back(other);
    }
    return found;
  }

  bool is_free(size_t g) {
    for (uint32_t b = extents_[g].first_box; b < extents_[g].last_box; ++b) {
      for (const uint32_t other : neighbours(b)) {
        const bool meet = bottoms_.key(b) < tops_.key(other) && bottoms_.key(other) < tops_.key(b);
        if (meet && is_in_[boxes_[other].group]) return false;
      }
    }
    return true;
  }

  // What is in the way of `g`, from below; at one offset what ends there comes first.
  void find_edges(size_t g, int64_t highest) {
    edges_.clear();
    const Extent& extent = extents_[g];
    for (uint32_t b = extent.first_box; b < extent.last_box; ++b) add_edges(b, highest);
    if (extent.last_box - extent.first_box < 2) return;
    std::ranges::sort(edges_, {},
                      [](const Edge& edge) { return std::pair(edge.offset, edge.change); });
  }

  // Those of one box of the group, in order.
  void add_edges(uint32_t b, int64_t highest) {
    for (const uint32_t other : neighbours(b)) {
      const bool is_in = is_in_[boxes_[other].group];
      bottoms_.mark(other, is_in);
      tops_.mark(other, is_in);
    }
    const Box& box = boxes_[b].box;
    const int64_t limit = highest + box.offset;
    const auto none = static_cast<uint32_t>(boxes_.size());
    uint32_t above = bottoms_.next();
    uint32_t below = tops_.next();
    while (below != none) {
      const bool begins = above != none && bottoms_.key(above) - box.bytes < tops_.key(below);
      const int64_t at = begins ? bottoms_.key(above) - box.bytes : tops_.key(below);
      if (at > limit) break;
      const uint32_t group = boxes_[begins ? above : below].group;
      edges_.push_back({at - box.offset, begins ? 1 : -1, group});
      if (begins) {
        above = bottoms_.next();
      } else {
        below = tops_.next();
      }
    }
    bottoms_.unmark_all();
    tops_.unmark_all();
  }

  // Whether there is an offset of at most `highest` that collides with nothing fixed.
  bool put_back(size_t g, int64_t highest) {
    const auto [offset, weight] = lightest_offset(g, highest);
    if (weight < 0) return false;
    move_to(g, offset);
    if (weight > 0) {
      extents_[g].weight += extents_[g].size;
      take_out_in_the_way(offset);
      sort_waiting();
    }
    is_in_[g] = true;
    return true;
  }

  void take_out_in_the_way(int64_t offset) {
    const auto is_before = [&](const Edge& edge) {
      return edge.offset < offset || (edge.offset == offset && edge.change < 0);
    };
    const auto end = std::ranges::partition_point(edges_, is_before);
    for (auto edge = edges_.begin(); edge != end; ++edge) in_the_way_[edge->group] += edge->change;
    for (auto edge = edges_.begin(); edge != end; ++edge) {
      if (in_the_way_[edge->group] > 0 && is_in_[edge->group]) take_out(edge->group);
      in_the_way_[edge->group] = 0;
    }
  }

  // The offset of `g` from the base to `highest` whose conflicts weigh least, and that weight; -1:
  // none.
  std::pair<int64_t, int64_t> lightest_offset(size_t g, int64_t highest) {
    find_edges(g, highest);
    const bool any_tie = step_ / kTieSteps % 2 == 1;
    std::pair<int64_t, int64_t> best = {0, -1};
    int64_t weight = 0;
    int fixed = 0;  // Boxes that cannot be pushed out.
    uint64_t ties = 0;
    const auto look_at = [&](int64_t offset) {
      if (fixed > 0) return;
      if (best.second < 0 || weight < best.second) {
        best = {offset, weight};
        ties = 1;
      } else if (weight == best.second && any_tie && random_.below(++ties) == 0) {
        best.first = offset;
      }
    };
    int64_t from = base_;  // Where the weight was last changed.
    bool is_new = true;    // It fell there, and nobody has looked.
    const auto look_at_new = [&] {
      if (is_new) look_at(from);
      is_new = false;
    };
    for (const Edge& edge : edges_) {
      if (edge.offset > from) {
        look_at_new();
        if (best.second == 0 && !any_tie) break;
        if (any_tie) look_at(edge.offset);
        from = edge.offset;
      }
      if (edge.change > 0 && edge.offset == from) look_at_new();
      is_new = is_new || edge.change < 0;
      int32_t& count = in_the_way_[edge.group];
      const bool changes = count == 0 || count + edge.change == 0;
      count += edge.change;
      if (!changes) continue;
      weight += edge.change * extents_[edge.group].weight;
      if (groups_[edge.group].fixed_at) fixed += edge.change;
    }
    if (from <= highest) look_at_new();
    for (const Edge& edge : edges_) in_the_way_[edge.group] = 0;
    return best;
  }

  static constexpr uint64_t kTieSteps = 256;  // The lowest of equals, then any of them, by turns.

  std::span<const BoxGroup> groups_;
  int64_t base_;
  std::vector<GroupBox> boxes_;
  std::vector<std::vector<uint32_t>> neighbours_;  // Per box; found when first asked for.
  Ranking bottoms_, tops_;                         // Of boxes.
  std::vector<int64_t> offset_;
  std::vector<Extent> extents_;
  std::vector<char> is_in_;
  std::vector<size_t> waiting_;      // Taken out; the next one to put back is the last.
  std::vector<Edge> edges_;          // Of the group looked at.
  std::vector<int32_t> in_the_way_;  // Per group, how many boxes; zero between two uses.
  RandomNumbers random_{1};
  uint64_t step_ = 0;
};

}  // namespace

namespace {

// Of one search; twice the effort, twice the steps.
uint64_t steps_for(std::span<const BoxGroup> groups, int effort) {
  constexpr uint64_t kWork = 700'000;  // Steps times boxes, about.
  uint64_t boxes = 1;
  for (const BoxGroup& group : groups) boxes += group.boxes.size();
  return std::clamp<uint64_t>(kWork / boxes, 16, 2666) * static_cast<uint64_t>(effort);
}

}  // namespace

void lower_top(std::span<const BoxGroup> groups, int64_t base, int64_t goal, int effort,
               Packing& best) {
  constexpr int kRounds = 6;
  constexpr int64_t kNear = 2000;  // A share of the height not worth looking for.
  const uint64_t steps = steps_for(groups, effort);
  EjectionSearch search(groups, base);
  int64_t failed = base;
  int64_t ceiling = goal;
  for (int round = 0; round < kRounds && best.top > goal; ++round) {
    if (!search.run(best.offset, ceiling, steps)) failed = ceiling;
    search.sink();
    Packing found = search.packing();
    if (found.top < best.top) best = std::move(found);
    ceiling = std::max(goal, failed + (best.top - failed) / 2);
    if (best.top - failed <= best.top / kNear) break;
  }
}

Packing move_few(std::span<const BoxGroup> groups, int64_t base, int64_t ceiling, int effort,
                 const std::vector<int64_t>& start) {
  EjectionSearch search(groups, base);
  search.run(start, ceiling, steps_for(groups, effort));
  return search.packing();
}

}  // namespace olm2
