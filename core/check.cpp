// Proves a schedule: replays it in list order, which is one of the orders its lanes may take, and
// demands for every pair of accesses that could disturb each other that lanes and waits force the
// order seen in the list.  Then every other order the lanes may take gives the same bytes.
//
// What a buffer holds is tracked as one (value, range); values are SSA, so equal names are equal
// bytes, however often they were computed.
#include <algorithm>
#include <utility>

#include "core/checker.h"

namespace olm2 {

std::string Checker::name_of(int32_t moment) const {
  if (moment < 0) return "the start of the step";
  if (moment >= order_.end()) return "the end of the step";
  const Instruction& instruction = schedule_.instructions[static_cast<size_t>(moment)];
  std::string text = "instruction " + std::to_string(moment) + " (";
  if (instruction.kind == Instruction::Kind::copy) {
    text += "copy";
    if (!instruction.reads.empty() && exists(instruction.reads[0].value)) {
      text += " of " + name_of(instruction.reads[0].value);
    }
  } else {
    const NodeId node = instruction.node;
    const bool known = node.valid() && static_cast<size_t>(node.index) < graph_.nodes().size();
    text += "compute " + (known ? graph_.node(node).name : "nothing");
  }
  return text + ")";
}

void Checker::check_problem() {
  const int64_t alignment = problem_.alignment;
  ensure(alignment > 0 && (alignment & (alignment - 1)) == 0, "alignment is no power of two");
  ensure(problem_.workspace.size() == graph_.nodes().size(), "one workspace size per node");
  ensure(problem_.state_offset.size() == graph_.values().size(), "one state offset per value");
  ensure(problem_.rest.empty() || problem_.rest.size() == graph_.values().size(),
         "one resting place per value");
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    const Value& value = graph_.value(id);
    if (!is_state(value.role) || value.producer.valid()) continue;
    const int64_t offset = problem_.state_offset[i];
    const StateRest rest = problem_.rest_of(id);
    // Bytes that are free for part of the step lie above those that never are.
    const bool has_home = rest.at_start || rest.at_end;
    const bool stays = rest.at_start && rest.at_end;
    const int64_t below = problem_.state_bytes_in(rest.tier);
    if (has_home && (offset < 0 || !is_aligned(offset) ||
                     (stays && offset > below - problem_.padded_bytes(id)))) {
      fail("state " + value.name + " lies at offset " + std::to_string(offset) + ", expected " +
           std::to_string(problem_.padded_bytes(id)) +
           " aligned bytes below state_bytes = " + std::to_string(below));
    }
  }
}

void Checker::check_arenas() {
  for (const Tier tier : kTiers) {
    const int64_t bytes = schedule_.arena[index_of(tier)];
    const int64_t budget = problem_.budget[index_of(tier)];
    if (bytes < 0 || bytes > budget) {
      fail("the " + std::string(to_string(tier)) + " arena has " + std::to_string(bytes) +
           " bytes, the budget is " + std::to_string(budget));
    }
  }
  HomesByOffset homes;
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    const Value& value = graph_.value(id);
    if (!is_state(value.role) || value.producer.valid() || value.type.bytes() == 0) continue;
    const StateRest rest = problem_.rest_of(id);
    if (rest.at_start || rest.at_end) homes[index_of(rest.tier)][problem_.state_offset[i]] = id;
  }
  for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
    check_buffer({static_cast<int32_t>(i)}, homes);
  }
}

void Checker::check_buffer(BufferId id, const HomesByOffset& homes) {
  const Buffer& buffer = this->buffer(id);
  if (index_of(buffer.tier) >= kTierCount) {
    fail("buffer " + std::to_string(id.index) + " is in no tier");
  }
  const int64_t arena = schedule_.arena[index_of(buffer.tier)];
  if (buffer.offset < 0 || buffer.bytes < 0 || buffer.bytes > arena ||
      buffer.offset > arena - buffer.bytes) {
    fail("buffer " + std::to_string(id.index) + " ('" + buffer.name + "') has " +
         std::to_string(buffer.bytes) + " bytes at offset " + std::to_string(buffer.offset) +
         ", outside the " + std::string(to_string(buffer.tier)) + " arena of " +
         std::to_string(arena));
  }
  if (!is_aligned(buffer.offset) || !is_aligned(buffer.bytes)) {
    fail(name_of(id) + " is not aligned to " + std::to_string(problem_.alignment) + " bytes");
  }
  if (buffer.offset >= problem_.state_bytes_in(buffer.tier) || buffer.bytes == 0) return;
  // The last home that begins at or before the buffer: all of it on the device, part of it where
  // state leaves and returns in pieces.
  const std::map<int64_t, ValueId>& here = homes[index_of(buffer.tier)];
  const auto after = here.upper_bound(buffer.offset);
  const auto found = after == here.begin() ? here.end() : std::prev(after);
  const bool is_home =
      found != here.end() &&
      (buffer.tier == Tier::device
           ? buffer.offset == found->first && buffer.bytes == problem_.padded_bytes(found->second)
           : buffer.offset + buffer.bytes <= found->first + problem_.padded_bytes(found->second));
  if (!is_home) {
    fail(name_of(id) +
         " lies below state_bytes = " + std::to_string(problem_.state_bytes_in(buffer.tier)) +
         " and is not the home of a state source");
  }
  state_of_[static_cast<size_t>(id.index)] = found->second;
}

// Start and end list whole values on the device, one piece each; state in its home, in pieces where
// it does not live there for the whole step.
void Checker::check_boundary(std::span<const Operand> operands) {
  for (const Operand& operand : operands) {
    if (!exists(operand.value)) fail("lists a value that does not exist");
    const Value& value = graph_.value(operand.value);
    const StateRest rest = value.home.valid() ? problem_.rest_of(value.home) : StateRest{};
    const bool rests = value.home.valid() && (moment_ < 0 ? rest.at_start : rest.at_end);
    const bool may_be_cut = rests && !problem_.lives_at_home(operand.value);
    if (operand.pieces.size() != 1 && !may_be_cut) {
      fail(name_of(operand.value) + " is listed in " + std::to_string(operand.pieces.size()) +
           " pieces, expected one");
    }
    check_operand(operand, operand.value, "lists", rests ? rest.tier : Tier::device);
    if (!rests) continue;
    const int64_t expected = problem_.state_offset[static_cast<size_t>(value.home.index)];
    const int64_t offset = buffer(operand.pieces[0].buffer).offset;
    if (offset != expected) {
      fail("state " + value.name + " lies at offset " + std::to_string(offset) + ", expected " +
           std::to_string(expected));
    }
  }
}

void Checker::check_start() {
  moment_ = order_.start();
  check_boundary(schedule_.at_start);
  std::vector<bool> present(graph_.values().size(), false);
  for (const Operand& operand : schedule_.at_start) {
    const auto index = static_cast<size_t>(operand.value.index);
    if (graph_.value(operand.value).producer.valid()) {
      fail(name_of(operand.value) + " is made by a node and cannot be there already");
    }
    if (present[index]) fail(name_of(operand.value) + " is listed twice");
    present[index] = true;
    for (const Piece& piece : operand.pieces) write(operand.value, piece);
  }
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    if (value.producer.valid()) continue;
    const bool expected =
        !is_state(value.role) || problem_.rest_of({static_cast<int32_t>(i)}).at_start;
    if (expected && !present[i]) fail("source " + value.name + " is missing");
    if (!expected && present[i]) {
      fail("state " + value.name + " is listed, though nobody left its content there");
    }
  }
}

void Checker::check_end() {
  moment_ = order_.end();
  check_boundary(schedule_.at_end);
  std::vector<bool> present(graph_.values().size(), false);
  for (const Operand& operand : schedule_.at_end) {
    for (const Piece& piece : operand.pieces) read(operand.value, piece);
    present[static_cast<size_t>(operand.value.index)] = true;
  }
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    if (!is_state(value.role) || value.producer.valid()) continue;
    if (!problem_.rest_of({static_cast<int32_t>(i)}).at_end) continue;
    const ValueId newest = graph_.newest({static_cast<int32_t>(i)});
    if (!present[static_cast<size_t>(newest.index)]) {
      fail("state " + value.name + " does not hold its newest version " + name_of(newest));
    }
  }
  for (const ValueId result : problem_.results) {
    ensure(exists(result), "a result that the graph does not have");
    if (!present[static_cast<size_t>(result.index)]) {
      fail("result " + name_of(result) + " is missing");
    }
  }
}

// Two buffers that share a byte: all uses of one precede all uses of the other.
void Checker::check_overlaps() {
  std::vector<int32_t> by_offset;
  for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
    if (schedule_.buffers[i].bytes > 0) by_offset.push_back(static_cast<int32_t>(i));
  }
  std::ranges::sort(by_offset, {},
                    [&](int32_t i) { return std::pair(buffer({i}).tier, buffer({i}).offset); });
  for (size_t i = 0; i < by_offset.size(); ++i) {
    const BufferId a{by_offset[i]};
    const int64_t end = buffer(a).offset + buffer(a).bytes;
    for (size_t j = i + 1; j < by_offset.size(); ++j) {
      const BufferId b{by_offset[j]};
      if (buffer(b).tier != buffer(a).tier || buffer(b).offset >= end) break;
      const TimeSpan& span_a = spans_[static_cast<size_t>(a.index)];
      const TimeSpan& span_b = spans_[static_cast<size_t>(b.index)];
      if (span_a.precedes(span_b) || span_b.precedes(span_a)) continue;
      throw Error("check: " + name_of(a) + ", last written by " + name_of(content(a).writer) +
                  ", and " + name_of(b) + ", last written by " + name_of(content(b).writer) +
                  ", share bytes and can be in use at the same time");
    }
  }
}

CheckedSchedule check(const Problem& problem, Schedule schedule) {
  ensure(problem.graph != nullptr, "check: a problem without a graph");
  Checker(problem, schedule).run();
  return CheckedSchedule(std::move(schedule));
}

}  // namespace olm2
