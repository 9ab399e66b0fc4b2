#include "train/plan_stage.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "core/error.h"
#include "planner/plan_file.h"
#include "planner/solver_process.h"
#include "train/interruption.h"
#include "train/progress.h"
#include "train/state_choice.h"

namespace olm2 {
namespace {

std::string rounded(double number, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, number);
  return text.data();
}

// A line that is written over on a terminal, and not written at all elsewhere.
void show_transient(const std::string& text) {
  if (terminal_columns(stderr) == 0) return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

int64_t parameter_count(const RunPrograms& run) {
  int64_t count = 0;
  for (const NamedParameter& p : run.parameters) count += element_count(p.type.shape);
  return count;
}

std::string choices_text(const RunPlan& plan) {
  if (plan.state_choices < 2) return "";
  return "; the best of " + std::to_string(plan.state_choices) + " choices, planned in " +
         rounded(plan.state_choices_s, 2) + " s";
}

}  // namespace

PlanStage::PlanStage(const Config& config, Backend& backend, Profile known, bool may_learn)
    : config_(config),
      programs_(programs_of(config, backend.alignment())),
      alignment_(backend.alignment()) {
  is_learning_ = may_learn && config.planner.profile == "measure" &&
                 !find_policy(config.memory.policy).begins_with.empty() &&
                 lacks_kernels(programs_, known);
  Config costs = config;
  if (is_learning_) costs.planner.profile = "estimate";
  Profile profile =
      profile_of(costs, programs_, backend, std::move(known), [](size_t done, size_t count) {
        show_transient("measuring kernels " + std::to_string(done) + "/" + std::to_string(count));
      });
  show_transient("");
  take_profile(std::move(profile));
}

void PlanStage::take_profile(Profile profile) {
  profile_ = std::move(profile);
  resident_ = problems_of(programs_, profile_, alignment_);
  budgets_ = resolve_budgets(config_.memory.device_budget, config_.memory.host_budget, resident_);
  for (Problem& problem : resident_) problem.budget = budgets_.bytes;
  problems_ =
      plans_state() ? with_layout(programs_, resident_, planned_layout(programs_, {})) : resident_;
}

PlanOptions PlanStage::options() const {
  return plan_options_of(config_);
}

void PlanStage::make_plan() {
  if (is_learning_) {
    PlanOptions first = options();
    first.policy = find_policy(first.policy).begins_with;
    try {
      return plan_with(first);
    } catch (const Error&) {  // It needs more than the budget; the policy itself may not.
    }
  }
  plan_with(options());
}

void PlanStage::learn(Profile measured) {
  is_learning_ = false;
  take_profile(std::move(measured));
  make_plan();
}

void PlanStage::plan_with(const PlanOptions& options) {
  planned_with_ = options;
  const Interruption interruption(
      "planning: taking the best plan so far; Ctrl-C again ends it all");
  const SolverSession session;  // One for all programs.
  PlanOptions mine = options;
  mine.should_stop = [&interruption] { return interruption.is_wished(); };
  mine.progress = [](double seconds, double gap) {
    show_transient("planning " + rounded(seconds, 1) + " s" +
                   (gap < 0 ? std::string() : ", gap " + rounded(100 * gap, 2) + " %"));
  };
  keep(choose_state(programs_, resident_, budgets_, mine, plans_state()));
  show_transient("");
}

void PlanStage::read_plan(const std::filesystem::path& file) {
  const StateLayout layout = layout_of_plan(file);
  problems_ = with_layout(programs_, resident_, layout);
  std::vector<NamedProblem> named;
  for (size_t i = 0; i < problems_.size(); ++i) {
    named.push_back({programs_.programs[i].name, &problems_[i]});
  }
  is_learning_ = false;
  planned_with_ = options();
  RunPlan plan =
      collect_plans(programs_, problems_, budgets_, read_plan_file(file, named, planned_with_));
  plan.state = layout;
  keep(std::move(plan));
}

void PlanStage::take_plan(std::vector<Planned> planned) {
  planned_with_ = options();
  RunPlan plan = collect_plans(programs_, problems_, budgets_, std::move(planned));
  plan.state = plans_state() ? planned_layout(programs_, {}) : resident_layout(programs_);
  keep(std::move(plan));
}

void PlanStage::keep(RunPlan plan) {
  plan_ = std::move(plan);
  problems_.clear();
  for (const PlannedProgram& entry : plan_.programs) problems_.push_back(entry.problem);
}

std::vector<Problem> PlanStage::roomiest_problems() const {
  return with_layout(programs_, resident_,
                     roomiest_layout(programs_, resident_, budgets_, options(), plans_state()));
}

// What memory.state says; sources rest where the file has them.
StateLayout PlanStage::layout_of_plan(const std::filesystem::path& file) const {
  const PlannedState state = read_planned_state(file);
  if (!plans_state() || !state.planned) return resident_layout(programs_);
  return planned_layout(programs_, SourceNames(state.on_host.begin(), state.on_host.end()));
}

void PlanStage::write_plan(const std::filesystem::path& file) const {
  std::vector<ProgramPlan> plans;
  for (const PlannedProgram& entry : plan_.programs) {
    plans.push_back({entry.program->name, &entry.problem, &entry.planned});
  }
  write_plan_file(file, plans, planned_with_, now_text());
}

std::string describe_certificate(std::string_view program, const Certificate& c) {
  std::string text =
      std::string(program) + ": " + c.policy + ", " + std::string(to_string(c.status));
  if (c.status == Status::infeasible || c.status == Status::unknown) return text;
  if (c.status == Status::feasible) {
    text += " (gap " + rounded(100 * c.gap, 2) + " %";
    text += (c.ended_early.empty() ? "" : ", ended early: " + c.ended_early) + ")";
  }
  text += ", searched " + c.space + ", " + rounded(1e3 * c.objective_s, 2) + " ms predicted, " +
          rounded(100 * (c.objective_s / c.baseline_s - 1), 2) + " % over keeping everything, " +
          std::to_string(c.recomputed) + " recomputed, " + std::to_string(c.copied_bytes) +
          " bytes copied, device peak " + std::to_string(c.peak[index_of(Tier::device)]);
  if (c.peak[index_of(Tier::host)] > 0) {
    text += ", host peak " + std::to_string(c.peak[index_of(Tier::host)]);
  }
  return text + ", planned in " + rounded(c.solve_seconds, 2) + " s";
}

std::string PlanStage::description() const {
  std::string text = "model: " + std::to_string(parameter_count(programs_)) + " parameters, " +
                     describe_bytes(programs_.state_bytes) +
                     " of parameters, gradients and moments\n" + budgets_.text +
                     "\nstate: " + describe_state(programs_, plan_.state) + choices_text(plan_) +
                     "\nprofile: " + profile_.source + " on " + profile_.device;
  if (config_.memory.host_budget.bytes > 0) {
    text +=
        "\nhost tier: on a CPU it is the same RAM; it shows swapping at work and saves no memory";
  }
  for (const PlannedProgram& entry : plan_.programs) {
    text += "\nplan for " + describe_certificate(entry.program->name, entry.planned.certificate);
  }
  return text;
}

}  // namespace olm2
