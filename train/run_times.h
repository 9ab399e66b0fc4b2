// What steps that were run tell of the machine: the times of kernels and links, from their traces.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/profile.h"
#include "core/schedule.h"
#include "train/executor.h"

namespace olm2 {

class RunTimes {
 public:
  // Adds the events of one program that was run.
  void add(const Graph& graph, const Schedule& schedule, std::span<const TraceEvent> events);

  // `estimate` with what was measured in its place.  Kernels: the median of runs without a copy
  // beside them, or of all runs if there was none such; the first of each node in a step, and apart
  // from it those that made something again: where there were none, their ratio stays.  A link's
  // speed: the tenth percentile; its slowdown: the median of runs beside its copies alone, over the
  // same kernel's runs without any; what no run shows stays as estimated.  Links without copies do
  // not exist for the profile. Kernels that never ran (evaluation, sampling) keep their estimate.
  Profile profile(Profile estimate) const;

 private:
  struct KernelRun {
    double seconds = 0;
    bool is_again = false;  // Its node has run before in the same step.
    // Part of it beside copies to the host and from it.
    double beside_out = 0;
    double beside_in = 0;
  };
  static double usual_seconds(std::span<const KernelRun> runs, bool is_again, double otherwise);
  void fill_link(Lane lane, LinkProfile& link) const;
  double slowdown(Lane lane, double otherwise) const;

  std::map<std::string, std::vector<KernelRun>> kernels_;  // By signature.
  std::array<std::vector<double>, kLaneCount> rates_;      // Bytes per second of each copy.
};

}  // namespace olm2
