#include "core/error.h"
#include "planner/planner.h"
#include "planner/trace.h"

namespace olm2 {
namespace {

void add_instructions(const Step& step, StepOperands&& operands, Schedule& schedule) {
  if (step.kind == Step::Kind::compute) {
    schedule.instructions.push_back({.kind = Instruction::Kind::compute,
                                     .lane = Lane::compute,
                                     .node = step.node,
                                     .reads = std::move(operands.reads),
                                     .writes = std::move(operands.writes),
                                     .workspace = operands.workspace,
                                     .waits = {}});
  } else if (step.kind == Step::Kind::copy) {
    for (size_t k = 0; k < operands.reads.size(); ++k) {
      schedule.instructions.push_back({.kind = Instruction::Kind::copy,
                                       .lane = lane_of_copy(step.from, step.to),
                                       .node = {},
                                       .reads = {std::move(operands.reads[k])},
                                       .writes = {std::move(operands.writes[k])},
                                       .workspace = {},
                                       .waits = {}});
    }
  }
}

// `instructions_before[k]`: how many instructions the steps before step k became.
Buffer buffer_of(const Problem& problem, const Stay& stay,
                 const std::vector<int32_t>& instructions_before) {
  const Graph& graph = *problem.graph;
  Buffer buffer{.name = stay.value.valid() ? graph.value(stay.value).name
                                           : "workspace of " + graph.node(stay.node).name,
                .tier = stay.tier,
                .offset = 0,
                .bytes = stay.bytes,
                .first = -1,
                .last = instructions_before.back()};
  if (stay.home.valid()) {
    buffer.offset = problem.state_offset[static_cast<size_t>(stay.home.index)] + stay.range.begin;
  }
  if (stay.begin >= 0) buffer.first = instructions_before[static_cast<size_t>(stay.begin)];
  if (stay.end != kNeverDropped) {
    buffer.last = instructions_before[static_cast<size_t>(stay.end)] - 1;
  }
  return buffer;
}

}  // namespace

Schedule lower(const Problem& problem, const Plan& plan) {
  PlanTrace trace = trace_plan(problem, plan);
  Schedule schedule;
  std::vector<int32_t> instructions_before = {0};
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    add_instructions(plan.steps[k], std::move(trace.steps[k]), schedule);
    instructions_before.push_back(static_cast<int32_t>(schedule.instructions.size()));
  }
  for (const Stay& stay : trace.stays) {
    schedule.buffers.push_back(buffer_of(problem, stay, instructions_before));
  }
  schedule.at_start = std::move(trace.at_start);
  schedule.at_end = std::move(trace.at_end);
  return schedule;
}

}  // namespace olm2
