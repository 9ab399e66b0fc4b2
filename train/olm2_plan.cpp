// olm2-plan: what a memory budget costs, without opening any data.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

#include <CLI/CLI.hpp>

#include "core/program.h"
#include "core/version.h"
#include "kernels/cpu/cpu_backend.h"
#include "train/files.h"
#include "train/measure.h"
#include "train/plan_stage.h"
#include "train/run_folder.h"

namespace olm2 {
namespace {

struct Request {
  std::string config_file;
  std::vector<std::string> sets;
  std::string policy;
  std::string budget;
  std::string out;
  bool minimum = false;
  bool compare = false;
  std::string policies = "none,chen,recompute,swap,olm2";
  std::string budgets = "100%,80%,60%,40%,30%";
  std::string csv;
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

void print_minimum(const PlanStage& stage) {
  for (size_t i = 0; i < stage.problems().size(); ++i) {
    const Minimum minimum = find_minimum(stage.problems()[i], stage.options());
    std::cout << stage.programs().programs[i].name << ": policy " << stage.options().policy
              << " needs at least " << describe_bytes(minimum.bytes) << " on the device, at "
              << minimum.moment << "; no plan of any policy fits in less than "
              << describe_bytes(minimum.proven_bytes) << ". Alive at that moment:\n";
    for (const std::string& tensor : minimum.alive) std::cout << "  " << tensor << "\n";
  }
}

// One policy at one budget, over the programs of one optimizer step.
struct Cell {
  bool fits = false;
  Status status = Status::optimal;  // The weakest of the programs.
  double overhead = 0;              // Predicted time over that of keeping everything, minus 1.
  double gap = 0;                   // Largest.
  double solve_seconds = 0;
  BytesPerTier peak{};
};

Cell plan_cell(const Config& config, const PlanStage& stage, const std::string& policy,
               const std::string& budget) {
  PlanOptions options = stage.options();
  options.policy = policy;
  std::vector<Problem> problems = stage.problems();
  const Budgets budgets =
      resolve_budgets(parse_byte_size(budget), config.memory.host_budget, problems);
  std::vector<Planned> planned;
  Cell cell{.fits = true};
  for (Problem& problem : problems) {
    problem.budget = budgets.bytes;
    planned.push_back(plan_program(problem, options));
    const Certificate& certificate = planned.back().certificate;
    cell.fits = cell.fits && planned.back().schedule.has_value();
    cell.status = std::max(cell.status, certificate.status);
    cell.gap = std::max(cell.gap, certificate.gap);
    cell.solve_seconds += certificate.solve_seconds;
  }
  if (!cell.fits) return cell;
  const RunPlan plan = collect_plans(stage.programs(), problems, budgets, std::move(planned));
  const StepTime time = step_time(plan, config.train.grad_accumulation);
  cell.overhead = time.planned_s / time.keep_all_s - 1;
  cell.peak = plan.peak;
  return cell;
}

void compare(const Request& request, const Config& config, const PlanStage& stage) {
  std::string csv =
      "policy,budget,status,overhead_percent,gap_percent,device_peak,host_peak,solve_s\n";
  std::printf("%-10s %-10s %-10s %10s %8s %16s %14s %8s\n", "policy", "budget", "status",
              "overhead %", "gap %", "device peak", "host peak", "solve s");
  for (const std::string& policy : split(request.policies)) {
    for (const std::string& budget : split(request.budgets)) {
      const Cell cell = plan_cell(config, stage, policy, budget);
      const std::string status(to_string(cell.status));
      std::array<char, 256> row{};
      if (cell.fits) {
        std::printf("%-10s %-10s %-10s %10.2f %8.2f %16lld %14lld %8.2f\n", policy.c_str(),
                    budget.c_str(), status.c_str(), 100 * cell.overhead, 100 * cell.gap,
                    static_cast<long long>(cell.peak[0]), static_cast<long long>(cell.peak[1]),
                    cell.solve_seconds);
        std::snprintf(row.data(), row.size(), "%s,%s,%s,%.4f,%.4f,%lld,%lld,%.3f\n", policy.c_str(),
                      budget.c_str(), status.c_str(), 100 * cell.overhead, 100 * cell.gap,
                      static_cast<long long>(cell.peak[0]), static_cast<long long>(cell.peak[1]),
                      cell.solve_seconds);
      } else {
        std::printf("%-10s %-10s %-10s %10s %8s %16s %14s %8.2f\n", policy.c_str(), budget.c_str(),
                    status.c_str(), "-", "-", "-", "-", cell.solve_seconds);
        std::snprintf(row.data(), row.size(), "%s,%s,%s,,,,,%.3f\n", policy.c_str(), budget.c_str(),
                      status.c_str(), cell.solve_seconds);
      }
      std::fflush(stdout);
      csv += row.data();
    }
  }
  std::printf("state=\"resident\": parameters, gradients and moments stay on the device.\n");
  if (!request.csv.empty()) write_file(request.csv, csv);
}

void plan(const Request& request) {
  std::vector<std::string> sets = request.sets;
  if (!request.policy.empty()) sets.push_back("memory.policy=" + request.policy);
  if (!request.budget.empty()) sets.push_back("memory.device_budget=\"" + request.budget + "\"");
  const Config config = load_config(request.config_file, sets);
  CpuBackend backend({.threads = static_cast<int>(config.train.threads)});
  const std::filesystem::path profile_file =
      profile_beside(request.out.empty() ? std::filesystem::path(config.output.dir) / "plan.json"
                                         : std::filesystem::path(request.out));
  PlanStage stage(config, backend, read_cached_profile(profile_file, backend.description()));
  if (request.minimum) return print_minimum(stage);
  if (request.compare) return compare(request, config, stage);
  stage.make_plan();
  std::cout << stage.description() << "\n";
  if (request.out.empty()) return;
  stage.write_plan(request.out);
  std::cout << "plan written to " << request.out << "\n";
  if (stage.profile().source != "measured") return;
  write_file(profile_file, to_json(stage.profile()));
  std::cout << "the times it was made for are in " << profile_file.string()
            << "; olm2-train --plan reads them there\n";
}

}  // namespace
}  // namespace olm2

int main(int argc, char** argv) {
  CLI::App app(
      "Plans a run inside a memory budget; opens no data files.\n"
      "Example: olm2-plan gpt2.toml --policy olm2 --budget 40% --out plan.json");
  olm2::Request request;
  app.add_option("config", request.config_file, "Configuration file (TOML)")->required();
  app.add_option("--set", request.sets, "Override a key: section.key=value; may be given often")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--policy", request.policy, "The same as --set memory.policy=...");
  app.add_option("--budget", request.budget, "The same as --set memory.device_budget=...");
  CLI::Option* out = app.add_option("--out", request.out, "Write the plan here");
  CLI::Option* minimum =
      app.add_flag("--minimum", request.minimum, "Print the smallest budget, and what binds there");
  CLI::Option* compare =
      app.add_flag("--compare", request.compare, "Print a table of policies and budgets");
  minimum->excludes(out);
  compare->excludes(out)->excludes(minimum);
  app.add_option("--policies", request.policies, "For --compare")
      ->capture_default_str()
      ->needs(compare);
  app.add_option("--budgets", request.budgets, "For --compare")
      ->capture_default_str()
      ->needs(compare);
  app.add_option("--csv", request.csv, "Write the table of --compare here, too")->needs(compare);
  app.set_version_flag("--version", olm2::version_text());
  CLI11_PARSE_OR_EXIT_2(app, argc, argv);
  return olm2::run_program("olm2-plan", [&] { olm2::plan(request); });
}
