// From a Problem to a checked Schedule with a certificate.
//
//   policy -> Plan -> lower (buffers, lanes) -> place (addresses) -> waits -> check
//
// Where addresses need more than the plan's live bytes, the budget given to the policy is lowered
// by the excess and the policy asked again; the certificate reports that loss.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule.h"

namespace olm2 {

// optimal     the objective equals the bound to 1e-9 relative.
// feasible    a plan was found; how far it may be from the optimum is the gap.
// infeasible  a lower bound above the budget was proven: no plan of any kind fits.
// unknown     no plan was found, and none was proven impossible (time, or a narrow space).
enum class Status : uint8_t { optimal, feasible, infeasible, unknown };
std::string_view to_string(Status status);

struct TurnBound;

struct PlanOptions {
  std::string policy = "olm2";
  double gap = 0.005;  // Relative; the solver stops there.
  // For all solves of one plan_program() together; where they find nothing, up to a quarter more
  // for the smallest plan.
  double time_limit_s = 60;
  std::string space = "auto";  // One of all_spaces().
  bool partial_swap = true;    // Tensors may be swapped in part.
  // How long to search for addresses: steps of the search, as a multiple of what is usual.
  int place_effort = 1;
  // Plans that take this long are of no use: planning ends with status unknown where the bound, or
  // a plan before it is made to fit, is no faster.
  double useful_s = std::numeric_limits<double>::infinity();
  // Takes what the policy finds first: no wider search where it is far from its bound, no smallest
  // plan where it is none, and the bound of moving state only as far as it costs nothing.
  bool is_narrow = false;
  // What is proven for this question already (bound.h), to guide the search; null: the policy asks.
  std::shared_ptr<const TurnBound> bound = {};
  // Called now and then with the seconds spent and the gap so far (negative: no plan yet).
  std::function<void(double seconds, double gap)> progress = {};
  // Planning ends soon after this says true, with the best plan so far.  Asked often, on the thread
  // that plans.
  std::function<bool()> should_stop = {};
  int64_t memory_limit_bytes = 0;  // Of the solver alone; 0: half of the machine's memory.
};

// What can be said of the smallest budget.
struct Minimum {
  int64_t bytes = 0;               // Smallest device budget this policy found a plan for.
  int64_t proven_bytes = 0;        // No plan of any policy fits in less (one node's operands).
  std::string moment;              // Name of the node that binds.
  std::vector<std::string> alive;  // "name bytes" of what is on the device then, largest first.
};

struct Certificate {
  std::string policy;
  Status status = Status::unknown;
  double objective_s = 0;    // Simulated time of the placed schedule.
  double bound_s = 0;        // No plan in `bound_space` is faster, for the budget asked for.
  double gap = 0;            // (objective - bound) / objective.
  double baseline_s = 0;     // Keeping everything.
  std::string bound_space;   // What the bound covers: planner/bound.h, one line.
  std::string space;         // Candidate set that was searched, or "heuristic".
  std::string solver;        // "GLPK 5.0", "none".
  double solve_seconds = 0;  // Outside of every hash and comparison.
  int64_t placement_loss_bytes = 0;  // Budget given up so that addresses fit.
  int recomputed = 0;                // Node executions beyond the first.
  int64_t copied_bytes = 0;          // Over all links.
  BytesPerTier peak{};               // Placed arenas.
  // Why the search ended before it reached the asked gap: "time is up"; empty if it was complete.
  std::string ended_early;
  std::string message;  // For infeasible and unknown: one message for the user.
};

struct Planned {
  Certificate certificate;
  Plan plan;
  std::optional<CheckedSchedule> schedule;  // Empty if infeasible or unknown.
};

// Plans one program.  Throws Error for an unknown policy or space; a budget that cannot be met is
// a status, not an exception.
Planned plan_program(const Problem& problem, const PlanOptions& options);

// A plan made elsewhere, by `solver`: placed, checked, and compared with keeping everything, which
// is its bound.  Throws Error if it is no plan, or exceeds a budget with its addresses.
Planned certify(const Problem& problem, const PlanOptions& options, const Plan& plan,
                std::string_view solver);

// The smallest device budget `options.policy` can plan for, other tiers as in problem.budget.
// plan_program succeeds with exactly this budget.
Minimum find_minimum(const Problem& problem, const PlanOptions& options);

// A policy decides; it knows nothing of addresses.
struct PolicyResult {
  Status status = Status::unknown;
  Plan plan = {};
  double bound_s = 0;  // No plan in `space` is faster.
  std::string space = {};
  std::string solver = {};
  // The plan with addresses and waits, within the budgets, where the policy sought them itself.
  std::optional<Schedule> schedule = {};
};
struct Policy {
  std::string_view name;
  std::string_view summary;
  std::string_view source;  // Paper.
  PolicyResult (*plan)(const Problem& problem, const PlanOptions& options) = nullptr;
  // A longer search, asked where `plan` is further from the bound than the asked gap; null: none.
  PolicyResult (*widen)(const Problem& problem, const PlanOptions& options) = nullptr;
  // Plans among which the one of the smallest device arena is; other tiers within their budgets.
  std::vector<Plan> (*smallest)(const Problem& problem, const PlanOptions& options) = nullptr;
  bool copies = false;  // Uses the tiers below the device where they have room.
  bool swaps = false;   // Has a choice between whole and partial swaps.
  // Which plans the certificate's bound is for: those that run nodes again, copy, or do both.
  bool bound_recomputes = true;
  bool bound_copies = true;
  // Policies whose every plan this one could have made: it is never slower than chen, and asks the
  // others where its own plan is further from its bound than the asked gap.
  std::span<const std::string_view> contains = {};
  // A run whose times are not measured yet begins with this policy's plan, measures its first steps
  // and then plans with its own; empty: kernels are measured one by one before the run.
  std::string_view begins_with = {};
};
// "auto" and the candidate sets of milp_slots.h: where integer programs look for plans.
std::span<const std::string_view> all_spaces();
// Rows by name: none, chen, recompute, swap, olm2.
std::span<const Policy> all_policies();
const Policy& find_policy(std::string_view name);  // Throws Error that lists the names.

// --- the stages, each usable alone -------------------------------------------------------------

// Device, host and disk bytes alive after each step begins, padded, replayed in list order; the
// state is included.  Throws Error at the first step that reads what is not there.
struct Occupancy {
  std::vector<BytesPerTier> per_step;
  BytesPerTier peak{};
  int32_t peak_step = -1;  // Of the device.
};
Occupancy replay(const Problem& problem, const Plan& plan);

// Removes the drops a plan has, and drops every value (or range) right after its last use instead.
Plan with_earliest_drops(const Problem& problem, const Plan& plan);

// Buffers and instructions without addresses and waits.  An output takes its input's buffer where
// the op allows it and the plan drops the input right after.
Schedule lower(const Problem& problem, const Plan& plan);

struct PlaceOptions {
  uint64_t random_seed = 0;  // Not 0: random legal addresses, for tests.
  int effort = 1;            // How long to search, as PlanOptions::place_effort; 0: not at all.
  BytesPerTier enough{};     // Arenas that need not be beaten.
  // Per buffer, an offset near which to look on the device; negative: anywhere.  Then few move, and
  // what finds no place within `enough` lies on top.  Empty: all are placed anew.
  std::vector<int64_t> start = {};
};

// Chooses offsets (first fit over several orders, then local searches) and arena sizes.
void place(const Problem& problem, Schedule& schedule, const PlaceOptions& options = {});

// Adds the waits that data and reused addresses need, leaving out what lane order implies.
void add_waits(const Problem& problem, Schedule& schedule);

// Why a lane waits: `data`: what it reads is not there yet; `space`: the bytes it writes to are
// still in use; `end`: everything is computed and copies still run.
enum class StallCause : uint8_t { data, space, end };
std::string_view to_string(StallCause cause);

// A lane does nothing from begin_s to end_s.
struct Stall {
  Lane lane = Lane::compute;
  double begin_s = 0;
  double end_s = 0;
  int32_t instruction = -1;  // That could not start yet; -1 at the end of the step.
  int32_t blocker = -1;      // That had to finish first: the last one to do so.
  StallCause cause = StallCause::data;
};

// Time of one step when each lane runs its instructions in order and waits are obeyed.  The bytes
// in use meanwhile: planner/occupancy.h.
struct Simulation {
  double seconds = 0;
  double stall_s = 0;                       // Time the compute lane waited before instructions.
  std::array<double, kLaneCount> busy_s{};  // Time each lane worked.
  std::vector<double> start_s, end_s;       // Per instruction.
  // In the order of time.  For the compute lane busy_s and stalls add up to `seconds`; other lanes
  // are only said to stall where they have something left to do.
  std::vector<Stall> stalls;
};
Simulation simulate(const Problem& problem, const Schedule& schedule);

// A lower bound on the device bytes of any plan: the largest node's operands and workspace.
Minimum proven_minimum(const Problem& problem);

// Seconds of a node from its FLOPs and bytes, where nothing is measured.
double estimate_seconds(const Graph& graph, const Node& node, const Roofline& roofline);

}  // namespace olm2
