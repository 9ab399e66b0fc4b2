// The largest batch a budget allows.
#pragma once

#include <functional>

#include "core/backend.h"
#include "train/config.h"

namespace olm2 {

// The largest number from 1 to `most` for which `fits` holds, if it holds for all smaller ones; 0
// if it does not hold for 1.  Asks about 2 log2(result) times.
int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits);

struct LargestBatch {
  int64_t batch_size = 0;  // 0: not even one sequence fits.
  int64_t bytes = 0;       // Smallest device budget for it.
  int64_t next_bytes = 0;  // The same for one sequence more, and what binds there.
  std::string next_moment;
  std::string next_program;
};

// By the smallest plans of the policy, with estimated times unless the profile is a file; calls
// progress("batch 12: 3.1 GiB, fits") after each batch size.  Throws Error if the device budget is
// a percentage: it would grow with the batch.
LargestBatch find_largest_batch(const Config& config, Backend& backend,
                                const std::function<void(const std::string&)>& progress);

}  // namespace olm2
