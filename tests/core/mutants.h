// Ways to break a schedule, for tests of `check`.
//
// A mutation that cannot be applied to a schedule returns nothing.  `always_harmful` ones break the
// contract of core/schedule.h whatever they hit; the others may by chance leave a schedule that
// still works, so whoever uses them must decide whether harm was done.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/schedule.h"

namespace olm2::testing {

using Random = std::mt19937;

// A number in [0, count).
inline size_t pick(Random& random, size_t count) {
  return random() % count;
}

struct Mutation {
  std::string_view name;
  bool always_harmful = false;
  std::optional<Schedule> (*apply)(const Problem&, const Schedule&, Random&) = nullptr;
};

// Indices of the instructions for which `accept(instruction)` holds.
template <typename Accept>
std::vector<size_t> instructions_where(const Schedule& schedule, Accept accept) {
  std::vector<size_t> found;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    if (accept(schedule.instructions[i])) found.push_back(i);
  }
  return found;
}

inline bool is_copy(const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::copy;
}

// Applies `change(instruction)` to a random one of the instructions that `accept` likes.
template <typename Accept, typename Change>
std::optional<Schedule> change_one(const Schedule& schedule, Random& random, Accept accept,
                                   Change change) {
  const std::vector<size_t> found = instructions_where(schedule, accept);
  if (found.empty()) return std::nullopt;
  Schedule mutant = schedule;
  change(mutant.instructions[found[pick(random, found.size())]]);
  return mutant;
}

// Makes every wait of an instruction `before` wait for `after[before]` instead; -1 forgets it.
inline void renumber_waits(Schedule& schedule, const std::vector<int32_t>& after) {
  for (Instruction& instruction : schedule.instructions) {
    for (int32_t& wait : instruction.waits) wait = after[static_cast<size_t>(wait)];
    std::erase(instruction.waits, -1);
  }
}

inline std::optional<Schedule> drop_wait(const Problem&, const Schedule& schedule, Random& random) {
  return change_one(
      schedule, random, [](const Instruction& i) { return !i.waits.empty(); },
      [&](Instruction& i) {
        i.waits.erase(i.waits.begin() + static_cast<std::ptrdiff_t>(pick(random, i.waits.size())));
      });
}

inline std::optional<Schedule> wait_for_later(const Problem&, const Schedule& schedule,
                                              Random& random) {
  if (schedule.instructions.empty()) return std::nullopt;
  Schedule mutant = schedule;
  const size_t index = pick(random, mutant.instructions.size());
  const size_t later = index + pick(random, mutant.instructions.size() - index);
  mutant.instructions[index].waits.push_back(static_cast<int32_t>(later));
  return mutant;
}

inline std::optional<Schedule> shift_offset(const Problem& problem, const Schedule& schedule,
                                            Random& random) {
  if (schedule.buffers.empty()) return std::nullopt;
  Schedule mutant = schedule;
  Buffer& buffer = mutant.buffers[pick(random, mutant.buffers.size())];
  const int64_t arena = mutant.arena[static_cast<size_t>(buffer.tier)];
  const int64_t places = (arena - buffer.bytes) / problem.alignment + 1;
  const int64_t before = buffer.offset;
  buffer.offset =
      static_cast<int64_t>(pick(random, static_cast<size_t>(places))) * problem.alignment;
  if (buffer.offset == before) return std::nullopt;
  return mutant;
}

inline std::optional<Schedule> misalign(const Problem&, const Schedule& schedule, Random& random) {
  Schedule mutant = schedule;
  std::vector<Buffer*> movable;
  for (Buffer& buffer : mutant.buffers) {
    if (buffer.offset > 0) movable.push_back(&buffer);
  }
  if (movable.empty()) return std::nullopt;
  movable[pick(random, movable.size())]->offset -= 4;
  return mutant;
}

// Exchanges two instructions; waits follow the instructions they meant, or keep their number.
inline std::optional<Schedule> swap_instructions(const Problem&, const Schedule& schedule,
                                                 Random& random) {
  const size_t count = schedule.instructions.size();
  if (count < 2) return std::nullopt;
  Schedule mutant = schedule;
  const size_t a = pick(random, count);
  const size_t b = pick(random, 2) == 0 && a + 1 < count ? a + 1 : pick(random, count);
  if (a == b) return std::nullopt;
  std::swap(mutant.instructions[a], mutant.instructions[b]);
  if (pick(random, 2) == 0) {
    std::vector<int32_t> after(count);
    for (size_t i = 0; i < count; ++i) after[i] = static_cast<int32_t>(i);
    std::swap(after[a], after[b]);
    renumber_waits(mutant, after);
  }
  return mutant;
}

inline std::optional<Schedule> drop_instruction(const Problem&, const Schedule& schedule,
                                                Random& random) {
  const size_t count = schedule.instructions.size();
  if (count == 0) return std::nullopt;
  Schedule mutant = schedule;
  const size_t gone = pick(random, count);
  std::vector<int32_t> after(count);
  for (size_t i = 0; i < count; ++i) after[i] = static_cast<int32_t>(i > gone ? i - 1 : i);
  after[gone] = -1;
  renumber_waits(mutant, after);
  mutant.instructions.erase(mutant.instructions.begin() + static_cast<std::ptrdiff_t>(gone));
  return mutant;
}

// Runs an instruction a second time, right after the first.
inline std::optional<Schedule> repeat_instruction(const Problem&, const Schedule& schedule,
                                                  Random& random) {
  const size_t count = schedule.instructions.size();
  if (count == 0) return std::nullopt;
  Schedule mutant = schedule;
  const size_t twice = pick(random, count);
  std::vector<int32_t> after(count);
  for (size_t i = 0; i < count; ++i) after[i] = static_cast<int32_t>(i > twice ? i + 1 : i);
  renumber_waits(mutant, after);
  const Instruction again = mutant.instructions[twice];
  mutant.instructions.insert(mutant.instructions.begin() + static_cast<std::ptrdiff_t>(twice),
                             again);
  return mutant;
}

inline std::optional<Schedule> shorten_copy(const Problem& problem, const Schedule& schedule,
                                            Random& random) {
  return change_one(schedule, random, is_copy, [&](Instruction& i) {
    for (Piece* piece : {&i.reads[0].pieces[0], &i.writes[0].pieces[0]}) {
      piece->range.end =
          padded(piece->range.end, problem.alignment) - problem.alignment;  // May become empty.
    }
  });
}

inline std::optional<Schedule> shift_copy_range(const Problem& problem, const Schedule& schedule,
                                                Random& random) {
  return change_one(schedule, random, is_copy, [&](Instruction& i) {
    Piece& piece = i.writes[0].pieces[0];
    const int64_t shift = pick(random, 2) == 0 ? problem.alignment : -problem.alignment;
    piece.range = {piece.range.begin + shift, piece.range.end + shift};
  });
}

inline std::optional<Schedule> write_elsewhere(const Problem&, const Schedule& schedule,
                                               Random& random) {
  return change_one(
      schedule, random, [](const Instruction& i) { return !i.writes.empty(); },
      [&](Instruction& i) {
        Operand& operand = i.writes[pick(random, i.writes.size())];
        operand.pieces[pick(random, operand.pieces.size())].buffer = {
            static_cast<int32_t>(pick(random, schedule.buffers.size()))};
      });
}

inline std::optional<Schedule> read_elsewhere(const Problem&, const Schedule& schedule,
                                              Random& random) {
  return change_one(
      schedule, random, [](const Instruction& i) { return !i.reads.empty(); },
      [&](Instruction& i) {
        Operand& operand = i.reads[pick(random, i.reads.size())];
        operand.pieces[pick(random, operand.pieces.size())].buffer = {
            static_cast<int32_t>(pick(random, schedule.buffers.size()))};
      });
}

inline std::optional<Schedule> drop_operand(const Problem&, const Schedule& schedule,
                                            Random& random) {
  return change_one(
      schedule, random, [](const Instruction& i) { return !i.reads.empty(); },
      [&](Instruction& i) {
        i.reads.erase(i.reads.begin() + static_cast<std::ptrdiff_t>(pick(random, i.reads.size())));
      });
}

inline std::optional<Schedule> swap_operands(const Problem&, const Schedule& schedule,
                                             Random& random) {
  return change_one(
      schedule, random,
      [](const Instruction& i) {
        return i.reads.size() > 1 && i.reads[0].value != i.reads[1].value;
      },
      [](Instruction& i) { std::swap(i.reads[0], i.reads[1]); });
}

inline std::optional<Schedule> wrong_lane(const Problem&, const Schedule& schedule,
                                          Random& random) {
  if (schedule.instructions.empty()) return std::nullopt;
  Schedule mutant = schedule;
  Instruction& instruction = mutant.instructions[pick(random, mutant.instructions.size())];
  instruction.lane =
      instruction.lane == Lane::host_to_device ? Lane::device_to_host : Lane::host_to_device;
  return mutant;
}

inline std::optional<Schedule> shrink_workspace(const Problem& problem, const Schedule& schedule,
                                                Random& random) {
  const std::vector<size_t> found =
      instructions_where(schedule, [](const Instruction& i) { return i.workspace.valid(); });
  if (found.empty()) return std::nullopt;
  Schedule mutant = schedule;
  const BufferId id = mutant.instructions[found[pick(random, found.size())]].workspace;
  mutant.buffers[static_cast<size_t>(id.index)].bytes -= problem.alignment;
  return mutant;
}

inline std::optional<Schedule> forget_workspace(const Problem&, const Schedule& schedule,
                                                Random& random) {
  return change_one(
      schedule, random, [](const Instruction& i) { return i.workspace.valid(); },
      [](Instruction& i) { i.workspace = {}; });
}

// A buffer that holds part of a value becomes too small for it.
inline std::optional<Schedule> shrink_buffer(const Problem& problem, const Schedule& schedule,
                                             Random& random) {
  std::vector<size_t> holding;
  for (const Instruction& instruction : schedule.instructions) {
    for (const Operand& operand : instruction.writes) {
      for (const Piece& piece : operand.pieces) {
        holding.push_back(static_cast<size_t>(piece.buffer.index));
      }
    }
  }
  if (holding.empty()) return std::nullopt;
  Schedule mutant = schedule;
  mutant.buffers[holding[pick(random, holding.size())]].bytes -= problem.alignment;
  return mutant;
}

inline std::optional<Schedule> lose_at_start(const Problem&, const Schedule& schedule,
                                             Random& random) {
  if (schedule.at_start.empty()) return std::nullopt;
  Schedule mutant = schedule;
  const size_t gone = pick(random, mutant.at_start.size());
  mutant.at_start.erase(mutant.at_start.begin() + static_cast<std::ptrdiff_t>(gone));
  return mutant;
}

// A result, or the newest version of a state source, is not there at the end.
inline std::optional<Schedule> lose_at_end(const Problem&, const Schedule& schedule,
                                           Random& random) {
  if (schedule.at_end.empty()) return std::nullopt;
  Schedule mutant = schedule;
  const size_t gone = pick(random, mutant.at_end.size());
  mutant.at_end.erase(mutant.at_end.begin() + static_cast<std::ptrdiff_t>(gone));
  return mutant;
}

// The end names the content a state source had when the step began, not its newest version.
inline std::optional<Schedule> stale_state(const Problem& problem, const Schedule& schedule,
                                           Random& random) {
  std::vector<size_t> changed;
  for (size_t i = 0; i < schedule.at_end.size(); ++i) {
    const ValueId home = problem.graph->value(schedule.at_end[i].value).home;
    if (home.valid() && home != schedule.at_end[i].value) changed.push_back(i);
  }
  if (changed.empty()) return std::nullopt;
  Schedule mutant = schedule;
  Operand& operand = mutant.at_end[changed[pick(random, changed.size())]];
  operand.value = problem.graph->value(operand.value).home;
  return mutant;
}

inline std::optional<Schedule> exceed_budget(const Problem& problem, const Schedule& schedule,
                                             Random& random) {
  Schedule mutant = schedule;
  const size_t tier = pick(random, kTierCount);
  mutant.arena[tier] = problem.budget[tier] + problem.alignment;
  return mutant;
}

inline std::optional<Schedule> leave_arena(const Problem& problem, const Schedule& schedule,
                                           Random& random) {
  if (schedule.buffers.empty()) return std::nullopt;
  Schedule mutant = schedule;
  Buffer& buffer = mutant.buffers[pick(random, mutant.buffers.size())];
  buffer.offset =
      padded(mutant.arena[static_cast<size_t>(buffer.tier)] - buffer.bytes + 1, problem.alignment);
  return mutant;
}

// Something that is not state moves into the space of state.
inline std::optional<Schedule> enter_state(const Problem& problem, const Schedule& schedule,
                                           Random& random) {
  Schedule mutant = schedule;
  std::vector<Buffer*> movable;
  for (Buffer& buffer : mutant.buffers) {
    if (buffer.tier == Tier::device && buffer.offset >= problem.state_bytes) {
      movable.push_back(&buffer);
    }
  }
  if (movable.empty() || problem.state_bytes == 0) return std::nullopt;
  movable[pick(random, movable.size())]->offset = 0;
  return mutant;
}

inline std::span<const Mutation> all_mutations() {
  static constexpr Mutation kMutations[] = {
      {"drop_instruction", false, drop_instruction},
      {"drop_operand", true, drop_operand},
      {"drop_wait", false, drop_wait},
      {"enter_state", true, enter_state},
      {"exceed_budget", true, exceed_budget},
      {"forget_workspace", true, forget_workspace},
      {"leave_arena", true, leave_arena},
      {"lose_at_end", true, lose_at_end},
      {"lose_at_start", true, lose_at_start},
      {"misalign", true, misalign},
      {"read_elsewhere", false, read_elsewhere},
      {"repeat_instruction", false, repeat_instruction},
      {"shift_copy_range", true, shift_copy_range},
      {"shift_offset", false, shift_offset},
      {"shorten_copy", false, shorten_copy},
      {"shrink_buffer", true, shrink_buffer},
      {"shrink_workspace", true, shrink_workspace},
      {"stale_state", true, stale_state},
      {"swap_instructions", false, swap_instructions},
      {"swap_operands", true, swap_operands},
      {"wait_for_later", true, wait_for_later},
      {"write_elsewhere", false, write_elsewhere},
      {"wrong_lane", true, wrong_lane},
  };
  return kMutations;
}

}  // namespace olm2::testing
