// The planning problem as one mixed-integer linear program.
//
// A step is a sequence of slots (milp_slots.h).  The *events* of a value are its productions and
// reads, in slot order; `s` is the slot of event k and `z` the value's padded bytes.  Variables:
//   r[s] in {0,1}        the optional slot s runs
//   D[v,k] in [0,1]      the part of v that stays on the device between its events k and k+1
//   w[v] in [0,1]        the part of v sent to the host after its last mandatory event before the
//                        turn
//   in[v,k] in [0,1]     the part of v brought back for its event k
// and those of the copies, two streams of fluid: milp_streams.h.
// Constraints, with pre = D[v,k-1] + in[v,k]:
//   mandatory read:       pre >= 1              optional read: pre >= r[s]       pre <= 1
//   after a read:         D[v,k] <= pre
//   optional production:  D[v,k-1] + r[s] <= 1  (what is still there cannot be made again)
//                         D[v,k] <= D[v,k-1] + r[s]
//   a further production that always runs: D[v,k-1] = 0, D[v,k] free
//   sum over k of in[v,k] <= w[v];  r[s] + sum over k after s of in[v,k] <= 1 for every slot s that
//                         makes v again (left out where w is an integer: nobody gains by both)
//   sum of w z <= host budget
//   memory at slot s:     state + everything above that is there + workspace + bytes on their way
//                         <= budget
// Small further outputs of a node that may run again once (statistics of a norm) have no variable:
// they stay unless it does, when they are forgotten in between and made again with the first
// output. An output that lies on its input (in_place.h) adds only what of the input stays: D[v,k] +
// w[v].
//
// Objective: seconds of the mandatory nodes + sum t r + sum z + (1 - 1 / slowdown) times the
// seconds of every copy, for computing that copies hold up.
// Only r (and w where tensors may not be cut) are integers: with r fixed the least D is integral.
// Source of the event-wise retention: the schedule MILP of Jain et al. 2020 (Checkmate), with
// retention per event instead of per node.
#pragma once

#include <span>
#include <vector>

#include "planner/arrange.h"
#include "planner/milp_slots.h"
#include "planner/solver.h"

namespace olm2 {

struct MilpRequest {
  bool may_swap = false;
  bool partial_swap = true;
  // The budget is a variable and the objective, in units of bytes; time plays no part.
  bool minimise_budget = false;
  BytesPerTier budget{};
};

// `factor` * x[column] units of bytes are on the device during the slots [first, last]; column -1
// is the constant 1.
struct Span {
  int column = -1;
  int first = 0;
  int last = 0;
  double factor = 0;
};

struct Swap {
  ValueId value;
  int sent = 0;                   // The column w.
  std::vector<int> brought_back;  // The columns in.
};

struct MilpModel {
  LinearModel linear;  // Times in milliseconds, bytes in units; without the memory constraints.
  std::vector<Slot> slots;
  std::vector<int> run;  // Per slot the column r, -1 for mandatory ones.
  // Left-hand sides of the memory constraints: the sum of `spans`, plus that of `outward` where it
  // is positive, plus that of `homeward` where it is positive: bytes on their way.
  std::vector<Span> spans;
  std::vector<Span> outward;
  std::vector<Span> homeward;
  std::vector<int> holds;  // The columns D.
  std::vector<Swap> swaps;
  double unit_bytes = 1;
  int budget_column = -1;
  double budget_units = 0;
  double preference_ms = 0;  // Most that costs which only break ties add to the objective.
};

MilpModel build_model(const Problem& problem, std::vector<Slot> slots, const MilpRequest& request);

// Of every run of slots whose memory constraint `x` breaks, the worst one as a row.
std::vector<Row> broken_memory_rows(const MilpModel& model, std::span<const double> x);

// The ones that keeping everything breaks: the solver needs them sooner or later.
std::vector<Row> likely_memory_rows(const MilpModel& model);

// The first of the slots at which keeping everything needs most.
int fullest_slot(const MilpModel& model);

// What a solution decides; D is left behind, since the decisions imply the least one.
Decisions decisions_of(const Problem& problem, const MilpModel& model, std::span<const double> x);

}  // namespace olm2
