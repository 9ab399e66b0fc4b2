// What it costs to make a value again when others are gone too: the evicted neighbourhood e* of
// Kirisame et al. 2021 ("Dynamic Tensor Rematerialization", section 4).
//
// e*(v) are the evicted values that v is made from, through evicted values only, and the evicted
// values made from v, likewise.  Of the latter only those count that will be read again or that
// lead to such a one: a step's sequence is known, and what is over needs nothing.  Each node counts
// once.
#pragma once

#include <vector>

#include "core/schedule.h"

namespace olm2 {

class EvictedValues {
 public:
  explicit EvictedValues(const Problem& problem);

  // `is_read_again`: by a node of the step, not only to make others again.
  void leave(ValueId value, bool is_read_again);
  void come_back(ValueId value);

  // Seconds of the nodes of v and e*(v).  Remembered until something around v changes.
  double remake_seconds(ValueId value);

 private:
  using Values = std::vector<ValueId>;
  const Values& parents(ValueId value) const { return parents_[at(value)]; }
  const Values& children(ValueId value) const { return children_[at(value)]; }
  static size_t at(ValueId value) { return static_cast<size_t>(value.index); }
  // Calls visit(v) for every value reached from `from` over `edges` through evicted values for
  // which `passes(v)` holds, and for the first value beyond.
  template <typename Passes, typename Visit>
  void walk(ValueId from, const std::vector<Values>& edges, const Passes& passes,
            const Visit& visit);
  void forget_around(ValueId value);

  const Problem& problem_;
  std::vector<Values> parents_;   // Activations that its node reads.
  std::vector<Values> children_;  // Activations made by nodes that read it.
  std::vector<bool> is_evicted_;
  std::vector<bool> counts_;   // Evicted, and read again or on the way to one that is.
  std::vector<double> known_;  // remake_seconds, negative: to be worked out.
  std::vector<int64_t> seen_values_;
  std::vector<int64_t> seen_nodes_;
  int64_t round_ = 0;
  Values stack_;
};

}  // namespace olm2
