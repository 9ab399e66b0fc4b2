// The way from a configuration to a plan that can be run, step by step with messages: graphs,
// profile, budgets, plan.  Used by training and by olm2-plan.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/backend.h"
#include "planner/plan_hash.h"
#include "train/config.h"
#include "train/planning.h"

namespace olm2 {

class PlanStage {
 public:
  // Builds the programs and their costs; measures what `known` lacks, with progress on stderr.
  // `config` and `backend` must outlive this.
  // `may_learn`: where the policy begins with another one (Policy::begins_with), times are
  // estimated instead and learn() is to be called when the run has shown them.
  PlanStage(const Config& config, Backend& backend, Profile known, bool may_learn = false);
  PlanStage(const PlanStage&) = delete;
  PlanStage& operator=(const PlanStage&) = delete;

  // Plans, with progress on stderr.  Throws Error if no plan fits the budgets.
  void make_plan();
  // Whether the plan is the one a run begins with, made of estimated times.
  bool is_learning() const { return is_learning_; }
  // Plans anew for what was measured meanwhile.
  void learn(Profile measured);
  // Takes the plan of a file instead.  Throws Error if it was made for anything else.
  void read_plan(const std::filesystem::path& file);
  // The same for plans made elsewhere, one per program.
  void take_plan(std::vector<Planned> planned);
  void write_plan(const std::filesystem::path& file) const;

  const RunPrograms& programs() const { return programs_; }
  const Profile& profile() const { return profile_; }
  // With state where memory.state has it: of the plan, or before there is one with none on the
  // host.
  const std::vector<Problem>& problems() const { return problems_; }
  // With all state on the device for the whole step: what budgets are resolved by.
  const std::vector<Problem>& resident_problems() const { return resident_; }
  // With as much state on the host as its budget allows.
  std::vector<Problem> roomiest_problems() const;
  bool plans_state() const { return config_.memory.state == "planned"; }
  const Budgets& budgets() const { return budgets_; }
  const RunPlan& plan() const { return plan_; }  // After make_plan or read_plan.
  PlanOptions options() const;

  // For people: sizes, budgets, and of each program status, gap, overhead and peaks.
  std::string description() const;

 private:
  void take_profile(Profile profile);
  void plan_with(const PlanOptions& options);
  StateLayout layout_of_plan(const std::filesystem::path& file) const;
  void keep(RunPlan plan);

  const Config& config_;
  RunPrograms programs_;
  Profile profile_;
  std::vector<Problem> resident_;  // With budgets.
  std::vector<Problem> problems_;
  Budgets budgets_;
  RunPlan plan_;
  PlanOptions planned_with_;
  int64_t alignment_ = 0;
  bool is_learning_ = false;
};

// One line: "step: olm2, optimal, 12.3 ms (+4.5 % of keeping everything), peak ...".
std::string describe_certificate(std::string_view program, const Certificate& certificate);

}  // namespace olm2
