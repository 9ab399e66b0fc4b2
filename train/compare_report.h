// The table of --compare as a page: for each policy the overhead over the budget, as a curve.
#pragma once

#include <string>
#include <vector>

#include "train/plan_compare.h"
#include "train/plan_report.h"

namespace olm2 {

std::string compare_report(const std::vector<ComparedPlan>& table, const Budgets& budgets,
                           const ReportFacts& facts);

}  // namespace olm2
