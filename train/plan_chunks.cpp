#include "train/plan_chunks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string>

#include "core/error.h"

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

ChunkedPlan plan_with(const Config& config, const PlanStage& stage, const BytesPerTier& budget) {
  ChunkedPlan row{.chunks = config.train.head_chunks,
                  .is_configured = false,
                  .keep_all_bytes = stage.budgets().keep_all_bytes,
                  .fits = true};
  std::vector<Problem> problems = stage.problems();
  std::vector<Planned> planned;
  for (Problem& problem : problems) {
    problem.budget = budget;
    row.minimum_bytes = std::max(row.minimum_bytes, find_minimum(problem, stage.options()).bytes);
    planned.push_back(plan_program(problem, stage.options()));
    const Certificate& certificate = planned.back().certificate;
    row.fits = row.fits && planned.back().schedule.has_value();
    row.status = std::max(row.status, certificate.status);
  }
  const RunPlan plan =
      collect_plans(stage.programs(), problems, stage.budgets(), std::move(planned));
  const StepTime time = step_time(plan, config.train.grad_accumulation);
  row.keep_all_s = time.keep_all_s;
  if (row.fits) row.seconds = time.planned_s;
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
  std::printf(
      "* is the configured number.  Another one is another computation: last bits change.\n");
  return table;
}

}  // namespace olm2
