// How much time a search has left.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

#include "planner/planner.h"

namespace olm2 {

class Deadline {
 public:
  explicit Deadline(const PlanOptions& options)
      : limit_s_(options.time_limit_s), should_stop_(options.should_stop), start_(Clock::now()) {}
  double passed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  // 0 also where the caller wants it to end.
  double left_s() const {
    if (should_stop_ && should_stop_()) return 0;
    return std::max(0.0, limit_s_ - passed_s());
  }

 private:
  using Clock = std::chrono::steady_clock;
  double limit_s_;
  std::function<bool()> should_stop_;
  Clock::time_point start_;
};

}  // namespace olm2
