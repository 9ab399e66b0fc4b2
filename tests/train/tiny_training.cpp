#include "tests/train/tiny_training.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/reference_backend.h"

namespace olm2 {
namespace {

size_t pick(Random& random, size_t count) {
  return random() % count;
}

}  // namespace

Plan make_plan(const Problem& problem, uint32_t seed) {
  const Graph& graph = *problem.graph;
  Random random(seed);
  Plan plan;
  const auto compute = [&](size_t node) {
    plan.steps.push_back({.kind = Step::Kind::compute,
                          .node = {static_cast<int32_t>(node)},
                          .value = {},
                          .range = {}});
  };
  const auto copy = [&](ValueId value, Range range, Tier from, Tier to) {
    plan.steps.push_back({.kind = Step::Kind::copy,
                          .node = {},
                          .value = value,
                          .range = range,
                          .from = from,
                          .to = to});
  };
  std::map<ValueId, Range> away;
  std::map<ValueId, Range> leaving;  // Copied out, and still read once on the device.
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const ValueId input : graph.nodes()[i].inputs) {
      const auto found = away.find(input);
      if (found == away.end()) continue;
      copy(input, found->second, Tier::host, Tier::device);
      away.erase(found);
    }
    compute(i);
    for (const ValueId input : graph.nodes()[i].inputs) {
      const auto found = leaving.find(input);
      if (found == leaving.end()) continue;
      away.insert(*found);
      leaving.erase(found);
    }
    if (seed == 0 || graph.nodes()[i].phase == Phase::update) continue;
    if (pick(random, 4) == 0 && !away.contains(graph.nodes()[0].outputs[0])) {
      compute(0);
      leaving.erase(graph.nodes()[0].outputs[0]);
    }
    for (const ValueId output : graph.nodes()[i].outputs) {
      const bool is_fixed = graph.value(output).home.valid() ||
                            std::ranges::find(problem.results, output) != problem.results.end();
      if (is_fixed || pick(random, 3) == 0) continue;
      const int64_t bytes = graph.type(output).bytes();
      const Range range = pick(random, 2) == 0 || bytes <= problem.alignment
                              ? Range{0, bytes}
                              : Range{problem.alignment, bytes};
      copy(output, range, Tier::device, Tier::host);
      (pick(random, 2) == 0 ? away : leaving)[output] = range;
    }
  }
  return with_earliest_drops(problem, plan);
}

CheckedSchedule schedule_of(const Problem& problem, uint32_t plan_seed, uint64_t place_seed) {
  Schedule schedule = lower(problem, make_plan(problem, plan_seed));
  place(problem, schedule, {.random_seed = place_seed});
  add_waits(problem, schedule);
  return check(problem, std::move(schedule));
}

std::vector<ExecutableProgram> one_program(const Problem& problem, CheckedSchedule schedule) {
  return {{.name = "step", .problem = problem, .schedule = std::move(schedule)}};
}

void write_floats(std::span<std::byte> bytes, Random& random, float scale) {
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const float number = scale * (static_cast<float>(random() % 2001) / 1000.0F - 1.0F);
    std::memcpy(bytes.data() + i, &number, 4);
  }
}

void write_inputs(Executor& executor, size_t program, int step) {
  Random random(static_cast<uint32_t>(100 + step));
  write_floats(executor.input(program, "x"), random, 1.0F);
  const std::span<std::byte> targets = executor.input(program, "targets");
  for (size_t i = 0; i + 4 <= targets.size(); i += 4) {
    const auto target = static_cast<int32_t>(pick(random, 11));
    std::memcpy(targets.data() + i, &target, 4);
  }
  const float rates[3] = {1e-2F, 0.1F, 0.05F};
  std::memcpy(executor.input(program, "rates").data(), rates, sizeof rates);
}

std::vector<std::byte> train(Executor& executor, const Graph& graph) {
  Random random(1);
  for (const char* name : {"w1", "b1", "w2", "b2"}) {
    write_floats(executor.state(name), random, 0.3F);
  }
  std::vector<std::byte> bytes;
  for (int step = 0; step < 3; ++step) {
    write_inputs(executor, 0, step);
    executor.run(0);
    const std::span<const std::byte> loss = executor.result(0, "loss");
    bytes.insert(bytes.end(), loss.begin(), loss.end());
  }
  for (const Value& value : graph.values()) {
    if (!is_state(value.role) || value.producer.valid()) continue;
    const std::span<std::byte> state = executor.state(value.name);
    bytes.insert(bytes.end(), state.begin(), state.end());
  }
  return bytes;
}

std::vector<std::byte> train(const TinyTraining& tiny, CheckedSchedule schedule,
                             const ExecutorOptions& options) {
  ReferenceBackend backend;
  Executor executor(one_program(tiny.problem, std::move(schedule)), backend, options);
  return train(executor, tiny.graph);
}

float first_float(std::span<const std::byte> bytes) {
  float number = 0;
  std::memcpy(&number, bytes.data(), 4);
  return number;
}

}  // namespace olm2
