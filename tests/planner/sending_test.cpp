// Copies out beside computing: when they start, and when their bytes are given up.
#include "planner/sending.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace olm2 {
namespace {

struct Case {
  SendingRoom room;
  std::vector<Send> sends;
};

// Some positions, the last third of them after the turn; bytes of a dozen copies.
Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<uint32_t>(limit));
  };
  const int positions = 3 + below(20);
  Case result;
  result.room.turn = positions * 2 / 3;
  for (int e = 0; e < positions; ++e) {
    result.room.seconds.push_back(below(5));
    result.room.bytes.push_back(below(50));
  }
  result.room.bytes.push_back(0);
  result.room.budget = 50 + below(50);
  for (int k = below(12); k > 0; --k) {
    const int made = below(result.room.turn + 1) - 1;
    const int leave = std::max(made, 0) + below(result.room.turn + 1 - std::max(made, 0));
    const int bytes = 1 + below(30);
    result.sends.push_back({.made = made,
                            .leave = leave,
                            .bytes = bytes,
                            .copy_s = 0.25 * bytes,
                            .start_s = 0,
                            .listed = 0,
                            .given_up = 0});
  }
  return result;
}

double ready(const Send& send, const Case& c, const std::vector<double>& start) {
  const auto made = static_cast<size_t>(std::max(send.made, 0));
  return start[made] + c.room.seconds[made];
}

TEST(Sending, GivesBytesUpWhenTheyAreCopiedAndNobodyReadsThemAnyMore) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Case c = random_case(seed);
    const std::vector<double> start = send_out(c.room, c.sends);
    for (const Send& send : c.sends) {
      EXPECT_GE(send.start_s, ready(send, c, start)) << seed;
      EXPECT_GT(send.listed, send.made);
      EXPECT_GE(send.given_up, send.listed);
      EXPECT_GT(send.given_up, send.leave);
      EXPECT_LE(send.given_up, c.room.turn + 1);
      EXPECT_LE(send.start_s + send.copy_s, start[static_cast<size_t>(send.given_up)]);
    }
  }
}

TEST(Sending, NeverHasMoreOnTheWayThanTheRoomAllows) {
  int waits = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Case c = random_case(seed);
    const std::vector<double> start = send_out(c.room, c.sends);
    for (size_t e = 0; e < c.room.seconds.size(); ++e) {
      int64_t bytes = c.room.bytes[e];
      for (const Send& send : c.sends) {
        const auto position = static_cast<int>(e);
        if (send.leave < position && position < send.given_up) bytes += send.bytes;
      }
      EXPECT_LE(bytes, c.room.budget) << seed << " at " << e;
      if (start[e + 1] - start[e] > c.room.seconds[e]) ++waits;
    }
  }
  EXPECT_GT(waits, 100);
}

TEST(Sending, LeavesTheLinkIdleOnlyWhereNothingIsMade) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Case c = random_case(seed);
    const std::vector<double> start = send_out(c.room, c.sends);
    std::vector<Send> in_order = c.sends;
    std::ranges::sort(in_order, {}, &Send::start_s);
    double free_s = 0;
    for (size_t k = 0; k < in_order.size(); ++k) {
      if (k > 0) {
        EXPECT_LE(in_order[k - 1].listed, in_order[k].listed);
      }
      double first_ready = ready(in_order[k], c, start);
      for (size_t later = k; later < in_order.size(); ++later) {
        const double is_ready = ready(in_order[later], c, start);
        first_ready = std::min(first_ready, is_ready);
        if (is_ready > in_order[k].start_s) continue;
        EXPECT_LE(in_order[k].leave, in_order[later].leave) << seed;
      }
      EXPECT_EQ(in_order[k].start_s, std::max(free_s, first_ready)) << seed;
      free_s = in_order[k].start_s + in_order[k].copy_s;
    }
  }
}

}  // namespace
}  // namespace olm2
