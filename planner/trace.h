// A plan replayed: who occupies which place in which tier, from which step to which.
//
// The one reading of a Plan that replay (bytes per step) and lower (buffers) share, so that the
// bytes counted are the bytes assigned.  A value is cut where any copy or drop of the plan cuts it;
// values that lie on each other are cut alike.  Each piece of a value in a tier is a stay of its
// own, and an output computed over its input continues the input's stays.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/op.h"
#include "core/schedule.h"

namespace olm2 {

inline constexpr int32_t kNeverDropped = std::numeric_limits<int32_t>::max();

// One place in a tier, in use in steps [begin, end).
struct Stay {
  ValueId value;  // The first value it holds; invalid: the workspace of `node`.
  NodeId node;
  Range range;  // Which part of the value.
  Tier tier = Tier::device;
  int64_t bytes = 0;     // Padded.
  int32_t begin = -1;    // -1: there before the first step.
  int32_t end = 0;       // Step of the drop; kNeverDropped: there after the last step.
  bool is_home = false;  // Counted by Problem::state_bytes_in(tier), not here.
  ValueId home = {};     // The state source that rests here, at a given address; invalid: anywhere.
};

// What a step touches; `buffer` of a piece is the index of a Stay.
struct StepOperands {
  std::vector<Operand> reads;   // compute: the node's inputs.  copy: pieces, as in `writes`.
  std::vector<Operand> writes;  // compute: the node's outputs.  copy: writes[k] <- reads[k].
  BufferId workspace;
};

struct PlanTrace {
  std::vector<Stay> stays;
  std::vector<StepOperands> steps;  // Empty operands for drops.
  std::vector<Operand> at_start;    // Inputs and state sources, in graph order.
  std::vector<Operand> at_end;      // Newest versions of state, then results.
};

// Throws Error at the first step that reads, drops or overwrites what it must not, naming step and
// value, or if the end lacks a result or a version of state.
PlanTrace trace_plan(const Problem& problem, const Plan& plan);

// Per value where the plan cuts it, from 0 to its bytes, ascending.  `with_drops` false: only
// copies cut.  Values of one in-place chain (`choices`, may be empty) are cut alike.
std::vector<std::vector<int64_t>> cuts_of(const Problem& problem, const Plan& plan, bool with_drops,
                                          const std::vector<std::vector<InPlace>>& choices);

}  // namespace olm2
