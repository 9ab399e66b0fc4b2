// Small random graphs and valid schedules for them, made without the planner: one decision after
// another by dice, addresses wherever the list order leaves room, and a wait for every pair of
// instructions of different lanes that touch the same bytes.
#pragma once

#include <cstdint>
#include <memory>

#include "core/schedule.h"
#include "tests/core/mutants.h"

namespace olm2::testing {

struct MadeSchedule {
  std::unique_ptr<Graph> graph;
  Problem problem;
  Schedule schedule;
};

struct MakerOptions {
  size_t inputs = 1;
  size_t states = 1;
  size_t nodes = 4;
};

// Nodes are of the op "check_test_mix" {outputs, in_place}: as many outputs as asked for, each
// typed like the first input, the first of which may lie on the first input.  Buffers are reused,
// values swapped in pieces, made again, and state is overwritten in place.
MadeSchedule make_schedule(const MakerOptions& options, Random& random);

}  // namespace olm2::testing
