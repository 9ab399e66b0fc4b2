#include "planner/packing.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "planner/packing_layout.h"
#include "planner/packing_search.h"

namespace olm2 {
namespace {

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

struct Attempt {
  Order order;
  Fit fit = Fit::first;
  Packing packing;
};

void try_orders(std::span<const BoxGroup> groups, int64_t base, int64_t goal, Attempt& best) {
  for (const Order& order : good_orders(groups)) {
    for (const Fit fit : {Fit::first, Fit::best}) {
      if (best.packing.top <= goal) return;
      Packing packing = pack_in_order(groups, base, order, fit, best.packing.top);
      if (packing.top < best.packing.top) best = {order, fit, std::move(packing)};
    }
  }
}

// Pulls a group that touches the top forward in the order, or swaps two groups, and keeps what is
// not worse.  For few boxes: every try places all of them.
void improve(std::span<const BoxGroup> groups, int64_t base, int64_t goal, int effort,
             Attempt& best) {
  constexpr uint64_t kWork = 5'000'000;  // Pairs of boxes compared, about.
  uint64_t boxes = 1;
  for (const BoxGroup& group : groups) boxes += group.boxes.size();
  const uint64_t tries =
      std::min<uint64_t>(kWork / (boxes * boxes), 1000) * static_cast<uint64_t>(effort);
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
    next.packing = pack_in_order(groups, base, next.order, next.fit, current.packing.top);
    if (next.packing.top > current.packing.top) continue;
    current = std::move(next);
    if (current.packing.top < best.packing.top) best = current;
  }
}

Packing seek(std::span<const BoxGroup> groups, int64_t base, int64_t goal, int effort) {
  Attempt best;
  best.packing.top = std::numeric_limits<int64_t>::max();
  try_orders(groups, base, goal, best);
  if (effort > 0 && best.packing.top > goal) {
    improve(groups, base, goal, effort, best);
    lower_top(groups, base, goal, effort, best.packing);
  }
  return std::move(best.packing);
}

// As if what has no choice were never free: searches may profit from having fewer bytes to use.  So
// it never costs bytes that some are free for a while.  Nothing if that cannot be below `limit`.
std::optional<Packing> seek_above_fixed(std::span<const BoxGroup> groups, int64_t base,
                                        const PackOptions& options, int64_t limit) {
  std::vector<BoxGroup> others;
  int64_t above = base;
  for (const BoxGroup& group : groups) {
    if (!group.fixed_at) {
      others.push_back(group);
    } else {
      above = std::max(above, top_of(group, *group.fixed_at));
    }
  }
  const int64_t goal = std::max(least_top(others, above), options.enough);
  if (above == base || goal >= limit) return std::nullopt;
  const Packing found = seek(others, above, goal, options.effort);
  Packing packing{.offset = {}, .top = found.top};
  size_t next = 0;
  for (const BoxGroup& group : groups) {
    packing.offset.push_back(group.fixed_at ? *group.fixed_at : found.offset[next++]);
  }
  return packing;
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

Packing pack(std::span<const BoxGroup> groups, int64_t base, const PackOptions& options) {
  const int64_t goal = std::max(least_top(groups, base), options.enough);
  if (!options.start.empty()) {
    const int64_t ceiling = options.enough > base ? options.enough : goal;
    return move_few(groups, base, ceiling, options.effort, options.start);
  }
  Packing best = seek(groups, base, goal, options.effort);
  if (best.top > goal) {
    std::optional<Packing> other = seek_above_fixed(groups, base, options, best.top);
    if (other && other->top < best.top) best = std::move(*other);
  }
  return best;
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
