// The part of the planning model that moves bytes: two streams of fluid beside the computing.
//
// Per slot s: P bytes made that will be sent, Q those whose last reader before the turn has run,
// A sent, N needed back, B brought back, all so far; z milliseconds of waiting after the slot.
//   up to the turn:   A[s] <= P[s-1],   A[s] - A[s-1] <= rate * (milliseconds of s + z[s])
//   from the slot before the turn on:
//                     B[s-1] >= N[s],   B[s] - B[s-1] <= rate * (milliseconds of s, if it runs,
//                                                                + z[s])
// Memory at s: max(0, Q[s-1] - A[s-1]) not sent yet, and max(0, B[s] - rate z[s] - N[s]) there
// before it is needed (what comes during the wait takes the place of what the slot leaves behind).
// What is not sent when the step turns counts no more: the model is a little better off than any
// plan, so that its bound holds for all of them.
// rate = slowdown * bandwidth: while a copy runs, computing takes `slowdown` times as long, so per
// second of computing that many more bytes pass.
// The fluids count, beside its bytes, what passes the link in the fixed time of a value's copy:
// many small copies take longer than a few large ones.  Memory counts the same fluids times the
// share of bytes in all of them, so that bytes on their way are counted right on average.
#pragma once

#include <vector>

#include "planner/milp_model.h"

namespace olm2 {

// `units` of a value, as far as `column` says, are made or released at `slot`, or needed there.
struct Transfer {
  int slot = 0;
  int column = 0;
  double units = 0;  // Of bytes, without the fixed time.
};

// Adds columns, rows and memory spans.  `turn` is the slot of the last forward node.  Where memory
// is fullest then, `all_sent_at_turn`: A = Q before it.  Sending less is as good there as sending a
// part in time, and a plan cannot: the bytes of a copy are free when it is done.
void add_streams(const Problem& problem, int turn, bool all_sent_at_turn,
                 const std::vector<Transfer>& made, const std::vector<Transfer>& released,
                 const std::vector<Transfer>& needed, MilpModel& model);

}  // namespace olm2
