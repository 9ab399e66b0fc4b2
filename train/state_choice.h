// Where state should rest: the choice that all programs of a run share.
//
// Sources leave the device in a fixed order (leaving_order); what is left to choose is how many.
// Each choice tried is planned for all programs by the ordinary policies; the one whose optimizer
// step, all micro batches together, is predicted to be fastest is kept.  All on the device is
// always tried first, all moments, then parameters too, then everything as far as the host budget
// goes, then numbers between the best of them and its neighbours; until one is within the asked
// gap of computing everything once.  A choice is skipped if its copies alone, or its computing
// alone, take longer than the best step found.  Last, state at home for whole steps is tried as
// well, unless its bound says that it cannot be faster: so the choice is never slower than it.
#pragma once

#include <optional>

#include "train/planning.h"

namespace olm2 {

struct StateSearch {
  std::optional<RunPlan> plan = {};            // Empty: nothing fits the budgets.
  std::vector<Certificate> certificates = {};  // Of its programs, or of those tried last.
  double solve_seconds = 0;                    // Of all choices.
};

// Plans all programs.  `problems` have all state on the device (problems_of).  `planned_state`
// false: it stays there.
StateSearch search_state(const RunPrograms& run, const std::vector<Problem>& problems,
                         const Budgets& budgets, const PlanOptions& options, bool planned_state);

// The same; throws Error as plan_run does if nothing fits.
RunPlan choose_state(const RunPrograms& run, const std::vector<Problem>& problems,
                     const Budgets& budgets, const PlanOptions& options, bool planned_state);

// As much state on the host as its budget allows, where that is allowed at all.
StateLayout roomiest_layout(const RunPrograms& run, const std::vector<Problem>& problems,
                            const Budgets& budgets, const PlanOptions& options, bool planned_state);

// The problems of all programs with state laid out otherwise.
std::vector<Problem> with_layout(const RunPrograms& run, std::vector<Problem> problems,
                                 const StateLayout& layout);

// For people: "planned, 12 of 40 sources (123 bytes) on the host".
std::string describe_state(const RunPrograms& run, const StateLayout& layout);

}  // namespace olm2
