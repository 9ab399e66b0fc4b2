#include "train/trace_file.h"

#include <nlohmann/json.hpp>

#include "train/files.h"

namespace olm2 {
namespace {

using Json = nlohmann::ordered_json;

std::string title_of(const Graph& graph, const Instruction& instruction) {
  if (instruction.kind == Instruction::Kind::compute) return graph.node(instruction.node).name;
  return graph.value(instruction.reads.at(0).value).name;
}

Json event_json(const Graph& graph, const Schedule& schedule, const TraceEvent& event) {
  const Instruction& instruction = schedule.instructions[static_cast<size_t>(event.instruction)];
  Json args = {{"instruction", event.instruction}, {"waits", instruction.waits}};
  if (instruction.kind == Instruction::Kind::copy) {
    args["bytes"] = instruction.reads.at(0).pieces.at(0).range.bytes();
  } else {
    args["op"] = graph.node(instruction.node).op->name;
  }
  return {{"name", title_of(graph, instruction)},
          {"cat", to_string(instruction.lane)},
          {"ph", "X"},
          {"pid", 0},
          {"tid", index_of(instruction.lane)},
          {"ts", event.start_s * 1e6},
          {"dur", (event.end_s - event.start_s) * 1e6},
          {"args", args}};
}

}  // namespace

void write_trace(const std::filesystem::path& file, const Graph& graph, const Schedule& schedule,
                 std::span<const TraceEvent> events) {
  Json rows = Json::array();
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    rows.push_back({{"name", "thread_name"},
                    {"ph", "M"},
                    {"pid", 0},
                    {"tid", lane},
                    {"args", {{"name", to_string(static_cast<Lane>(lane))}}}});
  }
  for (const TraceEvent& event : events) rows.push_back(event_json(graph, schedule, event));
  write_file(file, Json{{"traceEvents", rows}, {"displayTimeUnit", "ms"}}.dump() + "\n");
}

}  // namespace olm2
