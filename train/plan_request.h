// What olm2-plan was asked: one question, and where the answer goes.
#pragma once

#include <string>
#include <vector>

namespace olm2 {

struct PlanRequest {
  std::string config_file;
  std::vector<std::string> sets;
  std::string policy;  // Empty: that of the configuration.
  std::string budget;  // Of the device; empty: that of the configuration.
  std::string out;     // Empty: the plan is not written.

  // Questions besides "plan this"; at most one.
  bool minimum = false;
  bool compare = false;

  // For compare.
  std::string policies = "none,chen,recompute,swap,olm2";
  std::string budgets = "100%,80%,60%,40%,30%";
  std::string csv;  // Empty: none is written.
};

// Answers on stdout.  Throws Error for a request that cannot be met.
void answer(const PlanRequest& request);

}  // namespace olm2
