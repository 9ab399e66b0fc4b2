#include "train/state_contents.h"

#include <algorithm>

#include "core/error.h"

namespace olm2 {

StateContents::StateContents(std::span<const ExecutableProgram> programs)
    : effects_(programs.size()) {
  for (size_t i = 0; i < programs.size(); ++i) visit(programs[i], i);
  for (size_t i = 0; i < programs.size(); ++i) lose_out_of_sight(programs[i].problem, i);
  has_content_.assign(sources_.size(), true);
}

void StateContents::begin(size_t program, std::string_view program_name) const {
  for (const size_t source : effects_[program].needs) {
    if (has_content_[source]) continue;
    throw Error("executor: program " + std::string(program_name) + " needs state " +
                sources_[source].name +
                ", whose bytes another program has used since; run the one that makes it before");
  }
}

void StateContents::end(size_t program) {
  for (const size_t source : effects_[program].loses) has_content_[source] = false;
  for (const size_t source : effects_[program].leaves) has_content_[source] = true;
}

size_t StateContents::source_of(const Problem& problem, size_t value) {
  const std::string& name = problem.graph->values()[value].name;
  const auto known = std::ranges::find(sources_, name, &Source::name);
  const auto index = static_cast<size_t>(known - sources_.begin());
  if (known == sources_.end()) sources_.push_back({.name = name});
  const ValueId id{static_cast<int32_t>(value)};
  const StateRest rest = problem.rest_of(id);
  if (rest.at_start || rest.at_end) {
    sources_[index].tier = rest.tier;
    sources_[index].end = problem.state_offset.at(value) + problem.padded_bytes(id);
  }
  return index;
}

void StateContents::visit(const ExecutableProgram& program, size_t i) {
  const Graph& graph = *program.problem.graph;
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (!is_state(value.role) || value.producer.valid()) continue;
    const StateRest rest = program.problem.rest_of({static_cast<int32_t>(v)});
    const size_t source = source_of(program.problem, v);
    Effects& effects = effects_[i];
    if (rest.at_start) effects.needs.push_back(source);
    (rest.at_end ? effects.leaves : effects.loses).push_back(source);
    effects.knows.resize(sources_.size(), false);
    effects.knows[source] = true;
  }
}

// What the program does not know, and what its arenas do not spare.
void StateContents::lose_out_of_sight(const Problem& problem, size_t i) {
  Effects& effects = effects_[i];
  effects.knows.resize(sources_.size(), false);
  for (size_t s = 0; s < sources_.size(); ++s) {
    if (effects.knows[s] || sources_[s].end <= problem.state_bytes_in(sources_[s].tier)) continue;
    effects.loses.push_back(s);
  }
}

}  // namespace olm2
