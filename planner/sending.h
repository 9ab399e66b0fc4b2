// In which order copies leave over one link beside a given order of computing, when they start, and
// when their bytes are given up.  Knows nothing of values.
//
// A copy may start when its bytes are made, however often they are read until they are given up.
// Whenever the link is free it takes, of what is made, what is read for the last time first: so it
// rests only where nothing is left to send, and bytes that others wait for go before those that
// are still read.
#pragma once

#include <cstdint>
#include <vector>

namespace olm2 {

// Positions are those of an order of computing; times are seconds.
struct Send {
  int made = 0;   // The copy starts after this position,
  int leave = 0;  // and its bytes are given up after this one, once they are copied.
  int64_t bytes = 0;
  double copy_s = 0;
  // Found:
  double start_s = 0;  // Of the copy.
  int listed = 0;      // It is listed before this position, in the order of the link,
  int given_up = 0;    // and its bytes are given up before this one.
};

struct SendingRoom {
  std::vector<double> seconds;  // Per position: computing.
  std::vector<int64_t> bytes;   // Per position: there, without what is on its way out.
  int64_t budget = 0;           // Most that may be there, with what is on its way.
  int turn = 0;                 // After this position nothing is on its way.
};

// Fills in what is to be found, and returns when each position starts, with its waiting for bytes;
// one more for the end.
std::vector<double> send_out(const SendingRoom& room, std::vector<Send>& sends);

}  // namespace olm2
