#include "train/state_layout.h"

#include <algorithm>

#include "core/error.h"

namespace olm2 {
namespace {

bool accumulates(const RunPrograms& run) {
  return std::ranges::none_of(run.programs, [](const Program& p) { return p.name == "step"; });
}

StateRest rest_of_gradient(std::string_view program) {
  if (program == "step") return {.at_start = false, .at_end = false};
  if (program == "first") return {.at_start = false};
  if (program == "last") return {.at_end = false};
  return {};
}

}  // namespace

StateLayout resident_layout(const RunPrograms& run) {
  StateLayout layout;
  for (const auto& [name, offset] : run.state_offset) layout.places[name] = {.offset = offset};
  layout.kept[index_of(Tier::device)] = run.state_bytes;
  return layout;
}

bool is_small(const StateSource& source) {
  constexpr int64_t kSmall = int64_t{64} << 10;
  return source.bytes < kSmall;
}

std::vector<StateSource> leaving_order(const RunPrograms& run) {
  std::vector<StateSource> order;
  for (const bool small : {false, true}) {
    for (const Role role : {Role::moment, Role::parameter, Role::gradient}) {
      if (role == Role::gradient && !accumulates(run)) continue;
      for (size_t i = run.sources.size(); i-- > 0;) {
        const StateSource& source = run.sources[i];
        const bool belongs = source.role == role && is_small(source) == small;
        if (belongs && source.bytes > 0) order.push_back(source);
      }
    }
  }
  return order;
}

StateLayout planned_layout(const RunPrograms& run, const SourceNames& on_host) {
  const std::vector<StateSource> order = leaving_order(run);
  for (const std::string& name : on_host) {
    if (std::ranges::find(order, name, &StateSource::name) != order.end()) continue;
    throw Error("state: '" + name + "' cannot rest on the host; it is no parameter, moment or " +
                "accumulated gradient of this run");
  }
  StateLayout layout{.planned = true};
  int64_t& kept = layout.kept[index_of(Tier::device)];
  int64_t& host = layout.kept[index_of(Tier::host)];
  for (const StateSource& source : run.sources) {
    const bool rests = source.role != Role::gradient || accumulates(run);
    if (!rests) continue;
    if (on_host.contains(source.name)) {
      layout.places[source.name] = {Tier::host, host};
      host += source.bytes;
    } else if (source.role != Role::gradient) {
      layout.places[source.name] = {Tier::device, kept};
      kept += source.bytes;
    }
  }
  for (const StateSource& source : run.sources) {
    if (source.role != Role::gradient || !accumulates(run) || on_host.contains(source.name))
      continue;
    layout.places[source.name] = {Tier::device, kept + layout.gradient_bytes};
    layout.gradient_bytes += source.bytes;
  }
  return layout;
}

void apply_layout(const StateLayout& layout, const Program& program, Problem& problem) {
  if (!layout.planned) return;
  const Graph& graph = program.graph;
  problem.rest.assign(graph.values().size(), {});
  problem.state_bytes = layout.kept[index_of(Tier::device)];
  if (program.name == "middle") problem.state_bytes += layout.gradient_bytes;
  problem.state_elsewhere = layout.kept;
  problem.state_elsewhere[index_of(Tier::device)] = 0;
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (!is_state(value.role) || value.producer.valid()) continue;
    const ValueId source{static_cast<int32_t>(v)};
    const auto place = layout.places.find(value.name);
    problem.state_offset[v] = place == layout.places.end() ? -1 : place->second.offset;
    StateRest& rest = problem.rest[v];
    if (value.role == Role::gradient) rest = rest_of_gradient(program.name);
    if (place != layout.places.end()) rest.tier = place->second.tier;
    // What comes to rest at the end is read by the next program.
    const bool lands = rest.tier == Tier::device && !rest.at_start && rest.at_end;
    if (lands) problem.results.push_back(graph.newest(source));
  }
}

}  // namespace olm2
