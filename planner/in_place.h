// When an output is computed over an input instead of beside it.
//
// One deterministic rule, shared by everything that counts or assigns bytes.  Output o of a
// compute step lies on input i exactly if
//  1. the op lists (o, i), and no pair listed earlier took o or i;
//  2. o does not live at home (Problem::lives_at_home), i is an activation or a version of state
//     that does not live at home either (the source itself only under its own next version), it
//     appears once among the node's inputs, and neither is a result without a home;
//  3. both have the same number of bytes;
//  4. i was not copied off the device since it was last made there or brought back whole;
//  5. the plan drops all of i on the device directly after the step, before the next compute or
//     copy.
#pragma once

#include <functional>
#include <vector>

#include "core/op.h"
#include "core/schedule.h"

namespace olm2 {

// Pairs that obey 2 and 3, in the order in which the op lists them: what the graph alone allows.
std::vector<InPlace> possible_in_place(const Problem& problem, const Node& node);

// Pairs that obey 1 to 3, where `is_free(i)` answers 4 and 5.
std::vector<InPlace> choose_in_place(const Problem& problem, const Node& node,
                                     const std::function<bool(ValueId)>& is_free);

// Per step of the plan the pairs in use; empty for copies and drops.  Needs no valid plan.
std::vector<std::vector<InPlace>> in_place_choices(const Problem& problem, const Plan& plan);

}  // namespace olm2
