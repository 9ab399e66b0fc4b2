#include "train/plan_largest.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "train/page.h"
#include "train/planning.h"
#include "train/state_choice.h"

namespace olm2 {
namespace {

struct Need {
  std::string program;
  Minimum minimum;
};

// What the program that needs most needs.
Need need_of(Config config, Backend& backend, int64_t batch_size) {
  config.train.batch_size = batch_size;
  if (config.planner.profile == "measure") config.planner.profile = "estimate";
  const RunPrograms programs = programs_of(config, backend.alignment());
  const Profile profile = profile_of(config, programs, backend, {});
  if (config.planner.profile != "estimate" && !profile.roofline &&
      lacks_kernels(programs, profile)) {
    throw Error("--largest-batch: planner.profile " + config.planner.profile +
                " has no times for train.batch_size = " + std::to_string(batch_size) +
                "; a file of measured times holds the batch it was measured for alone. Give --set "
                "planner.profile=estimate, or a profile file with a roofline");
  }
  Need most;
  std::vector<Problem> problems = problems_of(programs, profile, backend.alignment());
  const PlanOptions options = plan_options_of(config);
  Budgets budgets;
  budgets.bytes[index_of(Tier::device)] = config.memory.device_budget.bytes;
  budgets.bytes[index_of(Tier::host)] = config.memory.host_budget.bytes;
  problems = with_layout(
      programs, problems,
      roomiest_layout(programs, problems, budgets, options, config.memory.state == "planned"));
  for (size_t i = 0; i < problems.size(); ++i) {
    problems[i].budget = budgets.bytes;
    Minimum minimum = find_minimum(problems[i], options);
    if (i > 0 && minimum.bytes <= most.minimum.bytes) continue;
    most = {programs.programs[i].name, std::move(minimum)};
  }
  return most;
}

}  // namespace

int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits) {
  int64_t good = 0;
  int64_t bad = most + 1;
  for (int64_t next = 1; next <= most && bad > most; next = std::min(2 * next, most)) {
    if (fits(next)) {
      good = next;
      if (next == most) return most;
    } else {
      bad = next;
    }
  }
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

LargestBatch find_largest_batch(const Config& config, Backend& backend,
                                const std::function<void(const std::string&)>& progress) {
  const ByteSize& budget = config.memory.device_budget;
  if (budget.is_percent()) {
    throw Error("--largest-batch: a device budget of " + to_string(budget) +
                " grows with the batch, so that every batch fits; give bytes, e.g. --budget "
                "\"3 GiB\"");
  }
  if (config.train.total_batch_tokens > 0) {
    throw Error(
        "--largest-batch: train.total_batch_tokens fixes how many sequences a step has; give "
        "train.grad_accumulation instead");
  }
  LargestBatch result;
  const auto fits = [&](int64_t batch_size) {
    const Need need = need_of(config, backend, batch_size);
    const bool does = need.minimum.bytes <= budget.bytes;
    progress("batch " + std::to_string(batch_size) + " needs " + short_bytes(need.minimum.bytes) +
             (does ? ": fits" : ": too much"));
    if (does) {
      result.bytes = need.minimum.bytes;
    } else {  // Asked last for the smallest that does not fit.
      result.next_bytes = need.minimum.bytes;
      result.next_moment = need.minimum.moment;
      result.next_program = need.program;
    }
    return does;
  };
  const int64_t most = std::numeric_limits<int32_t>::max() / config.train.sequence_length;
  result.batch_size = largest_that_fits(most, fits);
  return result;
}

}  // namespace olm2
