// Plans of one run under several budgets, as one family.
//
// Plans made one by one know nothing of each other: within its gap, the search at one budget may
// end in a better plan than that at a larger one.  Here each budget gets the best of all plans
// found that fit it: the fastest and, of equally fast ones, the smallest.  So, where budgets differ
// by bytes of the device alone,
//   1. a larger budget never has a slower plan: it may use all that a smaller one may;
//   2. a smaller budget never has a higher peak: else the larger one's plan would fit it as well;
//   3. whatever is larger than a budget with a plan has one.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "train/state_choice.h"

namespace olm2 {

// search_state() for each of the budgets, then exchange_plans().  `begins` is called with a
// budget's index before it is planned.
std::vector<StateSearch> sweep_budgets(const RunPrograms& run, const std::vector<Problem>& problems,
                                       std::span<const Budgets> budgets, const PlanOptions& options,
                                       bool planned_state,
                                       const std::function<void(size_t)>& begins = {});

// The best of `found` for each of the budgets; found[i] is what a search at budgets[i] found.  A
// plan that was found for another budget says so in its certificates' `space`; their bounds are
// those of the budget it is for now, where a plan was found with state resting alike, else keeping
// everything.
std::vector<StateSearch> exchange_plans(const RunPrograms& run, std::span<const Budgets> budgets,
                                        const std::vector<StateSearch>& found);

}  // namespace olm2
