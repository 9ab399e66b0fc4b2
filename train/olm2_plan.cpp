// olm2-plan: what a run would keep, recompute and move, and what that costs, without opening any
// data.
#include <CLI/CLI.hpp>

#include "core/program.h"
#include "core/version.h"
#include "train/plan_request.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Plans a run inside a memory budget; opens no data files.\n"
      "Example: olm2-plan gpt2.toml --policy olm2 --budget 40% --out plan.json");
  olm2::PlanRequest request;
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
  return olm2::run_program("olm2-plan", [&] { olm2::answer(request); });
}
