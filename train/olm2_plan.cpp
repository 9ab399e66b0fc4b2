// olm2-plan: what a run would keep, recompute and move, and what that costs, without opening any
// data.
#include <CLI/CLI.hpp>

#include "core/program.h"
#include "core/version.h"
#include "planner/solver_process.h"
#include "train/plan_request.h"

namespace {

// The questions exclude each other, and what belongs to a plan asks for one.
void add_questions(CLI::App& app, olm2::PlanRequest& request) {
  CLI::Option* minimum =
      app.add_flag("--minimum", request.minimum, "Print the smallest budget, and what binds there");
  CLI::Option* compare =
      app.add_flag("--compare", request.compare, "Print a table of policies and budgets");
  CLI::Option* largest =
      app.add_flag("--largest-batch", request.largest_batch,
                   "Find the largest train.batch_size for a device budget in bytes");
  CLI::Option* chunks =
      app.add_flag("--compare-chunks", request.compare_chunks,
                   "Print a table of train.head_chunks: memory, time, and what the budget costs");
  CLI::Option* write_mps =
      app.add_option("--write-mps", request.write_mps,
                     "Write the planning model for other solvers: MPS, or LP if FILE ends in .lp")
          ->type_name("FILE");
  const std::vector<CLI::Option*> questions = {minimum, compare, chunks, largest, write_mps};
  for (size_t i = 0; i < questions.size(); ++i) {
    for (size_t k = 0; k < i; ++k) questions[i]->excludes(questions[k]);
  }
  const auto of_a_plan = [&](CLI::Option* option, bool also_compared) {
    for (CLI::Option* question : questions) {
      if (question != compare || !also_compared) option->excludes(question);
    }
  };
  of_a_plan(app.add_option("--out", request.out, "Write the plan here")->type_name("FILE"), false);
  of_a_plan(app.add_option("--report", request.report,
                           "Write a page about the plan, or about --compare, here (HTML)")
                ->type_name("FILE"),
            true);
  of_a_plan(app.add_option("--trace", request.trace,
                           "Write the plan's lanes and memory here (Chrome trace format)")
                ->type_name("FILE"),
            false);
  of_a_plan(app.add_option("--why", request.why,
                           "Explain what the plan does with this tensor, e.g. h.3.mlp.c_fc")
                ->type_name("TENSOR"),
            false);
  of_a_plan(app.add_option("--read-solution", request.read_solution,
                           "Take another solver's solution of the model that --write-mps wrote: "
                           "lines \"name value\", or what HiGHS, SCIP, CBC and glpsol write")
                ->type_name("FILE"),
            false);
  for (const auto& [name, value, text] :
       {std::tuple{"--policies", &request.policies, "For --compare"},
        std::tuple{"--budgets", &request.budgets, "For --compare"}}) {
    app.add_option(name, *value, text)->capture_default_str()->needs(compare);
  }
  app.add_option("--csv", request.csv, "Write the table of --compare here, too")->needs(compare);
}

}  // namespace

int main(int argc, char** argv) {
  olm2::serve_solver(argc, argv);
  CLI::App app(
      "Plans a run inside a memory budget; opens no data files.\n"
      "Example: olm2-plan gpt2.toml --policy olm2 --budget 40% --out plan.json --report plan.html");
  olm2::PlanRequest request;
  app.add_option("config", request.config_file, "Configuration file (TOML)")->required();
  app.add_option("--set", request.sets, "Override a key: section.key=value; may be given often")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--policy", request.policy, "The same as --set memory.policy=...");
  app.add_option("--budget", request.budget, "The same as --set memory.device_budget=...");
  add_questions(app, request);
  app.set_version_flag("--version", olm2::version_text());
  CLI11_PARSE_OR_EXIT_2(app, argc, argv);
  return olm2::run_program("olm2-plan", [&] { olm2::answer(request); });
}
