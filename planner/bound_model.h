// The linear program of the turn bound for one cut; bound.h has its rows and their proof.
#pragma once

#include <vector>

#include "planner/planner.h"
#include "planner/solver.h"

namespace olm2 {

struct TurnRequest {
  NodeId turn;
  bool may_recompute = false;
  bool may_swap = false;
};

struct TurnModel {
  LinearModel linear;  // Times in units of `unit_s`, bytes in units of `unit_bytes`.
  double unit_s = 1;
  double unit_bytes = 1;
  std::vector<int> again;    // Per node the column c; -1: 0.
  std::vector<int> sent;     // Per value the column h; -1: 0.
  std::vector<int> held;     // Per value the column d, where no later node reads it; -1: see below.
  std::vector<bool> needed;  // Per value: d is 1 - h - c.  Else, without a column, d is 0.
  std::vector<bool> read_by_turn;  // Per value: d is 1.
  int memory_row = 0;
  // What must be on the device in any case exceeds the budget.
  bool is_impossible = false;
};

TurnModel build_turn(const Problem& problem, const TurnRequest& request);

// Device bytes of T's operands and scratch, of the state, and of all that is needed later: what
// keeping everything holds when T runs.
std::vector<int64_t> bytes_at_turns(const Problem& problem);

}  // namespace olm2
