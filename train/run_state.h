// The state of a run in the executor's memory, as named tensors: to start, save and load it.
#pragma once

#include <cstdint>
#include <vector>

#include "train/executor.h"
#include "train/programs.h"
#include "train/safetensors.h"

namespace olm2 {

// Views of the executor's own memory, valid as long as the executor; between steps only.
std::vector<TensorTarget> parameter_targets(Executor& executor, const RunPrograms& run);
std::vector<TensorTarget> moment_targets(Executor& executor, const RunPrograms& run);

// The same, to be written to files.
std::vector<TensorView> as_views(const std::vector<TensorTarget>& targets);

// Parameters as the model wants them to start, moments zero.
void initialize_state(Executor& executor, const RunPrograms& run, uint64_t seed);
void zero_moments(Executor& executor, const RunPrograms& run);

}  // namespace olm2
