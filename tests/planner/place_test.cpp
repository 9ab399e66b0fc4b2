#include <algorithm>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "planner/keep_all.h"
#include "planner/packing.h"
#include "planner/planner.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

bool meet(const Box& a, int64_t base_a, const Box& b, int64_t base_b) {
  const bool in_time = a.first <= b.last && b.first <= a.last;
  const bool in_space = base_a + a.offset < base_b + b.offset + b.bytes &&
                        base_b + b.offset < base_a + a.offset + a.bytes;
  return in_time && in_space;
}

void expect_legal(const std::vector<BoxGroup>& groups, const Packing& packing, int64_t base) {
  for (size_t a = 0; a < groups.size(); ++a) {
    EXPECT_GE(packing.offset[a], groups[a].fixed_at.value_or(base));
    for (const Box& box : groups[a].boxes) {
      EXPECT_LE(packing.offset[a] + box.offset + box.bytes, packing.top);
      for (size_t b = 0; b < a; ++b) {
        for (const Box& other : groups[b].boxes) {
          EXPECT_FALSE(meet(box, packing.offset[a], other, packing.offset[b])) << a << " " << b;
        }
      }
    }
  }
}

BoxGroup single(int64_t bytes, int32_t first, int32_t last, std::optional<int64_t> fixed_at = {}) {
  return {.boxes = {{.offset = 0, .bytes = bytes, .first = first, .last = last}},
          .fixed_at = fixed_at};
}

// First fit in the order in which the boxes begin, as an allocator at run time would do it.
int64_t first_fit_top(const std::vector<BoxGroup>& groups) {
  std::vector<std::pair<Box, int64_t>> placed;
  int64_t top = 0;
  for (const BoxGroup& group : groups) {
    const Box& box = group.boxes[0];
    for (int64_t offset = 0;; ++offset) {
      const bool is_free = std::ranges::none_of(
          placed, [&](const auto& other) { return meet(box, offset, other.first, other.second); });
      if (!is_free) continue;
      placed.emplace_back(box, offset);
      top = std::max(top, offset + box.bytes);
      break;
    }
  }
  return top;
}

// Never more than 100 units alive, yet an allocator needs 130.
TEST(Packing, PlacesIn100WhatFirstFitPlacesIn130) {
  const std::vector<BoxGroup> groups = {single(30, 0, 1), single(30, 0, 9), single(40, 0, 2),
                                        single(70, 3, 9)};
  EXPECT_EQ(max_live(groups), 100);
  EXPECT_EQ(first_fit_top(groups), 130);
  const Packing packing = pack(groups, 0);
  EXPECT_EQ(packing.top, 100);
  expect_legal(groups, packing, 0);
}

// Lives for which no layout reaches the live bytes: the number reported is the one needed.
TEST(Packing, ReportsTheHeightItNeeds) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<BoxGroup> groups;
    for (int i = 0; i < 6; ++i) {
      const auto first = static_cast<int32_t>(random() % 6);
      groups.push_back(single(1 + static_cast<int64_t>(random() % 9), first,
                              first + static_cast<int32_t>(random() % 4)));
    }
    // Lowest free offsets in every order: the optimum is among them.
    std::vector<size_t> order = {0, 1, 2, 3, 4, 5};
    int64_t optimum = 1000;
    do {
      std::vector<BoxGroup> permuted;
      for (const size_t g : order) permuted.push_back(groups[g]);
      optimum = std::min(optimum, first_fit_top(permuted));
    } while (std::ranges::next_permutation(order).found);
    const Packing packing = pack(groups, 0);
    expect_legal(groups, packing, 0);
    EXPECT_EQ(packing.top, optimum);
  }
}

TEST(Packing, KeepsGroupsRigidAboveTheBase) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 3; ++round) {
    std::vector<BoxGroup> groups;
    for (int i = 0; i < 25; ++i) {
      BoxGroup group;
      int64_t offset = 0;
      for (int piece = static_cast<int>(random() % 3); piece >= 0; --piece) {
        const int64_t bytes = 64 * (1 + static_cast<int64_t>(random() % 5));
        for (int32_t at = static_cast<int32_t>(random() % 10); at < 40; at += 15) {
          group.boxes.push_back({offset, bytes, at, at + static_cast<int32_t>(random() % 12)});
        }
        offset += bytes;
      }
      groups.push_back(group);
    }
    const Packing packing = pack(groups, 192);
    expect_legal(groups, packing, 192);
    EXPECT_GE(packing.top, 192 + max_live(groups));
    for (const int64_t offset : packing.offset) EXPECT_EQ(offset % 64, 0);
    const Packing other = pack_at_random(groups, 192, 64, 5);
    expect_legal(groups, other, 192);
    EXPECT_NE(other.offset, packing.offset);
    EXPECT_NE(other.offset, pack_at_random(groups, 192, 64, 6).offset);
    EXPECT_EQ(pack(groups, 192).offset, packing.offset) << "the same every time";
  }
}

TEST(Packing, WorksAroundWhatHasNoChoice) {
  const std::vector<BoxGroup> groups = {single(20, 0, 9, 30), single(30, 0, 4), single(30, 5, 9),
                                        single(10, 2, 7), single(7, 0, 9, 3)};
  EXPECT_EQ(least_top(groups, 0), 67);
  EXPECT_EQ(least_top(groups, 10), 70);
  for (const int64_t base : {0, 10}) {
    const Packing packing = pack(groups, base);
    expect_legal(groups, packing, base);
    EXPECT_EQ(packing.offset[0], 30);
    EXPECT_EQ(packing.offset[4], 3);
    EXPECT_EQ(packing.top, 80);
    expect_legal(groups, pack_at_random(groups, base, 1, 3), base);
  }
}

// What has no choice and is free for a while is never worse than what is never free.
TEST(Packing, NeedsNoMoreWhereFixedBytesAreFreeForAWhile) {
  std::mt19937_64 random(3);
  int better = 0;
  for (int round = 0; round < 300; ++round) {
    const PackOptions options{.effort = round < 250 ? 0 : 1};
    std::vector<BoxGroup> groups;
    for (int g = 0; g < 24; ++g) {
      const auto first = static_cast<int32_t>(random() % 20);
      groups.push_back(single(1 + static_cast<int64_t>(random() % 25), first,
                              first + static_cast<int32_t>(random() % 10)));
    }
    const int64_t above = pack(groups, 30, options).top;
    const auto end = static_cast<int32_t>(random() % 30);
    groups.push_back(single(12, -1, end, 10));
    groups.push_back(single(8, -1, 29, 22));
    const Packing packing = pack(groups, 10, options);
    expect_legal(groups, packing, 10);
    EXPECT_LE(packing.top, above) << round;
    better += packing.top < above ? 1 : 0;
  }
  EXPECT_GT(better, 0);
}

// The least top by trying every offset, or `limit` if it is not below; sizes are a few units.
int64_t least_top_by_trying(const std::vector<BoxGroup>& groups, int64_t base, int64_t limit) {
  std::vector<int64_t> offset(groups.size(), 0);
  const auto collides = [&](size_t a, size_t b) {
    for (const Box& box : groups[a].boxes) {
      for (const Box& other : groups[b].boxes) {
        if (meet(box, offset[a], other, offset[b])) return true;
      }
    }
    return false;
  };
  const std::function<void(size_t, int64_t)> place_from = [&](size_t g, int64_t top) {
    if (top >= limit) return;
    if (g == groups.size()) {
      limit = top;
      return;
    }
    const int64_t first = groups[g].fixed_at.value_or(base);
    const int64_t last = groups[g].fixed_at.value_or(limit);
    for (offset[g] = first; offset[g] <= last; ++offset[g]) {
      int64_t end = top;
      for (const Box& box : groups[g].boxes) {
        end = std::max(end, offset[g] + box.offset + box.bytes);
      }
      bool is_free = true;
      for (size_t other = 0; other < g && is_free; ++other) is_free = !collides(g, other);
      if (is_free) place_from(g + 1, end);
    }
  };
  place_from(0, base);
  return limit;
}

// Rigid groups of up to three boxes, with holes, around one that has no choice.
TEST(Packing, NeedsNoMoreThanTheBestOfAllOffsets) {
  std::mt19937_64 random(5);
  const auto below = [&](uint64_t limit) { return static_cast<int64_t>(random() % limit); };
  int above_the_live_bytes = 0;
  for (int round = 0; round < 30; ++round) {
    std::vector<BoxGroup> groups = {single(1 + below(2), 2, 5, 1 + below(4))};
    while (groups.size() < 6) {
      BoxGroup group;
      int64_t offset = 0;
      for (int64_t piece = below(3); piece >= 0; --piece) {
        const int64_t bytes = 1 + below(3);
        const auto first = static_cast<int32_t>(below(8));
        group.boxes.push_back({offset, bytes, first, first + static_cast<int32_t>(below(5))});
        offset += bytes;
      }
      groups.push_back(std::move(group));
    }
    const Packing packing = pack(groups, 2);
    expect_legal(groups, packing, 2);
    EXPECT_EQ(packing.top, least_top_by_trying(groups, 2, packing.top)) << round;
    above_the_live_bytes += packing.top > least_top(groups, 2) ? 1 : 0;
  }
  EXPECT_GT(above_the_live_bytes, 0) << "some cases are not decided by counting";
}

int64_t top_end(const BoxGroup& group, int64_t offset) {
  int64_t end = offset;
  for (const Box& box : group.boxes) end = std::max(end, offset + box.offset + box.bytes);
  return end;
}

// Lives made by cutting a rectangle of `bytes` times `moments`: they fit into it without a gap.
void cut_rectangle(std::mt19937_64& random, int64_t bytes, int32_t first, int32_t last, int pieces,
                   std::vector<BoxGroup>& groups) {
  const bool by_time = last > first && (bytes < 2 || random() % 2 == 0);
  if (pieces == 1 || (bytes < 2 && last == first)) {
    groups.push_back(single(bytes, first, last));
  } else if (by_time) {
    const auto cut = first + static_cast<int32_t>(random() % static_cast<uint64_t>(last - first));
    cut_rectangle(random, bytes, first, cut, pieces / 2, groups);
    cut_rectangle(random, bytes, cut + 1, last, pieces - pieces / 2, groups);
  } else {
    const auto part = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(bytes - 1));
    cut_rectangle(random, part, first, last, pieces / 2, groups);
    cut_rectangle(random, bytes - part, first, last, pieces - pieces / 2, groups);
  }
}

std::vector<BoxGroup> pieces_of_a_rectangle(uint64_t seed, int pieces) {
  std::mt19937_64 random(seed);
  std::vector<BoxGroup> groups;
  cut_rectangle(random, 1000, 0, 99, pieces, groups);
  std::ranges::shuffle(groups, random);
  return groups;
}

TEST(Packing, FindsTheRectangleThatFewLivesWereCutFrom) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<BoxGroup> groups = pieces_of_a_rectangle(seed, 12);
    const Packing packing = pack(groups, 0);
    expect_legal(groups, packing, 0);
    EXPECT_EQ(packing.top, 1000) << seed;
  }
}

TEST(Packing, SearchesLongerWhereAskedTo) {
  int64_t excess = 0;
  int64_t excess_of_long_search = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const std::vector<BoxGroup> groups = pieces_of_a_rectangle(seed, 100);
    const Packing packing = pack(groups, 0);
    expect_legal(groups, packing, 0);
    excess += packing.top - 1000;
    excess_of_long_search += pack(groups, 0, {.effort = 8}).top - 1000;
    const Packing enough = pack(groups, 0, {.enough = 1300});
    EXPECT_LE(enough.top, 1300);
  }
  EXPECT_LE(excess, 4 * 50);
  EXPECT_LT(excess_of_long_search, excess);
}

// What fits stays; what does not finds a place, or lies on top of all that fits.
TEST(Packing, MovesFewOfThoseThatHaveAPlace) {
  int moved = 0;
  int on_top = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<BoxGroup> groups = pieces_of_a_rectangle(seed, 12);
    groups.push_back(single(10, 0, 99, 1000));
    const Packing before = pack(groups, 0);
    ASSERT_EQ(before.top, 1010);
    PackOptions options{.enough = 1010, .start = before.offset};
    EXPECT_EQ(pack(groups, 0, options).offset, before.offset);
    const Packing loose = pack_at_random(groups, 0, 1, seed);
    EXPECT_EQ(pack(groups, 0, {.enough = loose.top, .start = loose.offset}).offset, loose.offset);
    // Nobody knows where the first of them was, and the second lies where another does.
    options.start[0] = -1;
    options.start[1] = options.start[2];
    const Packing after = pack(groups, 0, options);
    expect_legal(groups, after, 0);
    EXPECT_EQ(after.top, 1010) << seed;
    for (size_t g = 3; g < groups.size(); ++g) moved += after.offset[g] != before.offset[g] ? 1 : 0;
    // There is no room for one more.
    groups.push_back(single(50, 40, 60));
    options.start.push_back(-1);
    const Packing fuller = pack(groups, 0, options);
    expect_legal(groups, fuller, 0);
    for (size_t g = 0; g < groups.size(); ++g) {
      on_top += top_end(groups[g], fuller.offset[g]) > 1010 ? 1 : 0;
    }
  }
  EXPECT_LE(moved, 20 * 10 / 2);
  EXPECT_GE(on_top, 20);
  EXPECT_LE(on_top, 20 * 2);
}

TEST(Packing, PlacesNothing) {
  EXPECT_EQ(pack({}, 64).top, 64);
  EXPECT_EQ(pack(std::vector<BoxGroup>{single(0, 0, 3)}, 64).top, 64);
}

TEST(Place, StaysWithinOnePercentOfTheLiveBytesOnTrainingSteps) {
  for (int layers = 1; layers <= 24; layers += 4) {
    const toy::Training toy = toy::training(layers, static_cast<uint64_t>(layers));
    const Problem problem = toy::problem_of(toy.graph, toy.results);
    const Plan plan = keep_all_plan(problem);
    Schedule schedule = lower(problem, plan);
    place(problem, schedule);
    const auto live = static_cast<double>(replay(problem, plan).peak[0]);
    EXPECT_LE(static_cast<double>(schedule.arena[0]), 1.01 * live) << layers;
  }
}

TEST(Place, PutsStateWhereTheProblemSays) {
  const toy::Training toy = toy::training(3, 1);
  const Problem problem = toy::problem_of(toy.graph, toy.results);
  Schedule schedule = lower(problem, keep_all_plan(problem));
  place(problem, schedule, {.random_seed = 77});
  for (const Operand& operand : schedule.at_start) {
    const int64_t expected = problem.state_offset[static_cast<size_t>(operand.value.index)];
    const Buffer& buffer = schedule.buffers[static_cast<size_t>(operand.pieces[0].buffer.index)];
    if (expected >= 0) {
      EXPECT_EQ(buffer.offset, expected);
    } else {
      EXPECT_GE(buffer.offset, problem.state_bytes);
    }
  }
}

}  // namespace
}  // namespace olm2
