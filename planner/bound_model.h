// The linear program of the turn bound for one cut; bound.h has its rows and their proof.
//
// Two of its variables are left out where others say what they are: d of what is needed later is
// 1 - h - c, and 1 for what T reads.
#pragma once

#include <vector>

#include "planner/bound_needs.h"
#include "planner/solver.h"

namespace olm2 {

struct TurnRequest {
  NodeId turn;
  bool may_recompute = false;
  bool may_swap = false;
  bool has_later_cuts = true;  // Rows 7 and 8.
};

// Which node a row is about, and which of the like rows of that node it is; -1: one of a kind.
struct RowOrigin {
  int32_t node = -1;
  int which = 0;
};

struct TurnModel {
  LinearModel linear;  // Times in units of `unit_s`, bytes in units of `unit_bytes`.
  double unit_s = 1;
  double unit_bytes = 1;
  std::vector<int> again;  // Per node the column c; -1: 0.
  std::vector<int> sent;   // Per value the column h; -1: 0.
  std::vector<int> kept;   // Per value the column k; -1: see bound_copies.h.
  std::vector<int> held;   // Per value that no later node reads the column d; -1: 0.
  TurnNeeds needs;
  std::vector<int> memory_rows;    // Row 3, then rows 7: the device budget is on their right.
  std::vector<RowOrigin> origins;  // Per row.
  bool is_impossible = false;      // What is there in any case exceeds the budget.

  bool is_needed(size_t value) const { return needs.last_need[value] != kNoNode; }
  double units(int64_t bytes) const { return static_cast<double>(bytes) / unit_bytes; }
  void add_row(Row row, RowOrigin origin = {}) {
    linear.rows.push_back(std::move(row));
    origins.push_back(origin);
  }
  void add_memory_row(Row row) {
    memory_rows.push_back(static_cast<int>(linear.rows.size()));
    add_row(std::move(row));
  }
};

TurnModel build_turn(const Problem& problem, const TurnRequest& request);

}  // namespace olm2
