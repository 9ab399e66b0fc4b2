// Executes a schedule on symbolic memory, in every order its lanes may take, and tells whether any
// of them goes wrong.  Independent of `check`: it knows no clocks and no proofs, only what a
// machine does.  For schedules of about a dozen instructions.
#pragma once

#include "core/schedule.h"

namespace olm2::testing {

enum class Verdict {
  harmless,  // In every order, every read saw its bytes and the end holds what it must.
  harmful,   // In some order something went wrong: wrong bytes, a write outside, a deadlock.
  unknown,   // More than `state_limit` situations.
};

Verdict interpret(const Problem& problem, const Schedule& schedule, size_t state_limit = 20000);

}  // namespace olm2::testing
