// Samples beyond those of the ops: sizes at and around the widths of vectors, tiles, blocks and
// chunks that the fast kernels cut their work into, and enough work for a second thread.
#pragma once

#include <vector>

#include "core/op.h"

namespace olm2::testing {

struct NamedSample {
  const OpDef* op = nullptr;
  Sample sample;
};

// The samples of all ops, then the larger ones.
std::vector<NamedSample> every_sample();

}  // namespace olm2::testing
