// A table of policies and budgets: what each would cost.
#pragma once

#include <string>
#include <vector>

#include "train/plan_request.h"
#include "train/plan_stage.h"

namespace olm2 {

// One policy at one budget, over the programs of one optimizer step.
struct ComparedPlan {
  std::string policy;
  std::string budget;  // As asked for.
  int64_t budget_bytes = 0;
  bool fits = false;                // The rest of what follows `status` is empty otherwise.
  Status status = Status::optimal;  // The weakest of the programs.
  double solve_seconds = 0;
  double seconds = 0;   // Predicted, of one optimizer step.
  double overhead = 0;  // That over keeping everything, minus 1.
  double gap = 0;       // Largest.
  BytesPerTier peak{};
};

// Prints the table, a policy as soon as it is planned at all budgets (plan_sweep.h: its curve never
// rises), and returns it.
std::vector<ComparedPlan> compare(const PlanRequest& request, const Config& config,
                                  const PlanStage& stage);

// The table as comma-separated values.
std::string compared_csv(const std::vector<ComparedPlan>& table);

}  // namespace olm2
