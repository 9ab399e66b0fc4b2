#include "train/trace_file.h"

#include <nlohmann/json.hpp>

#include "planner/occupancy.h"

namespace olm2 {
namespace {

using Json = nlohmann::ordered_json;

std::string title_of(const Graph& graph, const Instruction& instruction) {
  if (instruction.kind == Instruction::Kind::compute) return graph.node(instruction.node).name;
  return graph.value(instruction.reads.at(0).value).name;
}

Json name_json(const char* what, size_t process, size_t thread, std::string_view name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

Json event_json(const TracedProgram& program, size_t process, const TraceEvent& event) {
  const Instruction& instruction =
      program.schedule->instructions[static_cast<size_t>(event.instruction)];
  Json args = {{"instruction", event.instruction}, {"waits", instruction.waits}};
  if (instruction.kind == Instruction::Kind::copy) {
    args["bytes"] = instruction.reads.at(0).pieces.at(0).range.bytes();
  } else {
    args["op"] = program.graph->node(instruction.node).op->name;
  }
  return {{"name", title_of(*program.graph, instruction)},
          {"cat", to_string(instruction.lane)},
          {"ph", "X"},
          {"pid", process},
          {"tid", index_of(instruction.lane)},
          {"ts", event.start_s * 1e6},
          {"dur", (event.end_s - event.start_s) * 1e6},
          {"args", args}};
}

// Bytes in use, a counter per tier that is used at all.
void add_counters(const TracedProgram& program, size_t process, Json& rows) {
  std::vector<double> start(program.schedule->instructions.size(), 0);
  std::vector<double> end(start);
  for (const TraceEvent& event : program.events) {
    start[static_cast<size_t>(event.instruction)] = event.start_s;
    end[static_cast<size_t>(event.instruction)] = event.end_s;
  }
  const std::vector<BufferSpan> spans =
      buffer_spans(*program.schedule, start, end, program.seconds);
  for (const OccupancyChange& change : occupancy_over_time(*program.schedule, spans)) {
    for (const Tier tier : kTiers) {
      if (program.schedule->arena[index_of(tier)] == 0) continue;
      rows.push_back({{"name", std::string(to_string(tier)) + " bytes in use"},
                      {"ph", "C"},
                      {"pid", process},
                      {"ts", change.time_s * 1e6},
                      {"args", {{"bytes", change.bytes[index_of(tier)]}}}});
    }
  }
}

}  // namespace

std::string trace_text(std::span<const TracedProgram> programs) {
  Json rows = Json::array();
  for (size_t process = 0; process < programs.size(); ++process) {
    const TracedProgram& program = programs[process];
    rows.push_back(name_json("process_name", process, 0, "program " + program.name));
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      rows.push_back(name_json("thread_name", process, lane, to_string(static_cast<Lane>(lane))));
    }
    for (const TraceEvent& event : program.events) {
      rows.push_back(event_json(program, process, event));
    }
    add_counters(program, process, rows);
  }
  return Json{{"traceEvents", rows}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

TracedProgram planned_trace(const std::string& name, const Problem& problem,
                            const Schedule& schedule) {
  const Simulation simulation = simulate(problem, schedule);
  TracedProgram program{.name = name,
                        .graph = problem.graph,
                        .schedule = &schedule,
                        .events = {},
                        .seconds = simulation.seconds};
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    program.events.push_back({static_cast<int32_t>(i), simulation.start_s[i], simulation.end_s[i]});
  }
  return program;
}

}  // namespace olm2
