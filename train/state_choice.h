// Where state should rest: the choice that all programs of a run share.
//
// Sources leave the device in a fixed order (leaving_order); what is left to choose is how many.
// Each choice tried is planned narrowly (PlanOptions) for the programs of an optimizer step by the
// ordinary policies, as long as it may still be faster than the best so far: all on the device
// first, all moments, then parameters too, then everything as far as the host budget goes, then
// numbers between the best of them and its neighbours; until one is within the asked gap of what no
// choice beats.  The fastest is then planned in full where its bound asks for that.  Last, state at
// home for whole steps is planned as it would be by itself, unless its bound says that it cannot be
// faster: so the choice is never slower than it.  The other programs are planned for the choice
// taken, or for the next best, where they do not fit.  If nothing is found narrowly, all choices
// are planned in full.
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
