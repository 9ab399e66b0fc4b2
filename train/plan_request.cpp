#include "train/plan_request.h"

#include <filesystem>
#include <iostream>

#include "kernels/cpu/cpu_backend.h"
#include "train/files.h"
#include "train/measure.h"
#include "train/plan_compare.h"
#include "train/plan_stage.h"
#include "train/run_folder.h"

namespace olm2 {
namespace {

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

void plan(const PlanRequest& request, PlanStage& stage, const std::filesystem::path& profile_file) {
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

Config config_of(const PlanRequest& request) {
  std::vector<std::string> sets = request.sets;
  if (!request.policy.empty()) sets.push_back("memory.policy=" + request.policy);
  if (!request.budget.empty()) sets.push_back("memory.device_budget=\"" + request.budget + "\"");
  return load_config(request.config_file, sets);
}

}  // namespace

void answer(const PlanRequest& request) {
  const Config config = config_of(request);
  CpuBackend backend({.threads = static_cast<int>(config.train.threads)});
  const std::filesystem::path profile_file =
      profile_beside(request.out.empty() ? std::filesystem::path(config.output.dir) / "plan.json"
                                         : std::filesystem::path(request.out));
  PlanStage stage(config, backend, read_cached_profile(profile_file, backend.description()));
  if (request.minimum) return print_minimum(stage);
  if (request.compare) {
    const std::vector<ComparedPlan> table = compare(request, config, stage);
    if (!request.csv.empty()) write_file(request.csv, compared_csv(table));
    return;
  }
  plan(request, stage, profile_file);
}

}  // namespace olm2
