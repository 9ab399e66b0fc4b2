// What the runs of a step's nodes take, in the order in which they happen: the first run of a node
// finds its operands just made, later ones find them in no cache.
#pragma once

#include <vector>

#include "core/schedule.h"

namespace olm2 {

class RunSeconds {
 public:
  explicit RunSeconds(const Problem& problem)
      : problem_(problem), has_run_(problem.seconds.size(), false) {}

  // Of the next run of `node`.
  double next(NodeId node) {
    const auto n = static_cast<size_t>(node.index);
    const double seconds = problem_.run_seconds(n, has_run_.at(n));
    has_run_[n] = true;
    return seconds;
  }

 private:
  const Problem& problem_;
  std::vector<bool> has_run_;
};

// Of everything that a plan computes.
inline double computing_seconds(const Problem& problem, const Plan& plan) {
  double seconds = 0;
  RunSeconds runs(problem);
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::compute) seconds += runs.next(step.node);
  }
  return seconds;
}

}  // namespace olm2
