// Small graphs of an op without meaning, of any sizes and any shape, to plan for; and random plans
// for them that use everything a plan may do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule.h"

namespace olm2::toy {

// A node of op "toy" with one f32 output of `elements` per entry, named like the node.
// With `in_place` the first output may lie on any input of its size.
NodeId add_node(Graph& graph, std::string_view name, std::vector<ValueId> inputs,
                std::vector<int64_t> elements, bool in_place = false);
ValueId add(Graph& graph, std::string_view name, std::vector<ValueId> inputs, int64_t elements,
            bool in_place = false);

// Every node one second, no workspace, state from address 0 on, alignment 64, links of 64 bytes
// per second, budgets without end.
Problem problem_of(const Graph& graph, std::vector<ValueId> results);

// A training step of `layers` scopes: per layer h = f(h, w), s = g(h), backward d and a gradient
// with a home, then updates.  Sizes are odd and depend on `seed`; "loss" is the result.
struct Training {
  Graph graph;
  std::vector<ValueId> results;
};
Training training(int layers, uint64_t seed);
// The same, with `layers` nodes each of one KiB and one second, all sizes equal.
Training even_training(int layers);

// A valid plan with recomputations, whole and partial swaps at random.
Plan random_plan(const Problem& problem, uint64_t seed);

// The value's bytes as a range.
Range whole(const Graph& graph, ValueId value);

}  // namespace olm2::toy
