#include "planner/packing_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "planner/packing_layout.h"

namespace olm2 {
namespace {

class EjectionSearch {
 public:
  EjectionSearch(std::span<const BoxGroup> groups, const Packing& start, int64_t base)
      : groups_(groups), base_(base), offset_(start.offset), extents_(groups.size()) {
    is_in_.assign(groups.size(), true);
    for (size_t g = 0; g < groups.size(); ++g) {
      Extent& extent = extents_[g];
      double area = 0;
      for (const Box& box : groups[g].boxes) {
        extent.first = std::min(extent.first, box.first);
        extent.last = std::max(extent.last, box.last);
        extent.height = std::max(extent.height, box.offset + box.bytes);
        area += static_cast<double>(box.bytes) * (static_cast<double>(box.last) - box.first + 1);
      }
      // Between counting groups and counting bytes times moments; measured best.
      extent.size = std::sqrt(area);
      extent.weight = extent.size;
    }
  }

  // Tries to bring everything below `ceiling`.
  bool run(int64_t ceiling, uint64_t steps) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!groups_[g].fixed_at && offset_[g] + extents_[g].height > ceiling) take_out(g);
    }
    sort_waiting();
    for (step_ = 0; step_ < steps && !waiting_.empty(); ++step_) {
      const size_t g = waiting_.back();
      waiting_.pop_back();
      if (!put_back(g, ceiling - extents_[g].height)) return false;
    }
    return waiting_.empty();
  }

  // One group after the other, from below, sinks as far as the others let it.
  void sink() {
    Order order = any_order(groups_);
    std::ranges::stable_sort(order, {}, [&](size_t g) { return offset_[g]; });
    step_ = 0;
    for (const size_t g : order) {
      is_in_[g] = false;
      find_conflicts(g, offset_[g]);
      offset_[g] = lightest_offset(offset_[g]).first;
      is_in_[g] = true;
    }
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
    int32_t first = std::numeric_limits<int32_t>::max();
    int32_t last = std::numeric_limits<int32_t>::min();
    int64_t height = 0;
    double size = 0;
    double weight = 0;  // Grows.
  };
  // Offsets in between collide with `group`.
  struct Conflict {
    int64_t begin = 0;
    int64_t end = 0;
    size_t group = 0;
  };
  struct Edge {
    int64_t offset = 0;
    int change = 0;  // Of the number of conflicts with `group`.
    size_t group = 0;
    auto operator<=>(const Edge&) const = default;
  };

  void take_out(size_t g) {
    is_in_[g] = false;
    waiting_.push_back(g);
  }
  // The heaviest is put back first.
  void sort_waiting() {
    std::ranges::sort(waiting_, {}, [&](size_t g) { return std::pair(extents_[g].weight, g); });
  }

  // What keeps `g` from offsets from the base to `highest`; disjoint for each other group.
  void find_conflicts(size_t g, int64_t highest) {
    conflicts_.clear();
    const Extent& mine = extents_[g];
    for (size_t other = 0; other < groups_.size(); ++other) {
      const Extent& theirs = extents_[other];
      if (!is_in_[other] || theirs.last < mine.first || mine.last < theirs.first) continue;
      const size_t begin_of_other = conflicts_.size();
      for (const Box& a : groups_[g].boxes) {
        for (const Box& b : groups_[other].boxes) {
          if (b.last < a.first || a.last < b.first || a.bytes == 0 || b.bytes == 0) continue;
          const int64_t begin = offset_[other] + b.offset - a.offset - a.bytes;
          const int64_t end = begin + a.bytes + b.bytes;
          if (begin < highest && end > base_) conflicts_.push_back({begin, end, other});
        }
      }
      merge_conflicts(begin_of_other);
    }
  }

  // Those from the index `first` on, of one group, where they overlap.
  void merge_conflicts(size_t first) {
    if (conflicts_.size() < first + 2) return;
    const auto begin = conflicts_.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(begin, conflicts_.end(),
              [](const Conflict& a, const Conflict& b) { return a.begin < b.begin; });
    size_t last = first;
    for (size_t k = first + 1; k < conflicts_.size(); ++k) {
      if (conflicts_[k].begin < conflicts_[last].end) {
        conflicts_[last].end = std::max(conflicts_[last].end, conflicts_[k].end);
      } else {
        conflicts_[++last] = conflicts_[k];
      }
    }
    conflicts_.resize(last + 1);
  }

  // Whether there is an offset of at most `highest` that collides with nothing fixed.
  bool put_back(size_t g, int64_t highest) {
    find_conflicts(g, highest);
    const auto [offset, weight] = lightest_offset(highest);
    if (weight < 0) return false;
    offset_[g] = offset;
    is_in_[g] = true;
    if (weight == 0) return true;
    extents_[g].weight += extents_[g].size;
    for (const Conflict& conflict : conflicts_) {
      const bool collides = conflict.begin < offset && offset < conflict.end;
      if (collides && is_in_[conflict.group]) take_out(conflict.group);
    }
    sort_waiting();
    return true;
  }

  // The offset from the base to `highest` whose conflicts weigh least, and that weight; -1: none.
  std::pair<int64_t, double> lightest_offset(int64_t highest) {
    edges_.clear();
    for (const Conflict& conflict : conflicts_) {
      edges_.push_back({conflict.begin, 1, conflict.group});
      edges_.push_back({conflict.end, -1, conflict.group});
    }
    edges_.push_back({base_, 0, 0});  // A place to look at, like every edge.
    std::ranges::sort(edges_);        // What ends at an offset does so before others begin there.
    std::pair<int64_t, double> best = {0, -1.0};
    double weight = 0;
    int fixed = 0;      // Conflicts that cannot be pushed out.
    int colliding = 0;  // Groups.
    uint64_t ties = 0;
    const bool any_tie = step_ / kTieSteps % 2 == 1;
    const auto look_at = [&](int64_t offset) {
      if (offset < base_ || offset > highest || fixed > 0) return;
      const double here = colliding == 0 ? 0 : weight;
      if (best.second < 0 || here < best.second) {
        best = {offset, here};
        ties = 1;
      } else if (here == best.second && any_tie && random_.below(++ties) == 0) {
        best.first = offset;
      }
    };
    for (size_t e = 0; e < edges_.size(); ++e) {
      const Edge& edge = edges_[e];
      if (edge.offset > highest) break;
      const bool is_first_rise =
          edge.change >= 0 && (e == 0 || edges_[e - 1] < Edge{edge.offset, 0, 0});
      if (is_first_rise) look_at(edge.offset);
      if (edge.change == 0) continue;
      colliding += edge.change;
      weight += edge.change * extents_[edge.group].weight;
      if (groups_[edge.group].fixed_at) fixed += edge.change;
      const bool is_last_fall =
          edge.change < 0 && (e + 1 == edges_.size() || edges_[e + 1].offset > edge.offset);
      if (is_last_fall) look_at(edge.offset);
    }
    return best;
  }

  static constexpr uint64_t kTieSteps = 256;  // The lowest of equals, then any of them, by turns.

  std::span<const BoxGroup> groups_;
  int64_t base_;
  std::vector<int64_t> offset_;
  std::vector<Extent> extents_;
  std::vector<bool> is_in_;
  std::vector<size_t> waiting_;  // Taken out; the next one to put back is the last.
  std::vector<Conflict> conflicts_;
  std::vector<Edge> edges_;
  RandomNumbers random_{1};
  uint64_t step_ = 0;
};

}  // namespace

void lower_top(std::span<const BoxGroup> groups, int64_t base, int64_t goal, int effort,
               Packing& best) {
  constexpr int kRounds = 6;
  constexpr uint64_t kWork = 4'000'000;  // Steps times boxes, about.
  constexpr int64_t kNear = 2000;        // A share of the height not worth looking for.
  uint64_t boxes = 1;
  for (const BoxGroup& group : groups) boxes += group.boxes.size();
  const uint64_t steps =
      std::clamp<uint64_t>(kWork / boxes, 100, 4000) / kRounds * static_cast<uint64_t>(effort);
  int64_t failed = base;
  int64_t ceiling = goal;
  for (int round = 0; round < kRounds && best.top > goal; ++round) {
    EjectionSearch search(groups, best, base);
    if (search.run(ceiling, steps)) {
      search.sink();
      best = search.packing();
    } else {
      failed = ceiling;
    }
    ceiling = std::max(goal, failed + (best.top - failed) / 2);
    if (best.top - failed <= best.top / kNear) break;
  }
}

}  // namespace olm2
