// Fingerprints of what a plan was made from, so that a plan for something else is not executed.
// FNV-1a with 64 bits (Fowler, Noll, Vo): against mistakes, not against forgers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/planner.h"

namespace olm2 {

// 16 hexadecimal digits.
std::string hash_text(std::string_view text);

// A program under its name, as it is planned.  Owns nothing.
struct NamedProblem {
  std::string_view name;
  const Problem* problem = nullptr;
};

// Everything a plan depends on, in four parts that are reported apart.
struct PlanHashes {
  std::string graph;    // Names, graphs, results, where state lives.
  std::string profile;  // Seconds and workspace per node, links.
  std::string budgets;  // Bytes per tier, alignment.
  std::string options;  // Policy, gap, time limit, space, partial_swap.

  // {"graph", graph} ... in this order.
  std::array<std::pair<std::string_view, std::string>, 4> parts() const;
};
PlanHashes hash_inputs(const std::vector<NamedProblem>& programs, const PlanOptions& options);

}  // namespace olm2
