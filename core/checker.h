// The rules of a schedule, applied one after the other; check.cpp says how they prove it.  For the
// files of check() alone.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/happens_before.h"
#include "core/schedule.h"

namespace olm2 {

// What a buffer holds in list order, and who touched that content.
struct Content {
  bool written = false;
  ValueId value;  // Invalid: scratch.
  Range range;
  int32_t writer = 0;
  std::vector<int32_t> readers;  // Since it was written.
};

inline std::string text_of(Range range) {
  return "[" + std::to_string(range.begin) + "," + std::to_string(range.end) + ")";
}

class Checker {
 public:
  Checker(const Problem& problem, const Schedule& schedule)
      : problem_(problem),
        graph_(*problem.graph),
        schedule_(schedule),
        order_(schedule),
        contents_(schedule.buffers.size()),
        spans_(schedule.buffers.size()),
        state_of_(schedule.buffers.size()) {}

  void run() {
    check_problem();
    check_arenas();
    check_start();
    for (moment_ = 0; moment_ < order_.end(); ++moment_) {
      const Instruction& instruction = schedule_.instructions[static_cast<size_t>(moment_)];
      if (instruction.kind == Instruction::Kind::compute) {
        check_compute(instruction);
      } else {
        check_copy(instruction);
      }
    }
    check_end();
    check_overlaps();
  }

 private:
  // --- the request and the frame ---------------------------------------------------------------
  void check_problem();
  void check_arenas();
  // Per tier the state sources with a home there.
  using HomesByOffset = std::array<std::map<int64_t, ValueId>, kTierCount>;
  void check_buffer(BufferId id, const HomesByOffset& homes);
  void check_start();
  void check_end();
  void check_overlaps();

  // --- instructions ----------------------------------------------------------------------------
  void check_compute(const Instruction& instruction);
  void check_in_place(const Instruction& instruction, const Node& node);
  void check_workspace(const Instruction& instruction, int64_t needed);
  void check_copy(const Instruction& instruction);
  // Whole, in order, contiguous, aligned, in `tier`.
  void check_operand(const Operand& operand, ValueId expected, const char* role,
                     Tier tier = Tier::device);
  void check_piece(ValueId value, const Piece& piece);
  void check_boundary(std::span<const Operand> operands);

  // --- accesses --------------------------------------------------------------------------------
  void read(ValueId value, const Piece& piece);
  void write(ValueId value, const Piece& piece);
  bool is_part_of_home(const Piece& piece, ValueId value, ValueId home) const;
  void replace(BufferId id, ValueId value, Range range);

  // --- words -----------------------------------------------------------------------------------
  [[noreturn]] void fail(const std::string& what) const {
    throw Error("check: " + name_of(moment_) + ": " + what);
  }
  std::string name_of(int32_t moment) const;
  std::string name_of(ValueId value) const { return graph_.value(value).name; }
  std::string name_of(BufferId id) const {
    const Buffer& buffer = this->buffer(id);
    return "buffer " + std::to_string(id.index) + " ('" + buffer.name + "', " +
           std::string(to_string(buffer.tier)) + " " +
           text_of(Range{buffer.offset, buffer.offset + buffer.bytes}) + ")";
  }
  const Buffer& buffer(BufferId id) const {
    return schedule_.buffers[static_cast<size_t>(id.index)];
  }
  Content& content(BufferId id) { return contents_[static_cast<size_t>(id.index)]; }
  bool is_aligned(int64_t number) const { return number % problem_.alignment == 0; }
  bool exists(BufferId id) const {
    return id.valid() && static_cast<size_t>(id.index) < schedule_.buffers.size();
  }
  bool exists(ValueId id) const {
    return id.valid() && static_cast<size_t>(id.index) < graph_.values().size();
  }

  const Problem& problem_;
  const Graph& graph_;
  const Schedule& schedule_;
  const HappensBefore order_;
  std::vector<Content> contents_;  // Per buffer.
  std::vector<TimeSpan> spans_;    // Per buffer: all its accesses.
  std::vector<ValueId> state_of_;  // Per buffer: the state source whose home it is, or invalid.
  int32_t moment_ = -1;            // What is being checked.
};

}  // namespace olm2
