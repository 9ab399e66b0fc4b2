#include "planner/packing_layout.h"

namespace olm2 {

Order any_order(std::span<const BoxGroup> groups) {
  Order order;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].fixed_at) order.push_back(g);
  }
  return order;
}

int64_t top_of(const BoxGroup& group, int64_t offset) {
  int64_t top = offset;
  for (const Box& box : group.boxes) top = std::max(top, offset + box.offset + box.bytes);
  return top;
}

uint64_t RandomNumbers::below(uint64_t limit) {
  state_ += 0x9E3779B97F4A7C15U;
  uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return (z ^ (z >> 31U)) % limit;
}

Layout::Layout(std::span<const BoxGroup> groups, int64_t base)
    : groups_(groups), base_(base), packing_{std::vector<int64_t>(groups.size(), base), base} {
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].fixed_at) put(g, *groups[g].fixed_at);
  }
}

const std::vector<Forbidden>& Layout::forbidden(const BoxGroup& group) {
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
  if (group.boxes.size() > 1) std::ranges::sort(forbidden_, {}, &Forbidden::begin);
  return forbidden_;
}

int64_t Layout::find(const BoxGroup& group, Fit fit) {
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

void Layout::put(size_t g, int64_t offset) {
  packing_.offset[g] = offset;
  for (Box box : groups_[g].boxes) {
    if (box.bytes == 0) continue;
    box.offset += offset;
    packing_.top = std::max(packing_.top, box.offset + box.bytes);
    placed_.insert(std::ranges::upper_bound(placed_, box.offset, {}, &Box::offset), box);
  }
}

Packing pack_in_order(std::span<const BoxGroup> groups, int64_t base, const Order& order, Fit fit,
                      int64_t limit) {
  Layout layout(groups, base);
  for (const size_t g : order) {
    layout.put(g, layout.find(groups[g], fit));
    if (layout.packing().top > limit) break;
  }
  return std::move(layout.packing());
}

}  // namespace olm2
