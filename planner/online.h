// Online memory management, run on paper: nodes in graph order, values brought back when a node
// needs them, and something evicted when the next node does not fit.  What is evicted is the only
// thing policies differ in; the plan that results is lowered, placed and checked like any other.
//
// A value that leaves goes to the host, if the policy copies and there is room (a value that came
// back keeps its host copy as long as there is room: leaving again then costs nothing); otherwise
// it is forgotten and made again, recursively, from what is still there.  Nothing is fetched before
// the node that needs it (no prefetch): the node waits, as under any cache that does not know the
// future.  What nobody will read again is forgotten at once.  State and results never leave, inputs
// only to the host. Values that change or depend on state that changes leave only while they can be
// made again in time.
//
// Times on paper are those of the profile with copies in order on their lanes; they serve rules
// that ask for staleness.  A plan is a function of problem and rule alone.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "planner/access.h"
#include "planner/planner.h"

namespace olm2 {

// What a rule sees of a value that could leave the device now.
struct Evictable {
  ValueId value;
  int64_t bytes = 0;      // Padded.
  int64_t last_use = 0;   // Number of the execution that made or read it last.
  int32_t next_read = 0;  // Index of the node that reads it next.
  double idle_s = 0;      // Since its last use, on paper.
  double remake_s = 0;    // Its node, and the evicted values around it (evicted_groups.h); only
                          // if the rule asks for it.
};

struct OnlineRule {
  bool copies = false;          // Evicts to the host where there is room.
  bool wants_remake_s = false;  // Costs time to work out.
  // The value of the smallest worth leaves; among equals the one listed first in the graph.
  double (*worth)(const Evictable&) = nullptr;
};

// What is decided beforehand, per node; empty: nothing.
struct OnlineHints {
  std::vector<std::vector<ValueId>> send = {};    // To the host after the node, if there is room.
  std::vector<std::vector<ValueId>> forget = {};  // After the node.
  std::vector<std::vector<ValueId>> fetch = {};   // Before the node, once there is room.
};

// The plan that needs at most problem.budget, padded, before addresses are chosen.  Empty: a node
// does not fit beside what cannot leave, or nodes would run kMostExecutions times on average.
inline constexpr size_t kMostExecutions = 3;
std::optional<Plan> run_online(const Problem& problem, const AccessSequence& sequence,
                               const OnlineRule& rule, const OnlineHints& hints = {});

// Worth of the classical rule: what was used least recently leaves.
double least_recently_used(const Evictable& value);

// Policy rows: the plan within the budget, with what `hints` decides beforehand; plans for the
// smallest device budgets, found by bisection.
PolicyResult plan_online(const Problem& problem, const AccessSequence& sequence,
                         const OnlineRule& rule, const OnlineHints& hints = {});
std::vector<Plan> smallest_online(const Problem& problem, const OnlineRule& rule);

}  // namespace olm2
