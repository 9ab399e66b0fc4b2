// Tables of plans: what every policy makes of models and budgets, how close to the bound, how fast.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace olm2 {

struct PlanBench {
  std::string config_file = {};
  std::vector<std::string> sets = {};  // Overrides, as of --set.
  std::vector<std::string> presets =
      {};                            // Values of model.preset; empty: the configuration's model.
  std::vector<int64_t> layers = {};  // Values of model.n_layer; empty: the model's.
  std::vector<std::string> policies = {};  // Names of policies.
  std::vector<std::string> budgets = {};   // "60%", "3 GiB".
  std::vector<double> gaps = {};           // Where the search may stop; empty: the configuration's.
};

// Plans every combination, largest budget first, and calls `line` with one object for each:
// overhead over keeping everything, gap to the bound, seconds it took, and the milliseconds of
// computing in a step, waits left out.  Where policy recompute comes first, the others also say how
// much less they compute than its plan, and than any plan of its kind: those never wait for copies,
// so that the bound of their time is one of their computing.  Every plan is made by itself.
// Measures nothing: planner.profile must be "estimate" or a file.  Throws Error for a wrong
// configuration, and for planner.profile = "measure".
void bench_plans(const PlanBench& bench,
                 const std::function<void(const nlohmann::ordered_json&)>& line);

}  // namespace olm2
