// From a configuration to planned programs: budgets in bytes, one plan per program.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/profile.h"
#include "planner/planner.h"
#include "train/config.h"
#include "train/executor.h"
#include "train/programs.h"
#include "train/state_layout.h"

namespace olm2 {

// The programs of a configuration: those of its training steps, evaluation and sampling where the
// output section asks for them.
RunPrograms programs_of(const Config& config, int64_t alignment);

// A Profile as planner.profile says: measured on this machine (kernels `known` already has are
// not measured again), estimated, or read from a file.
Profile profile_of(const Config& config, const RunPrograms& run, Backend& backend, Profile known,
                   const std::function<void(size_t, size_t)>& progress = {});

// Whether a kernel of the programs is missing.
bool lacks_kernels(const RunPrograms& run, const Profile& profile);

struct PlannedProgram {
  const Program* program = nullptr;  // Owned by the RunPrograms.
  Problem problem;
  Planned planned;
};

// The budgets of a run in bytes.
struct Budgets {
  int64_t state_bytes = 0;     // S: parameters, gradients, moments.
  int64_t keep_all_bytes = 0;  // The placed device arena of policy `none`: S + A.
  BytesPerTier bytes{};        // What the plans must stay within.
  std::string text = {};       // For people, every number in bytes.
};

struct RunPlan {
  Budgets budgets;
  StateLayout state = {};
  int state_choices = 1;                 // Layouts of state that were tried.
  double state_choices_s = 0;            // Seconds of solving for all of them.
  std::vector<PlannedProgram> programs;  // In the order of RunPrograms.
  BytesPerTier peak{};                   // The largest of any program.
};

// The Problem of every program: profile applied, budgets still empty.
std::vector<Problem> problems_of(const RunPrograms& run, const Profile& profile, int64_t alignment);

// X % means S + X % of A (interface); bytes are taken as they are.
Budgets resolve_budgets(const ByteSize& device, const ByteSize& host,
                        const std::vector<Problem>& problems);

// Plans every program within the budgets.  Throws Error with the certificate's message (minimum,
// binding moment, tensors alive) if one of them cannot be planned.
RunPlan plan_run(const RunPrograms& run, std::vector<Problem> problems, const Budgets& budgets,
                 const PlanOptions& options);

// plan_run without the exception: `failed` is the first program that has no plan, or -1.
struct TriedPlans {
  std::vector<Planned> planned;
  int failed = -1;
};
TriedPlans try_to_plan(const std::vector<Problem>& problems, const PlanOptions& options);

// The same of plans that exist, one per program and in their order.
RunPlan collect_plans(const RunPrograms& run, const std::vector<Problem>& problems,
                      const Budgets& budgets, std::vector<Planned> planned);

PlanOptions plan_options_of(const Config& config);

// What an Executor takes.
std::vector<ExecutableProgram> executable(const RunPlan& plan);

// Seconds of one optimizer step by the plans' simulations, and of keeping everything.
struct StepTime {
  double planned_s = 0;
  double keep_all_s = 0;
};
StepTime step_time(const RunPlan& plan, int64_t grad_accumulation);

}  // namespace olm2
