#include "train/plan_compare.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "train/interruption.h"
#include "train/plan_sweep.h"
#include "train/progress.h"

namespace olm2 {
namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

ComparedPlan row_of(const StateSearch& found, int64_t grad_accumulation) {
  ComparedPlan row;
  for (const Certificate& certificate : found.certificates) {
    row.status = std::max(row.status, certificate.status);
    row.gap = std::max(row.gap, certificate.gap);
  }
  row.solve_seconds = found.solve_seconds;
  row.fits = found.plan.has_value();
  if (!row.fits) return row;
  const StepTime time = step_time(*found.plan, grad_accumulation);
  row.seconds = time.planned_s;
  row.overhead = time.planned_s / time.keep_all_s - 1;
  row.peak = found.plan->peak;
  return row;
}

// One policy at every budget; after an interruption by the plans that are there so far.
std::vector<ComparedPlan> rows_of(const Config& config, const PlanStage& stage,
                                  const std::string& policy,
                                  const std::vector<std::string>& budgets,
                                  const Interruption& interruption) {
  PlanOptions options = stage.options();
  options.policy = policy;
  options.should_stop = [&interruption] { return interruption.is_wished(); };
  std::vector<Budgets> bytes;
  for (const std::string& budget : budgets) {
    bytes.push_back(resolve_budgets(parse_byte_size(budget), config.memory.host_budget,
                                    stage.resident_problems()));
  }
  const std::vector<StateSearch> found = sweep_budgets(
      stage.programs(), stage.resident_problems(), bytes, options, stage.plans_state(),
      [&](size_t i) { say("planning " + policy + " at " + budgets[i]); });
  std::vector<ComparedPlan> rows;
  for (size_t i = 0; i < budgets.size(); ++i) {
    rows.push_back(row_of(found[i], config.train.grad_accumulation));
    rows.back().policy = policy;
    rows.back().budget = budgets[i];
    rows.back().budget_bytes = bytes[i].bytes[index_of(Tier::device)];
  }
  return rows;
}

void print(const ComparedPlan& row) {
  const std::string status(to_string(row.status));
  if (row.fits) {
    std::printf("%-10s %-10s %-10s %10.2f %8.2f %16lld %14lld %8.2f\n", row.policy.c_str(),
                row.budget.c_str(), status.c_str(), 100 * row.overhead, 100 * row.gap,
                static_cast<long long>(row.peak[index_of(Tier::device)]),
                static_cast<long long>(row.peak[index_of(Tier::host)]), row.solve_seconds);
  } else {
    std::printf("%-10s %-10s %-10s %10s %8s %16s %14s %8.2f\n", row.policy.c_str(),
                row.budget.c_str(), status.c_str(), "-", "-", "-", "-", row.solve_seconds);
  }
  std::fflush(stdout);
}

}  // namespace

std::vector<ComparedPlan> compare(const PlanRequest& request, const Config& config,
                                  const PlanStage& stage) {
  std::printf("%-10s %-10s %-10s %10s %8s %16s %14s %8s\n", "policy", "budget", "status",
              "overhead %", "gap %", "device peak", "host peak", "solve s");
  std::vector<ComparedPlan> table;
  const Interruption interruption(
      "comparing: ending with the best plans so far; Ctrl-C again ends it all");
  for (const std::string& policy : split(request.policies)) {
    if (interruption.is_wished()) break;
    for (ComparedPlan& row : rows_of(config, stage, policy, split(request.budgets), interruption)) {
      print(row);
      table.push_back(std::move(row));
    }
  }
  if (interruption.is_wished()) {
    std::printf("interrupted: the last policy has its best plans so far, those after it none.\n");
  }
  std::printf("%s\n", stage.plans_state()
                          ? "state=\"planned\": gradients take bytes only while they are there, "
                            "and state may rest on the host (memory.host_budget)."
                          : "state=\"resident\": parameters, gradients and moments stay on the "
                            "device.");
  return table;
}

std::string compared_csv(const std::vector<ComparedPlan>& table) {
  std::string csv =
      "policy,budget,status,overhead_percent,gap_percent,device_peak,host_peak,solve_s\n";
  for (const ComparedPlan& row : table) {
    csv += row.policy + "," + row.budget + "," + std::string(to_string(row.status)) + ",";
    std::array<char, 128> figures{};
    if (row.fits) {
      std::snprintf(figures.data(), figures.size(), "%.4f,%.4f,%lld,%lld,%.3f\n",
                    100 * row.overhead, 100 * row.gap,
                    static_cast<long long>(row.peak[index_of(Tier::device)]),
                    static_cast<long long>(row.peak[index_of(Tier::host)]), row.solve_seconds);
    } else {
      std::snprintf(figures.data(), figures.size(), ",,,,%.3f\n", row.solve_seconds);
    }
    csv += figures.data();
  }
  return csv;
}

}  // namespace olm2
