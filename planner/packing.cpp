#include "planner/packing.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>

namespace olm2 {
namespace {

enum class Fit : uint8_t { first, best };
using Order = std::vector<size_t>;  // Groups that have a choice, in the order of placing.

Order any_order(std::span<const BoxGroup> groups) {
  Order order;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].fixed_at) order.push_back(g);
  }
  return order;
}

// Offsets x of a group with begin < x < end collide with something placed.
struct Forbidden {
  int64_t begin = 0;
  int64_t end = 0;
};

// splitmix64 (Steele et al. 2014): the same numbers on every machine.
class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t limit) {
    state_ += 0x9E3779B97F4A7C15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return (z ^ (z >> 31U)) % limit;
  }

 private:
  uint64_t state_;
};

// Boxes that have an address, sorted by it.
class Layout {
 public:
  Layout(std::span<const BoxGroup> groups, int64_t base)
      : groups_(groups), base_(base), packing_{std::vector<int64_t>(groups.size(), base), base} {
    for (size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].fixed_at) put(g, *groups[g].fixed_at);
    }
  }

  // Where the group must not begin, by ascending `begin`.
  const std::vector<Forbidden>& forbidden(const BoxGroup& group) {
    forbidden_.clear();
    for (const Box& box : group.boxes) {
      if (box.bytes == 0) continue;
      for (const Box& other : placed_) {
        if (other.last < box.first || box.last < other.first) continue;
        const int64_t begin = other.offset - box.offset - box.bytes;
        const int64_t end = other.offset + other.bytes - box.offset;
        if (end > base_) forbidden_.push_back({begin, end});
      }
    }
    // One box: the placed ones are in order already.
    std::ranges::stable_sort(forbidden_, {}, &Forbidden::begin);
    return forbidden_;
  }

  // `visit(from, to)` for each range of offsets where the group may begin, ascending.
  template <typename Visit>
  void for_gaps(const BoxGroup& group, const Visit& visit) {
    int64_t from = base_;
    for (const Forbidden& no : forbidden(group)) {
      if (no.begin >= from && !visit(from, no.begin)) return;
      from = std::max(from, no.end);
    }
    visit(from, std::numeric_limits<int64_t>::max());
  }

  int64_t find(const BoxGroup& group, Fit fit) {
    int64_t best = base_;
    int64_t slack = -1;
    for_gaps(group, [&](int64_t from, int64_t to) {
      if (slack < 0 || to - from < slack) {
        best = from;
        slack = to - from;
      }
      return fit == Fit::best;
    });
    return best;
  }

  void put(size_t g, int64_t offset) {
    packing_.offset[g] = offset;
    for (Box box : groups_[g].boxes) {
      if (box.bytes == 0) continue;
      box.offset += offset;
      packing_.top = std::max(packing_.top, box.offset + box.bytes);
      placed_.insert(std::ranges::upper_bound(placed_, box.offset, {}, &Box::offset), box);
    }
  }
  Packing& packing() { return packing_; }

 private:
  std::span<const BoxGroup> groups_;
  int64_t base_;
  std::vector<Box> placed_;
  std::vector<Forbidden> forbidden_;
  Packing packing_;
};

Packing pack_in_order(std::span<const BoxGroup> groups, int64_t base, const Order& order, Fit fit) {
  Layout layout(groups, base);
  for (const size_t g : order) layout.put(g, layout.find(groups[g], fit));
  return std::move(layout.packing());
}

// What a group is sorted by.
struct GroupSize {
  int64_t bytes = 0;  // Of all boxes.
  int32_t first = 0;
  int32_t last = 0;
  int64_t length = 0;  // Moments from first to last.
  double area = 0;
  bool at_peak = false;  // In use at the busiest moment.
};

std::vector<int64_t> live_bytes(std::span<const BoxGroup> groups, int32_t& first_moment) {
  int32_t first = 0;
  int32_t last = 0;
  for (const BoxGroup& group : groups) {
    for (const Box& box : group.boxes) {
      first = std::min(first, box.first);
      last = std::max(last, box.last);
    }
  }
  std::vector<int64_t> live(static_cast<size_t>(last - first) + 2, 0);
  for (const BoxGroup& group : groups) {
    for (const Box& box : group.boxes) {
      live[static_cast<size_t>(box.first - first)] += box.bytes;
      live[static_cast<size_t>(box.last - first) + 1] -= box.bytes;
    }
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  first_moment = first;
  return live;
}

std::vector<GroupSize> sizes_of(std::span<const BoxGroup> groups) {
  int32_t moment = 0;
  const std::vector<int64_t> live = live_bytes(groups, moment);
  moment += static_cast<int32_t>(std::ranges::max_element(live) - live.begin());
  std::vector<GroupSize> sizes;
  for (const BoxGroup& group : groups) {
    GroupSize size{.first = std::numeric_limits<int32_t>::max(),
                   .last = std::numeric_limits<int32_t>::min()};
    for (const Box& box : group.boxes) {
      const int64_t length = int64_t{box.last} - box.first + 1;
      size.bytes += box.bytes;
      size.first = std::min(size.first, box.first);
      size.last = std::max(size.last, box.last);
      size.area += static_cast<double>(box.bytes) * static_cast<double>(length);
      size.at_peak = size.at_peak || (box.first <= moment && moment <= box.last);
    }
    size.length = int64_t{size.last} - size.first + 1;
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<Order> good_orders(std::span<const BoxGroup> groups) {
  const std::vector<GroupSize> sizes = sizes_of(groups);
  using Before = std::function<bool(const GroupSize&, const GroupSize&)>;
  const std::array<Before, 6> rules = {
      // Long lives below, short ones above: exact where lives nest, as those of training do.
      [](const GroupSize& a, const GroupSize& b) {
        return std::tuple(-a.length, -a.bytes, a.first) < std::tuple(-b.length, -b.bytes, b.first);
      },
      [](const GroupSize& a, const GroupSize& b) {
        return std::tuple(-a.bytes, -a.length, a.first) < std::tuple(-b.bytes, -b.length, b.first);
      },
      [](const GroupSize& a, const GroupSize& b) {
        return std::tuple(-a.area, a.first) < std::tuple(-b.area, b.first);
      },
      [](const GroupSize& a, const GroupSize& b) {
        return std::tuple(!a.at_peak, -a.length, -a.bytes) <
               std::tuple(!b.at_peak, -b.length, -b.bytes);
      },
      [](const GroupSize& a, const GroupSize& b) {
        return std::tuple(!a.at_peak, -a.bytes, -a.length) <
               std::tuple(!b.at_peak, -b.bytes, -b.length);
      },
      [](const GroupSize& a, const GroupSize& b) {
        return std::tuple(a.first, -a.length, -a.bytes) < std::tuple(b.first, -b.length, -b.bytes);
      }};
  std::vector<Order> orders;
  for (const Before& before : rules) {
    Order order = any_order(groups);
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return before(sizes[a], sizes[b]); });
    orders.push_back(std::move(order));
  }
  return orders;
}

int64_t top_of(const BoxGroup& group, int64_t offset) {
  int64_t top = offset;
  for (const Box& box : group.boxes) top = std::max(top, offset + box.offset + box.bytes);
  return top;
}

struct Attempt {
  Order order;
  Fit fit = Fit::first;
  Packing packing;
};

// Pulls a group that touches the top forward in the order, or swaps two groups, and keeps what is
// not worse.  The number of tries depends on sizes alone, never on the clock.
void improve(std::span<const BoxGroup> groups, int64_t base, int64_t goal, Attempt& best) {
  constexpr uint64_t kWork = 5'000'000;  // Pairs of boxes compared, about.
  uint64_t boxes = 1;
  for (const BoxGroup& group : groups) boxes += group.boxes.size();
  const uint64_t tries = std::clamp<uint64_t>(2 * kWork / (boxes * boxes), 8, 2000);
  RandomNumbers random(boxes);
  Attempt current = best;
  for (uint64_t i = 0; i < tries && best.packing.top > goal; ++i) {
    Attempt next{.order = current.order, .fit = Fit::first, .packing = {}};
    std::vector<size_t> at_top;  // Positions in the order.
    for (size_t p = 0; p < next.order.size(); ++p) {
      const size_t g = next.order[p];
      if (top_of(groups[g], current.packing.offset[g]) == current.packing.top) at_top.push_back(p);
    }
    const bool any = at_top.empty() || random.below(4) == 0;
    const size_t from = any ? random.below(next.order.size()) : at_top[random.below(at_top.size())];
    const size_t to = random.below(from + 1);
    if (random.below(4) == 0) {
      std::swap(next.order[from], next.order[random.below(next.order.size())]);
    } else {
      const auto begin = next.order.begin();
      std::rotate(begin + static_cast<std::ptrdiff_t>(to),
                  begin + static_cast<std::ptrdiff_t>(from),
                  begin + static_cast<std::ptrdiff_t>(from) + 1);
    }
    next.packing = pack_in_order(groups, base, next.order, next.fit);
    if (next.packing.top > current.packing.top) continue;
    current = std::move(next);
    if (current.packing.top < best.packing.top) best = current;
  }
}

}  // namespace

int64_t max_live(std::span<const BoxGroup> groups) {
  int32_t first_moment = 0;
  const std::vector<int64_t> live = live_bytes(groups, first_moment);
  return *std::ranges::max_element(live);
}

int64_t least_top(std::span<const BoxGroup> groups, int64_t base) {
  std::vector<BoxGroup> above(groups.begin(), groups.end());
  int64_t highest = base;
  for (BoxGroup& group : above) {
    if (!group.fixed_at) continue;
    highest = std::max(highest, top_of(group, *group.fixed_at));
    for (Box& box : group.boxes) {
      const int64_t begin = *group.fixed_at + box.offset;
      box.bytes = std::max<int64_t>(0, begin + box.bytes - std::max(begin, base));
    }
  }
  return std::max(highest, base + max_live(above));
}

Packing pack(std::span<const BoxGroup> groups, int64_t base) {
  const int64_t goal = least_top(groups, base);
  Attempt best;
  best.packing.top = std::numeric_limits<int64_t>::max();
  for (const Order& order : good_orders(groups)) {
    for (const Fit fit : {Fit::first, Fit::best}) {
      Packing packing = pack_in_order(groups, base, order, fit);
      if (packing.top < best.packing.top) best = {order, fit, std::move(packing)};
      if (best.packing.top == goal) return std::move(best.packing);
    }
  }
  improve(groups, base, goal, best);
  return std::move(best.packing);
}

Packing pack_at_random(std::span<const BoxGroup> groups, int64_t base, int64_t alignment,
                       uint64_t seed) {
  RandomNumbers random(seed);
  Order order = any_order(groups);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  Layout layout(groups, base);
  const int64_t spread = std::max(max_live(groups), alignment);
  for (const size_t g : order) {
    std::vector<int64_t> choices;
    layout.for_gaps(groups[g], [&](int64_t from, int64_t to) {
      const int64_t width = std::min(to - from, spread) / alignment;
      const auto slot = static_cast<int64_t>(random.below(static_cast<uint64_t>(width) + 1));
      choices.push_back(from + slot * alignment);
      return true;
    });
    layout.put(g, choices[random.below(choices.size())]);
  }
  return std::move(layout.packing());
}

}  // namespace olm2
