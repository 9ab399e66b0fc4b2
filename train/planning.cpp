#include "train/planning.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "memory/probe.h"
#include "train/measure.h"

namespace olm2 {
namespace {

Profile read_profile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error("planner.profile: cannot read " + path +
                "; expected \"measure\", \"estimate\" or a profile file");
  }
  Profile profile =
      parse_profile({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, path);
  profile.source = std::filesystem::path(path).filename();
  return profile;
}

// Ordinary copies within RAM: what the host link of a machine without an accelerator does.
constexpr LinkProfile kEstimatedLink = {
    .bytes_per_s = 5e9, .latency_s = 5e-6, .compute_slowdown = 1.3};

// Both directions, beside the graphs' most expensive kernel.
void probe_host_links(std::span<const Graph* const> graphs, Backend& backend, Profile& profile) {
  const KernelRunner typical = most_expensive_kernel(graphs, backend, profile);
  const auto compute = [&typical] { typical.run(); };
  profile.device_to_host = probe_link(Lane::device_to_host, compute);
  profile.host_to_device = probe_link(Lane::host_to_device, compute);
}

// Program `failed` has no plan.  Refuses in the name of the program that needs most: the minimum
// that the message states is then enough for all of them.
[[noreturn]] void refuse_budget(const RunPrograms& run, const std::vector<Problem>& problems,
                                size_t failed, std::string message, const Budgets& budgets,
                                const PlanOptions& options) {
  int64_t most = find_minimum(problems[failed], options).bytes;
  for (size_t i = failed + 1; i < problems.size(); ++i) {
    const int64_t bytes = find_minimum(problems[i], options).bytes;
    if (bytes <= most) continue;
    const Planned planned = plan_program(problems[i], options);
    if (planned.schedule) continue;
    most = bytes;
    failed = i;
    message = planned.certificate.message;
  }
  throw Error("program " + run.programs[failed].name + ": " + message + " (" + budgets.text + ")");
}

}  // namespace

RunPrograms programs_of(const Config& config, int64_t alignment) {
  const RunShape shape{.batch = config.train.batch_size,
                       .tokens = config.train.sequence_length,
                       .grad_accumulation = config.train.grad_accumulation,
                       .head_chunks = config.train.head_chunks,
                       .evaluation = config.output.eval_every > 0,
                       .sampling = config.output.sample_every > 0};
  const AdamW adamw{.beta1 = config.optimizer.beta1,
                    .beta2 = config.optimizer.beta2,
                    .epsilon = config.optimizer.eps,
                    .weight_decay = config.optimizer.weight_decay,
                    .grad_clip = config.optimizer.grad_clip};
  ModelConfig model = config.model;
  model.dtype = config.train.dtype == "bfloat16" ? DType::bf16 : DType::f32;
  return build_programs(model, shape, adamw, alignment);
}

Profile profile_of(const Config& config, const RunPrograms& run, Backend& backend, Profile known,
                   const std::function<void(size_t, size_t)>& progress) {
  std::vector<const Graph*> graphs;
  for (const Program& program : run.programs) graphs.push_back(&program.graph);
  const std::string& wish = config.planner.profile;
  if (wish != "measure" && wish != "estimate") return read_profile(wish);

  Profile profile = wish == "estimate" ? Profile{} : std::move(known);
  profile.device = backend.description();
  if (wish == "estimate") {
    profile.source = "estimated";
    estimate_kernels(graphs, backend, profile);
    profile.device_to_host = profile.host_to_device = kEstimatedLink;
    return profile;
  }
  profile.source = "measured";
  measure_kernels(graphs, backend, profile, progress);
  if (config.memory.host_budget.bytes > 0 && profile.device_to_host.bytes_per_s == 0) {
    probe_host_links(graphs, backend, profile);
  }
  return profile;
}

bool lacks_kernels(const RunPrograms& run, const Profile& profile) {
  return std::ranges::any_of(run.programs, [&](const Program& program) {
    return std::ranges::any_of(program.graph.nodes(), [&](const Node& node) {
      return !profile.kernels.contains(signature(program.graph, node));
    });
  });
}

std::vector<Problem> problems_of(const RunPrograms& run, const Profile& profile,
                                 int64_t alignment) {
  std::vector<Problem> problems;
  for (const Program& program : run.programs) {
    problems.push_back(make_problem(run, program, alignment));
    apply_profile(profile, problems.back());
  }
  return problems;
}

Budgets resolve_budgets(const ByteSize& device, const ByteSize& host,
                        const std::vector<Problem>& problems) {
  Budgets budgets;
  for (const Problem& problem : problems) {
    budgets.state_bytes = problem.state_bytes;
    const Minimum keep_all = find_minimum(problem, {.policy = "none"});
    budgets.keep_all_bytes = std::max(budgets.keep_all_bytes, keep_all.bytes);
  }
  const int64_t activations = budgets.keep_all_bytes - budgets.state_bytes;
  int64_t& bytes = budgets.bytes[index_of(Tier::device)];
  bytes = device.bytes;
  budgets.text = "device budget " + describe_bytes(device.bytes);
  if (device.is_percent()) {
    bytes =
        budgets.state_bytes +
        static_cast<int64_t>(std::floor(device.percent / 100.0 * static_cast<double>(activations)));
    budgets.text = "device budget " + to_string(device) + " = " + describe_bytes(bytes) + " = " +
                   std::to_string(budgets.state_bytes) + " of state + " + to_string(device) +
                   " of " + std::to_string(activations) + " of activations";
  }
  budgets.bytes[index_of(Tier::host)] = host.bytes;
  if (host.bytes > 0) budgets.text += "; host budget " + describe_bytes(host.bytes);
  return budgets;
}

RunPlan collect_plans(const RunPrograms& run, const std::vector<Problem>& problems,
                      const Budgets& budgets, std::vector<Planned> planned) {
  RunPlan plan;
  plan.budgets = budgets;
  for (size_t i = 0; i < problems.size(); ++i) {
    for (const Tier tier : kTiers) {
      plan.peak[index_of(tier)] =
          std::max(plan.peak[index_of(tier)], planned[i].certificate.peak[index_of(tier)]);
    }
    plan.programs.push_back({&run.programs[i], problems[i], std::move(planned[i])});
  }
  return plan;
}

TriedPlans try_to_plan(const std::vector<Problem>& problems, const PlanOptions& options) {
  TriedPlans tried;
  double left_s = options.time_limit_s;
  for (size_t i = 0; i < problems.size(); ++i) {
    PlanOptions mine = options;
    // A fair share each, and what earlier programs left.
    mine.time_limit_s = std::max(0.0, left_s) / static_cast<double>(problems.size() - i);
    tried.planned.push_back(plan_program(problems[i], mine));
    left_s -= tried.planned.back().certificate.solve_seconds;
    if (tried.planned.back().schedule) continue;
    tried.failed = static_cast<int>(i);
    break;
  }
  return tried;
}

RunPlan plan_run(const RunPrograms& run, std::vector<Problem> problems, const Budgets& budgets,
                 const PlanOptions& options) {
  for (Problem& problem : problems) problem.budget = budgets.bytes;
  TriedPlans tried = try_to_plan(problems, options);
  if (tried.failed >= 0) {
    refuse_budget(run, problems, static_cast<size_t>(tried.failed),
                  tried.planned.back().certificate.message, budgets, options);
  }
  return collect_plans(run, problems, budgets, std::move(tried.planned));
}

PlanOptions plan_options_of(const Config& config) {
  PlanOptions options;
  options.policy = config.memory.policy;
  options.gap = config.planner.gap;
  options.time_limit_s = config.planner.time_limit_s;
  options.space = config.planner.space;
  options.place_effort = static_cast<int>(config.planner.place_effort);
  options.partial_swap = config.memory.partial_swap;
  options.memory_limit_bytes = config.planner.memory_limit.bytes;
  return options;
}

std::vector<ExecutableProgram> executable(const RunPlan& plan) {
  std::vector<ExecutableProgram> programs;
  for (const PlannedProgram& entry : plan.programs) {
    programs.push_back({entry.program->name, entry.problem, entry.planned.schedule.value()});
  }
  return programs;
}

StepTime step_time(const RunPlan& plan, int64_t grad_accumulation) {
  StepTime time;
  for (int64_t micro = 0; micro < grad_accumulation; ++micro) {
    const std::string name = program_name(micro, grad_accumulation);
    const auto entry = std::ranges::find(plan.programs, name,
                                         [](const PlannedProgram& p) { return p.program->name; });
    ensure(entry != plan.programs.end(), "a step's program was not planned");
    time.planned_s += entry->planned.certificate.objective_s;
    time.keep_all_s += entry->planned.certificate.baseline_s;
  }
  return time;
}

}  // namespace olm2
