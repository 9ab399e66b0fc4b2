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

  // Where to write the plan, a page about it (or about the comparison), its lanes; empty: nowhere.
  std::string out;
  std::string report;
  std::string trace;
  std::string read_solution;  // Take this solution of a written model instead of solving it.
  std::string why;            // Explain what the plan does with this tensor.

  // Questions besides "plan this"; at most one.
  bool minimum = false;
  bool compare = false;
  bool largest_batch = false;
  std::string write_mps;  // The model's file.
  bool compare_chunks = false;

  // For compare.
  std::string policies = "none,chen,recompute,swap,olm2";
  std::string budgets = "100%,80%,60%,40%,30%";
  std::string csv;  // Empty: none is written.
};

// Answers on stdout.  Throws Error for a request that cannot be met.
void answer(const PlanRequest& request);

}  // namespace olm2
