// A policy asked for plans until one fits with its addresses, and other ways of asking where that
// is too slow: the fastest counts.
#pragma once

#include <optional>

#include "planner/bound.h"
#include "planner/deadline.h"
#include "planner/realize.h"

namespace olm2 {

struct Question {
  const Problem& real;     // Plans are realized for it, and count by what they then take.
  const Problem& settled;  // Policies see this one: the same, unless state moves (moving_state.h).
};

struct Found {
  std::optional<Realized> realized = {};  // For the real problem, within its budgets.
  PolicyResult first = {};                // The answer for the budget asked for: its bound holds.
  // Seconds as far as the policy can change them: without what copies of state cost.
  double own_s = 0;
  int64_t loss_bytes = 0;
  bool is_squeezed = false;  // Addresses cost time.
};

// `options.bound` is what is proven of the settled problem.
Found best_plan(const Question& question, const Policy& policy, const PlanOptions& options,
                const Deadline& deadline);

// Keeps the faster answer; the bound stays that of `best`.
void consider(Found other, Found& best);

// Copies of state fill what room there is; their addresses need some of it.
struct CopiesRoom {
  int64_t given_up = 0;
};

// A plan of the settled problem with its copies of state, which give up more room where they do not
// fit with their addresses, unless the plan takes `beat_s` anyway.
Realized realize_settled(const Question& question, const Plan& plan, const PlaceOptions& options,
                         double beat_s, CopiesRoom& room);

// What the certificate says of the search.
void note_search(const Found& found, Certificate& certificate);

// What is left for the smallest plan, where there is no other.
PlanOptions for_the_smallest(PlanOptions options, const Deadline& deadline);

// What is proven of all plans that run nodes again, copy, or do both, in a share of the time.
TurnBound bound_for(const Problem& problem, bool may_recompute, bool may_swap,
                    const PlanOptions& options);

// Whether it is proven that no plan of any kind fits.  `bound` is that of the policy's plans.
bool is_proven_impossible(const Problem& problem, const Policy& policy, const TurnBound& bound,
                          const PlanOptions& options);

// Whether a plan is as fast as the bound, within rounding.
bool is_met(double bound_s, double seconds);

// Status and gap of what was found: its objective, bound and baseline are there.
void rate(Certificate& certificate);

// Fills in all that follows from a realized plan, and has it checked.  The certificate has its
// bound and baseline already.
void accept(const Problem& problem, Realized realized, Planned& planned);

}  // namespace olm2
