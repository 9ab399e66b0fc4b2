// Cross-entropy of one row of logits: what the loss alone and the loss with its head share.
#pragma once

#include <cstdint>

#include "core/op.h"

namespace olm2::cpu {

// log of the sum of exp over a row.
float log_sum_exp(const float* logits, int64_t count);

// gradient = scale (exp(logits - lse) - [column is the target]), 0 from column `classes` on and
// where the target is < 0.  May be the logits.
void differentiate_row(const float* logits, int64_t columns, int64_t classes, int32_t target,
                       float lse, float scale, float* gradient);

// How many targets are not ignored.  Throws Error for one that is no class.
int64_t count_targets(const Tensor& targets, int64_t classes);

}  // namespace olm2::cpu
