#include "train/plan_chunks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <set>
#include <string>

#include "core/error.h"
#include "train/state_choice.h"

namespace olm2 {
namespace {

constexpr int64_t kLeastRows = 16;

// Into how many chunks the head of a run is cut.
int64_t chunks_of(const RunPrograms& run) {
  for (const Program& program : run.programs) {
    for (const Node& node : program.graph.nodes()) {
      const double chunks = attr_or(node.attrs, "chunks", 0);
      if (chunks > 0) return static_cast<int64_t>(chunks);
    }
  }
  throw Error("--compare-chunks: this run has no output head in chunks");
}

std::set<int64_t> numbers_to_try(const Config& config, int64_t configured) {
  std::set<int64_t> numbers{configured};
  const int64_t rows = config.train.batch_size * config.train.sequence_length;
  for (int64_t chunks = 1; chunks == 1 || rows / chunks >= kLeastRows; chunks *= 2) {
    numbers.insert(chunks);
  }
  return numbers;
}

// Of one optimizer step; keeping everything waits for nothing.
double keep_all_seconds(const Config& config, const PlanStage& stage) {
  double seconds = 0;
  for (int64_t micro = 0; micro < config.train.grad_accumulation; ++micro) {
    const std::string name = program_name(micro, config.train.grad_accumulation);
    const auto& programs = stage.programs().programs;
    const auto program = std::ranges::find(programs, name, &Program::name);
    const auto i = static_cast<size_t>(program - programs.begin());
    const std::vector<double>& nodes = stage.resident_problems().at(i).seconds;
    seconds = std::accumulate(nodes.begin(), nodes.end(), seconds);
  }
  return seconds;
}

ChunkedPlan plan_with(const Config& config, const PlanStage& stage, const BytesPerTier& budget) {
  ChunkedPlan row{.chunks = config.train.head_chunks,
                  .keep_all_bytes = stage.budgets().keep_all_bytes,
                  .keep_all_s = keep_all_seconds(config, stage)};
  for (const Problem& problem : stage.roomiest_problems()) {
    row.minimum_bytes = std::max(row.minimum_bytes, find_minimum(problem, stage.options()).bytes);
  }
  Budgets budgets = stage.budgets();
  budgets.bytes = budget;
  const StateSearch found = search_state(stage.programs(), stage.resident_problems(), budgets,
                                         stage.options(), stage.plans_state());
  for (const Certificate& certificate : found.certificates) {
    row.status = std::max(row.status, certificate.status);
  }
  row.fits = found.plan.has_value();
  if (row.fits) row.seconds = step_time(*found.plan, config.train.grad_accumulation).planned_s;
  return row;
}

void print(const ChunkedPlan& row) {
  const std::string name = std::to_string(row.chunks) + (row.is_configured ? " *" : "");
  const std::string status(to_string(row.status));
  std::array<char, 64> planned{};
  if (row.fits) {
    std::snprintf(planned.data(), planned.size(), "%12.2f %11.2f", 1e3 * row.seconds,
                  100 * (row.seconds / row.keep_all_s - 1));
  } else {
    std::snprintf(planned.data(), planned.size(), "%12s %11s", "-", "-");
  }
  std::printf("%-8s %16lld %16lld %14.2f %-10s %s\n", name.c_str(),
              static_cast<long long>(row.keep_all_bytes), static_cast<long long>(row.minimum_bytes),
              1e3 * row.keep_all_s, status.c_str(), planned.data());
  std::fflush(stdout);
}

}  // namespace

std::vector<ChunkedPlan> compare_chunks(const Config& config, Backend& backend,
                                        const PlanStage& stage) {
  const int64_t configured = chunks_of(stage.programs());
  const BytesPerTier budget = stage.budgets().bytes;
  std::printf("policy %s, device budget %lld bytes\n", config.memory.policy.c_str(),
              static_cast<long long>(budget[index_of(Tier::device)]));
  std::printf("%-8s %16s %16s %14s %-10s %12s %11s\n", "chunks", "keep all bytes", "minimum bytes",
              "keep all ms", "status", "planned ms", "overhead %");
  std::vector<ChunkedPlan> table;
  Profile known = stage.profile();
  for (const int64_t chunks : numbers_to_try(config, configured)) {
    Config other = config;
    other.train.head_chunks = chunks;
    const PlanStage other_stage(other, backend, known);
    known = other_stage.profile();
    table.push_back(plan_with(other, other_stage, budget));
    table.back().is_configured = chunks == configured;
    print(table.back());
  }
  std::printf("* is the configured number; another one may change last bits.\n");
  std::printf("state=\"%s\" as everywhere in this table.\n", config.memory.state.c_str());
  return table;
}

}  // namespace olm2
