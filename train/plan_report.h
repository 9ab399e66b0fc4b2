// A plan as a page for people: what it costs, what is in memory when, who works when, what happens
// to which tensors, how good it is and why that is known.  One HTML file without script or network.
#pragma once

#include <string>
#include <vector>

#include "train/plan_stage.h"
#include "train/planning.h"

namespace olm2 {

// The same run with more memory on the device.
struct MoreMemory {
  int64_t extra_bytes = 0;
  double step_s = 0;
  bool keeps_everything = false;
};

struct ReportFacts {
  std::string title;    // The network and its batch.
  std::string policy;   // In words: name and what it stands for.
  std::string profile;  // Where the times come from.
  std::string state;    // Where parameters, gradients and moments are, in words.
  int64_t grad_accumulation = 1;
  int64_t tokens_per_step = 0;
  std::vector<MoreMemory> more;     // May be empty.
  double most_saved_per_byte = -1;  // Seconds per step, by the bound; negative: not asked.
};
ReportFacts facts_of(const Config& config, const PlanStage& stage);

// Plans again with more memory (each within the time limit of the first plan), and asks the bound.
void find_what_more_would_buy(const Config& config, const PlanStage& stage, ReportFacts& facts);

std::string plan_report(const RunPlan& plan, const ReportFacts& facts);

}  // namespace olm2
