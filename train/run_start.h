// Where a run begins: anew, from given weights, or from its newest complete checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "train/checkpoint.h"
#include "train/config.h"

namespace olm2 {

struct Start {
  std::filesystem::path checkpoint = {};  // Empty: parameters as the model wants them.
  bool with_moments = false;
  int64_t step = 0;              // Steps already made.
  int64_t moments_began = 0;     // Of them, those made before the moments were last zero.
  std::string data_digest = {};  // Of the data so far; empty: not known.
};

// Says on stderr what was found and skipped.  Writes nothing.  Throws Error if the run cannot go
// on from what there is.
Start find_start(const Config& config, bool resume);

int64_t tokens_after(const Config& config, int64_t steps);

// What a checkpoint of this run says after `step` steps.
CheckpointState describe_run(const Config& config, int64_t step);

}  // namespace olm2
