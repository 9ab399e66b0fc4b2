// plan.json: all programs of a run with their plans, schedules and certificates.
//
// The file is a function of its inputs but for its field `run` (date, seconds of solving).  It is
// read only for the inputs it was made from, and only as it was written: hashes of graph, profile,
// budgets and options must agree with the run, and a digest with the content.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "planner/plan_hash.h"
#include "planner/planner.h"

namespace olm2 {

// A program and its plan.  Owns nothing; `planned` has a schedule.
struct ProgramPlan {
  std::string_view name;
  const Problem* problem = nullptr;
  const Planned* planned = nullptr;
};

// `date` is for people, e.g. "2026-11-30T12:00:00Z".  The fields at the top are those of the
// program that takes longest, with the weakest status and widest gap of any, and why the first one
// did that ended early; each program's own are beside its schedule.
std::string print_plan_file(const std::vector<ProgramPlan>& programs, const PlanOptions& options,
                            std::string_view date);

// The plans in the order of `programs`, their schedules checked.  `origin` names the text in
// messages.  Throws Error: no JSON, another version, edited, made from other inputs (naming which).
std::vector<Planned> parse_plan_file(std::string_view text, std::string_view origin,
                                     const std::vector<NamedProblem>& programs,
                                     const PlanOptions& options);

// Where the state of a plan file rests, as far as one must know to make the problems it is read
// for.
struct PlannedState {
  bool planned = false;              // false: at home on the device for whole steps.
  std::vector<std::string> on_host;  // Names of sources, sorted.
};
// What the programs' problems say.
PlannedState planned_state_of(const std::vector<ProgramPlan>& programs);
// What a file says; resident if it cannot be read (read_plan_file then says why).
PlannedState read_planned_state(const std::filesystem::path& path);

// Written beside the target first and renamed, so that there is never half a file.
void write_plan_file(const std::filesystem::path& path, const std::vector<ProgramPlan>& programs,
                     const PlanOptions& options, std::string_view date);
std::vector<Planned> read_plan_file(const std::filesystem::path& path,
                                    const std::vector<NamedProblem>& programs,
                                    const PlanOptions& options);

}  // namespace olm2
