#include "train/plan_request.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "core/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "planner/model_file.h"
#include "planner/moving_state.h"
#include "train/compare_report.h"
#include "train/files.h"
#include "train/interruption.h"
#include "train/measure.h"
#include "train/page.h"
#include "train/plan_chunks.h"
#include "train/plan_compare.h"
#include "train/plan_largest.h"
#include "train/plan_report.h"
#include "train/plan_stage.h"
#include "train/plan_why.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/trace_file.h"

namespace olm2 {
namespace {

namespace fs = std::filesystem;

// Of several programs, each has a file of its own: "plan.mps" becomes "plan.first.mps".
fs::path file_of(const fs::path& file, const PlanStage& stage, size_t program) {
  if (stage.programs().programs.size() == 1) return file;
  const std::string name = stage.programs().programs[program].name;
  return file.parent_path() / (file.stem().string() + "." + name + file.extension().string());
}

void print_minimum(const PlanStage& stage) {
  const std::vector<Problem> problems = stage.roomiest_problems();
  const Interruption interruption(
      "looking for the minimum: ending with the smallest plan so far; Ctrl-C again ends it all");
  PlanOptions options = stage.options();
  options.should_stop = [&interruption] { return interruption.is_wished(); };
  for (size_t i = 0; i < problems.size() && !interruption.is_wished(); ++i) {
    const Minimum minimum = find_minimum(problems[i], options);
    if (interruption.is_wished()) std::cout << "interrupted, so that less may do: ";
    std::cout << stage.programs().programs[i].name << ": policy " << stage.options().policy
              << " needs at least " << describe_bytes(minimum.bytes) << " on the device, at "
              << minimum.moment << "; no plan of any policy fits in less than "
              << describe_bytes(minimum.proven_bytes) << ". Alive at that moment:\n";
    for (const std::string& tensor : minimum.alive) std::cout << "  " << tensor << "\n";
  }
}

void compare_policies(const PlanRequest& request, const Config& config, const PlanStage& stage) {
  const std::vector<ComparedPlan> table = compare(request, config, stage);
  if (!request.csv.empty()) write_file(request.csv, compared_csv(table));
  if (request.report.empty()) return;
  write_file(request.report, compare_report(table, stage.budgets(), facts_of(config, stage)));
  std::cout << "report written to " << request.report << "\n";
}

void write_models(const PlanRequest& request, const PlanStage& stage) {
  const bool is_lp = fs::path(request.write_mps).extension() == ".lp";
  for (size_t i = 0; i < stage.problems().size(); ++i) {
    const CompleteModel model =
        complete_model(settle(stage.problems()[i], false).problem, stage.options());
    const fs::path file = file_of(request.write_mps, stage, i);
    write_file(file, is_lp ? to_lp(model) : to_mps(model));
    std::cout << "model of program " << stage.programs().programs[i].name << " written to "
              << file.string() << ": " << model.linear.rows.size() << " rows, "
              << model.linear.columns.size() << " columns, "
              << std::ranges::count_if(model.linear.columns, &Column::integer)
              << " of them 0 or 1\n";
  }
}

void read_solutions(const PlanRequest& request, PlanStage& stage) {
  std::vector<Planned> planned;
  for (size_t i = 0; i < stage.problems().size(); ++i) {
    const fs::path file = file_of(request.read_solution, stage, i);
    const Problem problem = settle(stage.problems()[i], false).problem;
    const CompleteModel model = complete_model(problem, stage.options());
    const std::vector<double> x = parse_solution(model, read_file(file), file.string());
    const std::string origin = "solution " + file.filename().string();
    const Planned found = plan_of_solution(problem, stage.options(), model, x, origin);
    planned.push_back(certify(stage.problems()[i], stage.options(), found.plan, origin));
  }
  stage.take_plan(std::move(planned));
}

// In the longest program that has it.
std::string explain(const PlanRequest& request, const PlanStage& stage) {
  std::vector<const PlannedProgram*> programs;
  for (const PlannedProgram& entry : stage.plan().programs) programs.push_back(&entry);
  std::ranges::stable_sort(programs, std::ranges::greater{}, [](const PlannedProgram* entry) {
    return entry->planned.certificate.objective_s;
  });
  for (const PlannedProgram* entry : programs) {
    if (entry->problem.graph->find_or_invalid(request.why).valid()) {
      return why(*entry, request.why);
    }
  }
  ensure(false, "a tensor that no program has");
  return {};
}

std::string planned_traces(const PlanStage& stage) {
  std::vector<TracedProgram> traces;
  for (const PlannedProgram& entry : stage.plan().programs) {
    traces.push_back(
        planned_trace(entry.program->name, entry.problem, entry.planned.schedule->schedule()));
  }
  return trace_text(traces);
}

void plan(const PlanRequest& request, const Config& config, PlanStage& stage,
          const fs::path& profile_file) {
  if (!request.why.empty()) check_tensor_name(stage.problems(), request.why);
  if (request.read_solution.empty()) {
    stage.make_plan();
  } else {
    read_solutions(request, stage);
  }
  std::cout << stage.description() << "\n";
  if (!request.why.empty()) std::cout << explain(request, stage);
  if (!request.trace.empty()) {
    write_file(request.trace, planned_traces(stage));
    std::cout << "lanes and memory of the plan written to " << request.trace
              << "; chrome://tracing and ui.perfetto.dev show them\n";
  }
  if (!request.report.empty()) {
    ReportFacts facts = facts_of(config, stage);
    find_what_more_would_buy(config, stage, facts);
    write_file(request.report, plan_report(stage.plan(), facts));
    std::cout << "report written to " << request.report << "\n";
  }
  if (request.out.empty()) return;
  stage.write_plan(request.out);
  std::cout << "plan written to " << request.out << "\n";
  if (stage.profile().source != "measured") return;
  write_file(profile_file, to_json(stage.profile()));
  std::cout << "the times it was made for are in " << profile_file.string()
            << "; olm2-train --plan reads them there\n";
}

void print_largest_batch(Config config, CpuBackend& backend) {
  const LargestBatch largest =
      find_largest_batch(config, backend, [](const std::string& line) { say(line); });
  const std::string next = "One sequence more needs " + describe_bytes(largest.next_bytes) +
                           ", at " + largest.next_moment + " of program " + largest.next_program;
  if (largest.batch_size == 0) {
    throw Error("--largest-batch: not even one sequence fits into " +
                describe_bytes(config.memory.device_budget.bytes) + ": it needs " +
                describe_bytes(largest.next_bytes) + ", at " + largest.next_moment +
                " of program " + largest.next_program);
  }
  config.train.batch_size = largest.batch_size;
  PlanStage stage(config, backend, {});
  stage.make_plan();
  const int64_t micros = config.train.grad_accumulation;
  const double seconds = step_time(stage.plan(), micros).planned_s;
  const int64_t tokens = config.train.batch_size * config.train.sequence_length * micros;
  std::cout << stage.description() << "\nlargest train.batch_size within "
            << describe_bytes(config.memory.device_budget.bytes) << ": " << largest.batch_size
            << ", " << tokens << " tokens per step, predicted "
            << static_cast<int64_t>(static_cast<double>(tokens) / seconds) << " tokens per second. "
            << (largest.next_bytes > 0 ? next : "No batch is larger") << ".\n";
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
  if (request.largest_batch) return print_largest_batch(config, backend);
  const fs::path profile_file = profile_beside(
      request.out.empty() ? fs::path(config.output.dir) / "plan.json" : fs::path(request.out));
  PlanStage stage(config, backend, read_cached_profile(profile_file, backend.description()));
  if (request.minimum) return print_minimum(stage);
  if (request.compare) return compare_policies(request, config, stage);
  if (request.compare_chunks) {
    compare_chunks(config, backend, stage);
    return;
  }
  if (!request.write_mps.empty()) return write_models(request, stage);
  plan(request, config, stage, profile_file);
}

}  // namespace olm2
