// The planning model for other solvers, as MPS or LP text, and their solutions read back.
//
// Our own solver adds a memory constraint only where a point breaks it.  A file has to have all of
// them, in few words: per slot s the bytes in use are a column of their own, device(s), that goes
// on from device(s-1) with what begins and ends there; what waits to be sent and what came back
// early are two more, outward(s) and homeward(s), which are never negative:
//   memory(s):  device(s) + outward(s) + homeward(s) <= budget
// The columns of the model itself, in milliseconds and units of bytes, are those of milp_model.h:
//   run(NODE,s)     the optional slot s runs NODE again            (binary)
//   keep(VALUE,s)   the part of VALUE that stays on the device after slot s
//   send(VALUE)     the part sent to the host;  fetch(VALUE,s)  the part brought back for slot s
//   wait(s)         milliseconds of waiting after slot s
//   made(s) released(s) sent(s) needed(s) back(s)   bytes so far (milp_streams.h)
// A second name of the same kind gets "#2" and so on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/milp_model.h"
#include "planner/planner.h"

namespace olm2 {

// A model with every constraint in its rows.
struct CompleteModel {
  MilpModel milp;  // As it is solved: its columns are the first ones of `linear`.
  LinearModel linear;
  std::vector<std::string> columns;  // Names, unique.
  std::vector<std::string> rows;
  std::vector<std::string> notes;  // For people: units, and what each slot runs.
};

// The model of `options.policy` for the problem's budgets.  Throws Error if that policy is not one
// of recompute, swap and olm2.
CompleteModel complete_model(const Problem& problem, const PlanOptions& options);

// Free MPS (fields parted by spaces) and CPLEX's LP format; minimisation; 17 digits.
// The objective's constant is a column named "constant", fixed at 1.
std::string to_mps(const CompleteModel& model);
std::string to_lp(const CompleteModel& model);

// The values of milp's columns from a solution file.  Each line is one of
//   NAME VALUE ...            HiGHS, SCIP, Gurobi
//   NUMBER NAME VALUE ...     CBC
//   j NUMBER ... VALUE        what glpsol --write writes
// and anything else is passed over, as are names the model does not have and dual values; columns
// that are not named are 0.  Throws Error naming `origin`: no column at all, a number that is none,
// a binary between 0 and 1, a part outside of [0, 1].
std::vector<double> parse_solution(const CompleteModel& model, std::string_view text,
                                   std::string_view origin);

// The plan that `x` decides, placed, checked and certified like our solver's own.
// Throws Error if the exact plan exceeds a budget, which the model cannot rule out: its message
// says by how much to lower the budget that the model is written for.
Planned plan_of_solution(const Problem& problem, const PlanOptions& options,
                         const CompleteModel& model, const std::vector<double>& x,
                         std::string_view origin);

}  // namespace olm2
