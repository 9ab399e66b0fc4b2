#include "train/run_state.h"

#include <cstring>

#include "train/initialize.h"
#include "train/optimizer.h"
#include "train/step_runner.h"

namespace olm2 {

std::vector<TensorTarget> parameter_targets(Executor& executor, const RunPrograms& run) {
  std::vector<TensorTarget> targets;
  for (const NamedParameter& p : run.parameters) {
    targets.push_back({p.name, p.type, executor.state(p.name)});
  }
  return targets;
}

std::vector<TensorTarget> moment_targets(Executor& executor, const RunPrograms& run) {
  std::vector<TensorTarget> targets;
  for (const NamedParameter& p : run.parameters) {
    for (const std::string& name : {first_moment_name(p.name), second_moment_name(p.name)}) {
      targets.push_back({name, p.type, executor.state(name)});
    }
  }
  return targets;
}

std::vector<TensorView> as_views(const std::vector<TensorTarget>& targets) {
  std::vector<TensorView> views;
  views.reserve(targets.size());
  for (const TensorTarget& target : targets) {
    views.push_back({target.name, target.type, target.bytes});
  }
  return views;
}

void initialize_state(Executor& executor, const RunPrograms& run, uint64_t seed) {
  for (const NamedParameter& p : run.parameters) {
    initialize(view_as<float>(executor.state(p.name)), p.init, seed, p.name);
  }
  zero_moments(executor, run);
}

void zero_moments(Executor& executor, const RunPrograms& run) {
  for (const TensorTarget& moment : moment_targets(executor, run)) {
    std::memset(moment.bytes.data(), 0, moment.bytes.size());
  }
}

}  // namespace olm2
