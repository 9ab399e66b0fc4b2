// The data of a run: training batches, and validation batches where the run evaluates.
#pragma once

#include <memory>
#include <string>

#include "data/loader.h"
#include "train/config.h"
#include "train/step_runner.h"

namespace olm2 {

struct RunData {
  // Opens everything before training starts, so that what is missing is refused before training
  // starts, and says on stderr what was found.  Throws Error.
  explicit RunData(const Config& config);

  // Equal for two runs whose batches have the same sources: file names, token counts, order.
  std::string digest() const;
  // Micro batches to evaluate on: output.eval_batches, or as many as there are.
  int64_t eval_batches(const Config& config) const;

  Loader train;
  std::unique_ptr<Loader> val;  // Null: the run never evaluates.
  bool shuffle = true;
};

// `loader` must outlive what is returned.
FillBatch batches_of(const Loader& loader);

}  // namespace olm2
