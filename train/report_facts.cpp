// What a report says besides the plan: about the run, and about more memory.
#include <algorithm>

#include "planner/bound.h"
#include "train/page.h"
#include "train/plan_report.h"
#include "train/state_choice.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);
constexpr double kBoundLimit_s = 5;

int64_t parameter_count(const RunPrograms& run) {
  int64_t count = 0;
  for (const NamedParameter& p : run.parameters) count += element_count(p.type.shape);
  return count;
}

std::string title_of(const Config& config, const RunPrograms& run) {
  const double millions = static_cast<double>(parameter_count(run)) / 1e6;
  std::string text = config.model.type + " with ";
  text += millions >= 1 ? std::to_string(static_cast<int64_t>(millions + 0.5)) + " million"
                        : std::to_string(parameter_count(run));
  text += " parameters, " + std::to_string(config.train.batch_size) + " x " +
          std::to_string(config.train.sequence_length) + " tokens";
  if (config.train.grad_accumulation > 1) {
    text += " in each of " + std::to_string(config.train.grad_accumulation) + " micro batches";
  }
  return text;
}

// Seconds of a step planned with more on the device: never more than the plan in hand takes.
double step_with(const PlanStage& stage, int64_t extra_bytes, int64_t grad_accumulation) {
  Budgets budgets = stage.budgets();
  budgets.bytes[kDevice] += extra_bytes;
  const StateSearch found = search_state(stage.programs(), stage.resident_problems(), budgets,
                                         stage.options(), stage.plans_state());
  const double now_s = step_time(stage.plan(), grad_accumulation).planned_s;
  return found.plan ? std::min(now_s, step_time(*found.plan, grad_accumulation).planned_s) : now_s;
}

}  // namespace

ReportFacts facts_of(const Config& config, const PlanStage& stage) {
  const Policy& policy = find_policy(stage.options().policy);
  ReportFacts facts;
  facts.title = title_of(config, stage.programs());
  facts.policy = std::string(policy.name) + " (" + std::string(policy.summary) + ")";
  facts.state = describe_state(stage.programs(), stage.plan().state);
  facts.profile = stage.profile().source + " on " + stage.profile().device;
  facts.grad_accumulation = config.train.grad_accumulation;
  facts.tokens_per_step =
      config.train.batch_size * config.train.sequence_length * facts.grad_accumulation;
  return facts;
}

void find_what_more_would_buy(const Config& config, const PlanStage& stage, ReportFacts& facts) {
  const Budgets& budgets = stage.budgets();
  const int64_t micros = config.train.grad_accumulation;
  const int64_t missing = budgets.keep_all_bytes - budgets.bytes[kDevice];
  if (missing <= 0) return;
  constexpr int64_t kGiB = int64_t{1} << 30;
  const int64_t extra = missing > kGiB ? kGiB : missing / 2;
  facts.more.push_back({.extra_bytes = extra, .step_s = step_with(stage, extra, micros)});
  facts.more.push_back({.extra_bytes = missing,
                        .step_s = step_time(stage.plan(), micros).keep_all_s,
                        .keeps_everything = true});
  const Policy& policy = find_policy(stage.options().policy);
  facts.most_saved_per_byte = 0;
  for (size_t i = 0; i < stage.problems().size(); ++i) {
    const std::string& name = stage.programs().programs[i].name;
    int64_t runs = 0;
    for (int64_t micro = 0; micro < micros; ++micro) runs += program_name(micro, micros) == name;
    if (runs == 0) continue;
    const TurnBound bound = turn_bound(stage.problems()[i], policy.bound_recomputes,
                                       policy.bound_copies, kBoundLimit_s);
    facts.most_saved_per_byte += static_cast<double>(runs) * bound.seconds_per_byte;
  }
}

}  // namespace olm2
