// Where the state of a run rests between its programs, and what each program finds there.
//
//   device   | parameters, moments: never free | gradients, from `first` to `last` | the rest |
//   host     | what rests there                | what the plans swap                          |
//
// With one micro batch gradients rest nowhere: they are made and used up within `step`.  With more,
// `first` makes them, `last` uses them up, and between optimizer steps (evaluation, sampling, the
// forward pass of `first`) their bytes serve others.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "train/programs.h"

namespace olm2 {

struct StatePlace {
  Tier tier = Tier::device;
  int64_t offset = 0;
  bool operator==(const StatePlace&) const = default;
};

struct StateLayout {
  bool planned = false;  // false: everything is at home for whole steps.
  std::map<std::string, StatePlace, std::less<>> places = {};  // Absent: rests nowhere.
  BytesPerTier kept{};         // Per tier the bytes that belong to state in every program.
  int64_t gradient_bytes = 0;  // On the device above `kept`, between micro batches.
  int64_t host_bytes() const { return kept[index_of(Tier::host)]; }
  bool operator==(const StateLayout&) const = default;
};

// Every source on the device for the whole step.
StateLayout resident_layout(const RunPrograms& run);

// Copying it takes longer than its bytes are worth: beginning and waiting for a copy costs tens of
// microseconds.
bool is_small(const StateSource& source);

// Sources in the order in which they should leave the device: moments first (only the update needs
// them), then parameters, then gradients of several micro batches; last ones of the graph first.
// After all of these small ones, by the same rule.
std::vector<StateSource> leaving_order(const RunPrograms& run);

// The sources named rest on the host.  Throws Error for a name that is no source's, or a source
// that rests nowhere.
using SourceNames = std::set<std::string, std::less<>>;
StateLayout planned_layout(const RunPrograms& run, const SourceNames& on_host);

// `problem` is that of `program` with all state on the device (make_problem); rewrites what it says
// of state.
void apply_layout(const StateLayout& layout, const Program& program, Problem& problem);

}  // namespace olm2
