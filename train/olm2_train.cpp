// olm2-train: trains the network of a configuration file inside a memory budget.
#include <cstdio>
#include <iostream>

#include <CLI/CLI.hpp>

#include "core/program.h"
#include "core/version.h"
#include "kernels/cpu/cpu_backend.h"
#include "planner/solver_process.h"
#include "train/trainer.h"

int main(int argc, char** argv) {
  olm2::serve_solver(argc, argv);
  CLI::App app(
      "Trains the network of a configuration file inside a memory budget.\n"
      "Example: olm2-train gpt2.toml --set memory.device_budget=40% --set train.steps=1000");
  std::string config_file;
  std::vector<std::string> sets;
  olm2::TrainRequest request;
  int64_t steps = -1;
  app.add_option("config", config_file, "Configuration file (TOML)")->required();
  app.add_option("--set", sets, "Override a key: section.key=value; may be given often")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--plan", request.plan_file, "Run this plan.json instead of planning");
  app.add_flag("--resume", request.resume, "Go on from the newest complete checkpoint");
  app.add_option("--steps", steps, "Make at most this many steps now; the run's length stays")
      ->check(CLI::PositiveNumber);
  CLI::Option* dry_run =
      app.add_flag("--dry-run", request.dry_run, "Plan, print the plan's figures, and stop");
  app.add_option("--trace", request.trace, "Write the last step's lanes (Chrome trace format)")
      ->excludes(dry_run);
  app.set_version_flag("--version", olm2::version_text());
  CLI11_PARSE_OR_EXIT_2(app, argc, argv);

  return olm2::run_program("olm2-train", [&] {
    request.config = olm2::load_config(config_file, sets);
    if (steps > 0) request.steps = steps;
    olm2::CpuBackend backend({.threads = static_cast<int>(request.config.train.threads)});
    const olm2::TrainSummary summary = olm2::train(request, backend);
    if (request.dry_run && !summary.plan_text.empty()) {
      std::cout << summary.plan_text << "\n";
      return;
    }
    std::cout << olm2::to_string(summary, request.config);
  });
}
