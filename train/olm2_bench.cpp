// olm2-bench: measures steps and kernels; every line of its output is a JSON object.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/op.h"
#include "core/program.h"
#include "core/version.h"
#include "kernels/cpu/cpu_backend.h"
#include "planner/solver_process.h"
#include "train/files.h"
#include "train/measure.h"
#include "train/plan_bench.h"
#include "train/plan_stage.h"
#include "train/run_state.h"
#include "train/step_runner.h"

namespace olm2 {
namespace {

using Json = nlohmann::ordered_json;

struct Request {
  std::string config_file;
  std::vector<std::string> sets;
  std::vector<std::string> cases = {"none@100%", "olm2@40%"};
  int steps = 10;
  int warmup = 2;
  double throttle = 0;  // Bytes per second of both host links.
  std::string json;
};

class Output {
 public:
  explicit Output(std::string file) : file_(std::move(file)) {}
  void line(const Json& json) {
    text_ += json.dump() + "\n";
    std::cout << json.dump() << std::endl;
  }
  void finish() const {
    if (!file_.empty()) write_file(file_, text_);
  }

 private:
  std::string file_;
  std::string text_;
};

Json machine_json(const Backend& backend) {
  return {{"machine", backend.description()}, {"version", version_text()}};
}

// A policy at a budget, planned and ready to run on made-up tokens.
struct BenchCase {
  BenchCase(const std::string& text, const Request& request, Backend& backend, Profile& known)
      : name(text) {
    const size_t at = text.find('@');
    if (at == std::string::npos) {
      throw Error("--cases: got '" + text + "', expected POLICY@BUDGET, e.g. olm2@40%");
    }
    std::vector<std::string> sets = request.sets;
    sets.push_back("memory.policy=" + text.substr(0, at));
    sets.push_back("memory.device_budget=\"" + text.substr(at + 1) + "\"");
    config = load_config(request.config_file, sets);
    stage = std::make_unique<PlanStage>(config, backend, known);
    known = stage->profile();
    stage->make_plan();
    executor =
        std::make_unique<Executor>(executable(stage->plan()), backend,
                                   ExecutorOptions{.device_to_host_bytes_per_s = request.throttle,
                                                   .host_to_device_bytes_per_s = request.throttle});
    initialize_state(*executor, stage->programs(), 1337);
    runner = std::make_unique<StepRunner>(*executor, config);
  }

  double run(int64_t step) {
    const auto vocab = static_cast<uint64_t>(config.model.vocab_size);
    const auto start = std::chrono::steady_clock::now();
    const StepResult result = runner->run(
        step, [&](int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) {
          for (size_t i = 0; i < tokens.size(); ++i) {
            const uint64_t n = static_cast<uint64_t>(index) * tokens.size() + i;
            tokens[i] = static_cast<int32_t>(n * 2654435761U % vocab);
            targets[i] = static_cast<int32_t>((n + 1) * 2654435761U % vocab);
          }
        });
    loss = result.loss;
    peak = result.report.peak;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::string name;
  Config config;
  std::unique_ptr<PlanStage> stage;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<StepRunner> runner;
  std::vector<double> seconds;
  double loss = 0;
  BytesPerTier peak{};
};

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

// A link that rests between its copies holds up computing only while it is busy.
void throttle(LinkProfile& link, double bytes_per_s) {
  if (link.bytes_per_s <= bytes_per_s) return;
  link.compute_slowdown = 1 + (link.compute_slowdown - 1) * bytes_per_s / link.bytes_per_s;
  link.bytes_per_s = bytes_per_s;
}

// What is known before the first case is planned: the links as they will be.
Profile throttled_profile(const Request& request, const Config& config, Backend& backend) {
  if (request.throttle == 0) return {};
  if (config.planner.profile != "measure") {
    throw Error("--throttle: got planner.profile = \"" + config.planner.profile +
                "\", whose links are not this machine's; expected \"measure\"");
  }
  const PlanStage stage(config, backend, {});
  Profile profile = stage.profile();
  throttle(profile.device_to_host, request.throttle);
  throttle(profile.host_to_device, request.throttle);
  return profile;
}

// Steps of all cases take turns, so that a slow minute of the machine is everybody's.
void bench_steps(const Request& request) {
  const Config first = load_config(request.config_file, request.sets);
  CpuBackend backend({.threads = static_cast<int>(first.train.threads)});
  Output output(request.json);
  output.line(machine_json(backend));
  Profile known = throttled_profile(request, first, backend);
  std::vector<std::unique_ptr<BenchCase>> cases;
  for (const std::string& text : request.cases) {
    cases.push_back(std::make_unique<BenchCase>(text, request, backend, known));
  }
  for (int step = 0; step < request.warmup + request.steps; ++step) {
    for (const auto& c : cases) {
      const double seconds = c->run(step);
      if (step >= request.warmup) c->seconds.push_back(seconds);
    }
  }
  const double base = median(cases.front()->seconds);
  for (const auto& c : cases) {
    const StepTime time = step_time(c->stage->plan(), c->config.train.grad_accumulation);
    const auto [low, high] = std::ranges::minmax(c->seconds);
    const int64_t tokens = c->config.train.batch_size * c->config.train.sequence_length *
                           c->config.train.grad_accumulation;
    const double middle = median(c->seconds);
    double solve = 0;
    for (const PlannedProgram& p : c->stage->plan().programs) {
      solve += p.planned.certificate.solve_seconds;
    }
    output.line({{"case", c->name},
                 {"steps", request.steps},
                 {"median_ms", 1e3 * middle},
                 {"min_ms", 1e3 * low},
                 {"max_ms", 1e3 * high},
                 {"tokens_per_s", static_cast<double>(tokens) / middle},
                 {"measured_overhead_percent", 100 * (middle / base - 1)},
                 {"predicted_ms", 1e3 * time.planned_s},
                 {"predicted_overhead_percent", 100 * (time.planned_s / time.keep_all_s - 1)},
                 {"device_budget", c->stage->budgets().bytes[0]},
                 {"device_planned", c->stage->plan().peak[0]},
                 {"device_measured", c->peak[0]},
                 {"host_planned", c->stage->plan().peak[1]},
                 {"host_measured", c->peak[1]},
                 {"plan_s", solve},
                 {"loss", c->loss}});
  }
  output.finish();
}

Json kernel_json(const Graph& graph, const Node& node, int count, const Request& request,
                 Backend& backend) {
  const KernelRunner runner(graph, node, backend);
  std::vector<double> seconds;
  for (int i = 0; i < request.warmup; ++i) runner.run();
  for (int i = 0; i < request.steps; ++i) seconds.push_back(runner.timed_run());
  const double middle = median(seconds);
  const Cost cost =
      node.op->cost(node.attrs, types_of(graph, node.inputs), types_of(graph, node.outputs));
  return {{"op", node.op->name},
          {"example", node.name},
          {"count", count},
          {"median_ms", 1e3 * middle},
          {"gflop_per_s", cost.flops / middle / 1e9},
          {"gbyte_per_s", cost.bytes / middle / 1e9},
          {"workspace_bytes", runner.workspace_bytes()}};
}

// Every kernel of the configuration's programs, with its rate.
void bench_ops(const Request& request) {
  const Config config = load_config(request.config_file, request.sets);
  CpuBackend backend({.threads = static_cast<int>(config.train.threads)});
  Output output(request.json);
  output.line(machine_json(backend));
  const RunPrograms run = programs_of(config, backend.alignment());
  std::map<std::string, int> count;  // Over one run of every program.
  for (const Program& program : run.programs) {
    for (const Node& node : program.graph.nodes()) ++count[signature(program.graph, node)];
  }
  std::set<std::string> done;
  for (const Program& program : run.programs) {
    const Graph& graph = program.graph;
    for (const Node& node : graph.nodes()) {
      const std::string key = signature(graph, node);
      if (done.insert(key).second)
        output.line(kernel_json(graph, node, count[key], request, backend));
    }
  }
  output.finish();
}

void add_config(CLI::App& command, Request& request) {
  command.add_option("config", request.config_file, "Configuration file (TOML)")->required();
  command.add_option("--set", request.sets, "Override a key: section.key=value")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--json", request.json, "Write the lines here, too");
}

void add_common(CLI::App& command, Request& request) {
  add_config(command, request);
  command.add_option("--steps", request.steps, "Measured repeats")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--warmup", request.warmup, "Repeats before that")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void bench_plan_table(const Request& request, PlanBench bench) {
  bench.config_file = request.config_file;
  bench.sets = request.sets;
  Output output(request.json);
  output.line({{"version", version_text()}});
  bench_plans(bench, [&](const Json& json) { output.line(json); });
  output.finish();
}

}  // namespace
}  // namespace olm2

int main(int argc, char** argv) {
  olm2::serve_solver(argc, argv);
  CLI::App app(
      "Measures; prints one JSON object per line.\n"
      "Example: olm2-bench step gpt2.toml --cases none@100% recompute@40% olm2@40%");
  app.set_version_flag("--version", olm2::version_text());
  app.require_subcommand(1);
  olm2::Request request;
  CLI::App* step = app.add_subcommand("step", "Whole training steps of several plans, in turns");
  olm2::add_common(*step, request);
  step->add_option("--cases", request.cases, "POLICY@BUDGET ..., the first is the yardstick")
      ->capture_default_str();
  step->add_option("--throttle", request.throttle, "Slow the host links down to so many bytes/s")
      ->check(CLI::PositiveNumber);
  CLI::App* ops = app.add_subcommand("ops", "Every kernel of the configuration, alone");
  olm2::add_common(*ops, request);
  olm2::PlanBench plans{.policies = {"recompute", "olm2"}, .budgets = {"80%", "60%", "40%", "30%"}};
  CLI::App* plan = app.add_subcommand("plan", "Plans of models and budgets: overhead, gap, time");
  olm2::add_config(*plan, request);
  plan->add_option("--presets", plans.presets, "Values of model.preset");
  plan->add_option("--layers", plans.layers, "Values of model.n_layer")->check(CLI::PositiveNumber);
  plan->add_option("--policies", plans.policies, "Names of policies")->capture_default_str();
  plan->add_option("--budgets", plans.budgets, "Device budgets")->capture_default_str();
  plan->add_option("--gaps", plans.gaps, "Relative gaps at which the search may stop")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE_OR_EXIT_2(app, argc, argv);
  return olm2::run_program("olm2-bench", [&] {
    if (*step) olm2::bench_steps(request);
    if (*ops) olm2::bench_ops(request);
    if (*plan) olm2::bench_plan_table(request, plans);
  });
}
