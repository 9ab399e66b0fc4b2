// Rectangles of bytes times time, to be laid one above the other without overlap: dynamic storage
// allocation.  Knows nothing of values and tiers.
//
// Finding the least height is NP-hard (Garey and Johnson 1979, SR2).  Placing groups one by one at
// the lowest free offset reaches the optimum for some order of single boxes (take an optimal
// layout, let everything sink, order by offset): a few good orders are tried first.  Where none of
// them reaches the live bytes two local searches follow, one over orders, one over addresses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace olm2 {

// In use at the moments first..last, both included; `offset` counts from where its group begins.
struct Box {
  int64_t offset = 0;
  int64_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
};

// Boxes whose offsets to each other are fixed.
struct BoxGroup {
  std::vector<Box> boxes;
  // Where the group must lie, if it has no choice; may be below the base.
  std::optional<int64_t> fixed_at = {};
};

struct Packing {
  std::vector<int64_t> offset;  // Per group.
  int64_t top = 0;              // End of the highest box; at least the base.
};

// Bytes in use at the busiest moment.
int64_t max_live(std::span<const BoxGroup> groups);

// No packing is lower: the base and what is in use above it at the busiest moment, or the end of
// the highest box that has no choice.
int64_t least_top(std::span<const BoxGroup> groups, int64_t base);

struct PackOptions {
  // How long to search, in steps: twice the effort, twice the steps, on every machine; 0: orders
  // only.
  int effort = 1;
  int64_t enough = 0;  // A top that need not be beaten.
  // Per group, an offset near which to look; below the base: anywhere.  Then only few groups move:
  // what finds no place within `enough` lies on top of it.  Empty: all are placed anew.
  std::vector<int64_t> start = {};
};

// Offsets of groups that have a choice are at least `base`; if it and the boxes are multiples of an
// alignment, they are too.  Fixed groups must not overlap each other.
Packing pack(std::span<const BoxGroup> groups, int64_t base, const PackOptions& options = {});

// Any legal packing, a different one for each seed, at multiples of `alignment`.
Packing pack_at_random(std::span<const BoxGroup> groups, int64_t base, int64_t alignment,
                       uint64_t seed);

}  // namespace olm2
