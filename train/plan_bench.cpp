#include "train/plan_bench.h"

#include <chrono>
#include <map>
#include <utility>

#include "core/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "planner/run_seconds.h"
#include "train/interruption.h"
#include "train/plan_stage.h"

namespace olm2 {
namespace {

using Json = nlohmann::ordered_json;

// The programs of one optimizer step at one budget: their sums, and the weakest of their proofs.
struct Row {
  Status status = Status::optimal;
  double gap = 0;
  double objective_s = 0;
  double bound_s = 0;
  double computing_s = 0;
  double keep_all_s = 0;
  int recomputed = 0;
  int64_t copied_bytes = 0;
  int64_t placement_loss_bytes = 0;
  BytesPerTier peak{};
  std::string space;
  std::string ended_early;
  std::string message;
};

void add(Row& row, const Problem& problem, const Planned& planned) {
  const Certificate& c = planned.certificate;
  row.status = std::max(row.status, c.status);
  row.gap = std::max(row.gap, c.gap);
  row.objective_s += c.objective_s;
  row.bound_s += c.bound_s;
  row.computing_s += computing_seconds(problem, planned.plan);
  row.keep_all_s += c.baseline_s;
  row.recomputed += c.recomputed;
  row.copied_bytes += c.copied_bytes;
  row.placement_loss_bytes = std::max(row.placement_loss_bytes, c.placement_loss_bytes);
  for (size_t t = 0; t < row.peak.size(); ++t) row.peak[t] = std::max(row.peak[t], c.peak[t]);
  row.space = c.space;
  if (!c.ended_early.empty()) row.ended_early = c.ended_early;
  if (!c.message.empty()) row.message = c.message;
}

Json row_json(const Row& row) {
  Json json = {{"status", to_string(row.status)}};
  if (row.objective_s > 0) {
    json["overhead_percent"] = 100 * (row.objective_s / row.keep_all_s - 1);
    json["gap_percent"] = 100 * row.gap;
    json["objective_ms"] = 1e3 * row.objective_s;
    json["bound_ms"] = 1e3 * row.bound_s;
    json["computing_ms"] = 1e3 * row.computing_s;
    json["recomputed"] = row.recomputed;
    json["copied_bytes"] = row.copied_bytes;
    json["placement_loss_bytes"] = row.placement_loss_bytes;
    json["device_peak"] = row.peak[0];
    json["host_peak"] = row.peak[1];
    json["space"] = row.space;
  }
  if (!row.ended_early.empty()) json["ended_early"] = row.ended_early;
  if (!row.message.empty()) json["message"] = row.message;
  return json;
}

// Computing that `row` saves against plans that only run nodes again, in percent.
Json saving_json(const Row& row, const Row& recompute) {
  if (row.status > Status::feasible || recompute.status > Status::feasible) return Json::object();
  return {{"computing_saved_percent", 100 * (1 - row.computing_s / recompute.computing_s)},
          {"computing_saved_at_least_percent", 100 * (1 - row.computing_s / recompute.bound_s)}};
}

// One policy at one budget and gap.
Row plan_row(const PlanStage& stage, const Budgets& budgets, const PlanOptions& options) {
  Row row;
  for (Problem problem : stage.resident_problems()) {
    problem.budget = budgets.bytes;
    add(row, problem, plan_program(problem, options));
  }
  return row;
}

// One model: every policy at every budget, until somebody interrupts.
void bench_model(const PlanBench& bench, const Config& config, const Interruption& interruption,
                 const std::function<void(const Json&)>& line) {
  CpuBackend backend({.threads = 1});  // For sizes of scratch only.
  const PlanStage stage(config, backend, Profile{});
  const std::vector<double> gaps =
      bench.gaps.empty() ? std::vector{config.planner.gap} : bench.gaps;
  std::map<std::pair<std::string, double>, Row> recompute;  // By budget and gap.
  for (const std::string& policy : bench.policies) {
    for (const std::string& budget : bench.budgets) {
      const Budgets budgets = resolve_budgets(parse_byte_size(budget), config.memory.host_budget,
                                              stage.resident_problems());
      for (const double gap : gaps) {
        if (interruption.is_wished()) return;
        PlanOptions options = stage.options();
        options.policy = policy;
        options.gap = gap;
        options.should_stop = [&interruption] { return interruption.is_wished(); };
        const auto start = std::chrono::steady_clock::now();
        const Row row = plan_row(stage, budgets, options);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        Json json = {{"model", config.preset.empty() ? config.model.type : config.preset},
                     {"n_layer", config.model.n_layer},
                     {"state", "resident"},
                     {"policy", policy},
                     {"budget", budget},
                     {"device_budget", budgets.bytes[0]},
                     {"asked_gap_percent", 100 * gap},
                     {"plan_s", took.count()}};
        json.update(row_json(row));
        if (policy == "recompute") recompute[{budget, gap}] = row;
        if (const auto other = recompute.find({budget, gap});
            policy != "recompute" && other != recompute.end()) {
          json.update(saving_json(row, other->second));
        }
        line(json);
      }
    }
  }
}

Config config_of(const PlanBench& bench, const std::string& preset) {
  std::vector<std::string> sets = bench.sets;
  if (!preset.empty()) sets.push_back("model.preset=" + preset);
  Config config = load_config(bench.config_file, sets);
  if (config.planner.profile == "measure") {
    throw Error(
        "planner.profile: got \"measure\", but a table of plans measures nothing; expected "
        "\"estimate\" or a profile file such as data/profiles/h200-like.json");
  }
  return config;
}

}  // namespace

void bench_plans(const PlanBench& bench, const std::function<void(const Json&)>& line) {
  std::vector<std::string> presets = bench.presets;
  if (presets.empty()) presets.emplace_back();
  for (const std::string& policy : bench.policies) find_policy(policy);
  const Interruption interruption(
      "planning: ending with the best plan so far; Ctrl-C again ends it all");
  for (const std::string& preset : presets) {
    Config config = config_of(bench, preset);
    std::vector<int64_t> layers = bench.layers;
    if (layers.empty()) layers.push_back(config.model.n_layer);
    for (const int64_t n_layer : layers) {
      config.model.n_layer = n_layer;
      if (!interruption.is_wished()) bench_model(bench, config, interruption, line);
    }
  }
}

}  // namespace olm2
