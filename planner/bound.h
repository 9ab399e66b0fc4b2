// What can be proven of every plan, whatever it does again and whatever it moves.
//
// Choose a node T and look at the moment when it first starts to run.  Let V be the values
// made before T, and the inputs.  For the values v of V and the nodes n before T:
//   d[v]  part of v on the device, or on its way there, at that moment
//   h[v]  part of v that is only elsewhere then, in copies that are done
//   c[n]  1 if n runs again after that moment, before its outputs are last needed
// Every plan, cut at T, obeys the following rows.  So the least time under them, which a linear
// program finds (a relaxation: c may be broken), is below the time of every plan.
//   1. d[v] + h[v] + c[maker of v] >= 1 for v that T or a later node reads, or that is a result:
//      what is never made again until then must be somewhere now.
//   2. d[u] + h[u] + c[maker of u] >= c[n] for the inputs u of n: the first new run of n needs
//      all of u.
//   3. state + sum of padded bytes d[v] + what T makes and its scratch <= device budget, with d = 1
//      for what T reads.  An output that could lie on an input counts nothing.
//   4. Copies out: what was made by node i or later leaves between the end of i and the start of T,
//      one copy after another.
//   5. Copies in: what is needed at node j or earlier and is only elsewhere now is brought back
//      between the start of T and the start of j, one copy after another.
//   6. sum of padded bytes h[v] <= host (and disk) budget.
// Further cuts, when T and some nodes j after it end, say what room there is to bring things back
// early.  Let
//   k[v]  part of v that stays on the device from T until it is last needed;  k + h + c <= 1
//   f[v]  part of v that is brought back after T;  f + c + k >= 1
//   a[j]  bytes of f, needed after j, that are back (or the part done of their copy) when j ends
//   7. state + sum of k bytes of what is needed after j + a[j] + what j makes, reads and scratch
//      <= device budget
//   8. Between two cuts, from the end of j on: what is needed until a later node, less what a[j]
//      had, comes in the time until that node starts; and so does what is ahead at the next cut.
// State that lives at home is part of `state`.  State that rests in another tier is there when the
// step begins: its h costs nothing under 4 and 6, and has its time under 5.
//
// Time.  Every node runs once; c[n] adds the seconds that n takes again.  For 4, let z be the
// seconds added before T by waiting and by running nodes again.  While copies run, computing takes
// `slowdown` f times as long, so busy seconds b of the link pass beside at least b/f seconds of
// computing, or of waiting, and prolong the step by at least (1 - 1/f) b:
//   sum of copy seconds of 4 <= f (seconds of the nodes from i to T + z)
//   added seconds >= z + (1 - 1/f) sum of copy seconds
// and likewise for 5 and 8, with a z per interval between cuts, whose sum includes the seconds of
// everything that runs again after T.
// A value of b bytes, of which the part h is copied, takes at least h (latency + bytes / rate).
// Where the padding makes the last block of a value shorter, its bytes are counted by the block
// that is cheapest to copy.  `ahead` counts values whose seconds per byte are much like those of
// the largest, by the least of them where it is filled and by the most where it is used; the others
// may be ahead without taking room.
//
// The seconds reported are computed from the solver's multipliers, any of which prove a bound
// (bound_value.h): they do not depend on the solver's tolerances or on its having finished.  Where
// whole runs (bound_groups.h) say more, it is what branch and bound proves, less 1e-6 of the time
// of keeping everything for its tolerances. Several nodes are tried as T; the largest bound counts.
//
// Not covered: first runs in another order than the graph's, where it leaves a choice; nodes that
// another device computes; plans that leave out a node.
#pragma once

#include <string>
#include <vector>

#include "core/schedule.h"

namespace olm2 {

struct TurnBound {
  bool fits = true;    // false: proven that no plan at all fits the budgets.
  double seconds = 0;  // No plan is faster; never below the sum of all nodes' seconds.
  // At the start of `turn`, in a solution of the program: the part of each node that runs again
  // later, of each value that is only in another tier, of each value that is on the device.
  std::vector<double> again;
  std::vector<double> sent;
  std::vector<double> held;
  NodeId turn;                  // The cut that gives the largest bound; invalid: the trivial one.
  double seconds_per_byte = 0;  // What one more byte of device budget could save at most, at first.
  std::string text;             // What the bound covers, one line.
};

// `may_recompute` and `may_swap` say which plans the bound is for.  Deterministic unless the time
// limit binds; then the bound is smaller, and valid still.
TurnBound turn_bound(const Problem& problem, bool may_recompute, bool may_swap,
                     double time_limit_s);

}  // namespace olm2
