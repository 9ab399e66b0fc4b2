// Groups at addresses, and where one more may lie.  Inside of packing only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planner/packing.h"

namespace olm2 {

enum class Fit : uint8_t { first, best };
using Order = std::vector<size_t>;  // Groups that have a choice, in the order of placing.

// All of them, as they come.
Order any_order(std::span<const BoxGroup> groups);

// End of the group's highest box if the group begins at `offset`.
int64_t top_of(const BoxGroup& group, int64_t offset);

// splitmix64 (Steele et al. 2014): the same numbers on every machine.
class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t limit);

 private:
  uint64_t state_;
};

// Offsets x of a group with begin < x < end collide with something placed.
struct Forbidden {
  int64_t begin = 0;
  int64_t end = 0;
};

// Boxes that have an address, sorted by it.  Begins with the groups that have no choice.
class Layout {
 public:
  Layout(std::span<const BoxGroup> groups, int64_t base);

  // `visit(from, to)` for each range of offsets where the group may begin, ascending, while it
  // returns true.
  template <typename Visit>
  void for_gaps(const BoxGroup& group, const Visit& visit) {
    int64_t from = base_;
    if (group.boxes.size() == 1 &&
        group.boxes[0].bytes > 0) {  // The placed ones are in order already.
      const Box& box = group.boxes[0];
      for (const Box& other : placed_) {
        if (other.last < box.first || box.last < other.first) continue;
        const int64_t begin = other.offset - box.offset - box.bytes;
        if (begin >= from && !visit(from, begin)) return;
        from = std::max(from, other.offset + other.bytes - box.offset);
      }
      visit(from, std::numeric_limits<int64_t>::max());
      return;
    }
    for (const Forbidden& no : forbidden(group)) {
      if (no.begin >= from && !visit(from, no.begin)) return;
      from = std::max(from, no.end);
    }
    visit(from, std::numeric_limits<int64_t>::max());
  }

  int64_t find(const BoxGroup& group, Fit fit);
  void put(size_t g, int64_t offset);
  Packing& packing() { return packing_; }

 private:
  // Where the group must not begin, by ascending `begin`.
  const std::vector<Forbidden>& forbidden(const BoxGroup& group);

  std::span<const BoxGroup> groups_;
  int64_t base_;
  std::vector<Box> placed_;
  std::vector<Forbidden> forbidden_;
  Packing packing_;
};

// One group after the other, each as low as it goes, or where it fits tightest.  Stops, with a
// packing of no use, as soon as one ends above `limit`.
Packing pack_in_order(std::span<const BoxGroup> groups, int64_t base, const Order& order, Fit fit,
                      int64_t limit);

}  // namespace olm2
