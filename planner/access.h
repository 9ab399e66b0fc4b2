// The access sequence of a step: who reads what when, known before anything runs.  Moments are
// indices of nodes in graph order; re-executions happen between them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule.h"

namespace olm2 {

struct AccessSequence {
  // Per value the nodes that read it, ascending, each once.
  std::vector<std::vector<int32_t>> reads;
  // Per value the last moment at which it can be made again from nothing but inputs and state: the
  // state it depends on still has the same content.  -1: never.  For state: the node that replaces
  // it.
  std::vector<int32_t> remade_until;
  // Per value its last read, and for an input the last read of anything made from it.  -1: none.
  std::vector<int32_t> needed_until;

  // First read at or after `moment`; -1: none.
  int32_t next_read(ValueId value, int32_t moment) const;
};

// O(edges).
AccessSequence access_sequence(const Problem& problem);

}  // namespace olm2
