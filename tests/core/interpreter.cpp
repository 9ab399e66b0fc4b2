#include "tests/core/interpreter.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/op.h"

namespace olm2::testing {
namespace {

// Content of one alignment unit of memory: unit `unit` of a value, or something else.
struct Cell {
  int32_t value = -1;  // -1: never written.  -2 - i: instruction i is writing here.
  int64_t unit = 0;
  auto operator<=>(const Cell&) const = default;
};

// One cell an instruction touches, and the content it must have or gets.
struct Touch {
  size_t cell = 0;
  Cell content;
};

struct Action {
  std::vector<Touch> reads;
  std::vector<Touch> writes;
  std::vector<size_t> scratch;
  std::vector<size_t> waits;
  bool impossible = false;  // Touches what does not exist, or breaks the rules of its op.
};

struct Situation {
  std::array<size_t, kLaneCount> finished{};  // Per lane.
  std::array<bool, kLaneCount> running{};     // The next one has begun.
  std::vector<Cell> memory;
  auto operator<=>(const Situation&) const = default;
};

class Interpreter {
 public:
  Interpreter(const Problem& problem, const Schedule& schedule, size_t limit)
      : problem_(problem), schedule_(schedule), limit_(limit) {
    size_t cells = 0;
    for (const Tier tier : kTiers) {
      const int64_t bytes = schedule.arena[static_cast<size_t>(tier)];
      if (bytes > problem.budget[static_cast<size_t>(tier)]) bad_ = true;
      first_cell_[static_cast<size_t>(tier)] = cells;
      cells += static_cast<size_t>(bytes / problem.alignment);
    }
    begin_.memory.resize(cells);
    for (size_t i = 0; i < schedule.instructions.size(); ++i) {
      const Instruction& instruction = schedule.instructions[i];
      actions_.push_back(action_of(instruction));
      lanes_[static_cast<size_t>(instruction.lane)].push_back(i);
    }
    for (const Operand& operand : schedule.at_start) {
      for (const Touch& touch : touches_of(operand, nullptr)) {
        begin_.memory[touch.cell] = touch.content;
      }
    }
    for (const Operand& operand : schedule.at_end) {
      for (const Touch& touch : touches_of(operand, nullptr)) at_end_.push_back(touch);
    }
  }

  Verdict run() {
    if (bad_) return Verdict::harmful;
    std::set<Situation> seen;
    std::vector<Situation> open = {begin_};
    while (!open.empty()) {
      Situation now = std::move(open.back());
      open.pop_back();
      if (!seen.insert(now).second) continue;
      if (seen.size() > limit_) return Verdict::unknown;
      bool moved = false;
      for (size_t lane = 0; lane < kLaneCount; ++lane) {
        if (now.finished[lane] == lanes_[lane].size()) continue;
        Situation next = now;
        const size_t index = lanes_[lane][now.finished[lane]];
        if (!now.running[lane] && !may_begin(index, now)) continue;
        const bool fine = now.running[lane] ? finish(index, next) : begin(index, next);
        if (!fine) return Verdict::harmful;
        next.finished[lane] += now.running[lane] ? 1 : 0;
        next.running[lane] = !now.running[lane];
        open.push_back(std::move(next));
        moved = true;
      }
      if (!moved && !ends_well(now)) return Verdict::harmful;
    }
    return Verdict::harmless;
  }

 private:
  std::vector<Touch> touches_of(const Operand& operand, Action* action) {
    std::vector<Touch> touches;
    for (const Piece& piece : operand.pieces) {
      const Buffer& buffer = schedule_.buffers[static_cast<size_t>(piece.buffer.index)];
      const int64_t arena = schedule_.arena[static_cast<size_t>(buffer.tier)];
      const int64_t bytes = padded(piece.range.bytes(), problem_.alignment);
      if (bytes > buffer.bytes || buffer.offset < 0 || buffer.offset + bytes > arena) {
        (action != nullptr ? action->impossible : bad_) = true;
        return {};
      }
      for (int64_t done = 0; done < bytes; done += problem_.alignment) {
        touches.push_back({first_cell_[static_cast<size_t>(buffer.tier)] +
                               static_cast<size_t>((buffer.offset + done) / problem_.alignment),
                           {operand.value.index, (piece.range.begin + done) / problem_.alignment}});
      }
    }
    return touches;
  }

  // A kernel gets one pointer per operand: the pieces must follow each other and be the whole.
  bool is_whole(const Operand& operand, ValueId expected) const {
    int64_t end = 0;
    int64_t address = -1;
    for (const Piece& piece : operand.pieces) {
      const Buffer& buffer = schedule_.buffers[static_cast<size_t>(piece.buffer.index)];
      if (buffer.tier != Tier::device || piece.range.begin != end) return false;
      if (address >= 0 && buffer.offset != address) return false;
      end = piece.range.end;
      address = buffer.offset + piece.range.bytes();
    }
    return operand.value == expected && end == problem_.graph->type(expected).bytes();
  }

  Action action_of(const Instruction& instruction) {
    Action action;
    for (const int32_t wait : instruction.waits) action.waits.push_back(static_cast<size_t>(wait));
    std::vector<std::vector<Touch>> in;
    std::vector<std::vector<Touch>> out;
    for (const Operand& operand : instruction.reads) in.push_back(touches_of(operand, &action));
    for (const Operand& operand : instruction.writes) out.push_back(touches_of(operand, &action));
    if (instruction.kind == Instruction::Kind::compute) {
      const Node& node = problem_.graph->node(instruction.node);
      for (size_t k = 0; k < in.size(); ++k) {
        action.impossible |= !is_whole(instruction.reads[k], node.inputs[k]);
      }
      for (size_t k = 0; k < out.size(); ++k) {
        action.impossible |= !is_whole(instruction.writes[k], node.outputs[k]);
      }
      action.impossible |= overwrites_wrongly(node, in, out);
    }
    for (const auto& touches : in) {
      action.reads.insert(action.reads.end(), touches.begin(), touches.end());
    }
    for (const auto& touches : out) {
      action.writes.insert(action.writes.end(), touches.begin(), touches.end());
    }
    if (instruction.workspace.valid()) {
      const Buffer& buffer = schedule_.buffers[static_cast<size_t>(instruction.workspace.index)];
      for (int64_t done = 0; done < buffer.bytes; done += problem_.alignment) {
        action.scratch.push_back(first_cell_[static_cast<size_t>(buffer.tier)] +
                                 static_cast<size_t>((buffer.offset + done) / problem_.alignment));
      }
    }
    return action;
  }

  // Some byte of an output lies on a byte of an input it must not lie on.
  static bool overwrites_wrongly(const Node& node, const std::vector<std::vector<Touch>>& in,
                                 const std::vector<std::vector<Touch>>& out) {
    const std::vector<InPlace> allowed = in_place_of(node);
    for (size_t k = 0; k < out.size(); ++k) {
      for (size_t j = 0; j < in.size(); ++j) {
        const bool may = std::ranges::any_of(allowed, [&](InPlace pair) {
          return pair.output == static_cast<int>(k) && pair.input == static_cast<int>(j);
        });
        for (const Touch& write : out[k]) {
          for (const Touch& read : in[j]) {
            if (write.cell != read.cell) continue;
            if (!may || write.content.unit != read.content.unit) return true;
          }
        }
      }
    }
    return false;
  }

  bool may_begin(size_t index, const Situation& now) const {
    return std::ranges::all_of(actions_[index].waits, [&](size_t wait) {
      const auto lane = static_cast<size_t>(schedule_.instructions[wait].lane);
      const auto position = std::ranges::find(lanes_[lane], wait) - lanes_[lane].begin();
      return now.finished[lane] > static_cast<size_t>(position);
    });
  }

  static bool holds(const std::vector<Touch>& touches, const Situation& now) {
    return std::ranges::all_of(
        touches, [&](const Touch& touch) { return now.memory[touch.cell] == touch.content; });
  }
  static bool is_read(const Action& action, size_t cell) {
    return std::ranges::any_of(action.reads, [&](const Touch& t) { return t.cell == cell; });
  }

  // From here on the outputs that lie on no input, and the scratch, are half written.
  bool begin(size_t index, Situation& next) const {
    const Action& action = actions_[index];
    if (action.impossible || !holds(action.reads, next)) return false;
    const Cell mine{-2 - static_cast<int32_t>(index), 0};
    for (const size_t cell : action.scratch) {
      if (is_read(action, cell)) return false;
      next.memory[cell] = mine;
    }
    for (const Touch& touch : action.writes) {
      if (is_read(action, touch.cell)) continue;
      if (next.memory[touch.cell] == mine) return false;  // Two operands on one place.
      next.memory[touch.cell] = mine;
    }
    return true;
  }

  // Until now nobody else may have touched outputs and scratch, nor written the inputs.
  bool finish(size_t index, Situation& next) const {
    const Action& action = actions_[index];
    if (!holds(action.reads, next)) return false;
    const Cell mine{-2 - static_cast<int32_t>(index), 0};
    for (const size_t cell : action.scratch) {
      if (next.memory[cell] != mine) return false;
    }
    for (const Touch& touch : action.writes) {
      if (!is_read(action, touch.cell) && next.memory[touch.cell] != mine) return false;
    }
    for (const Touch& touch : action.writes) next.memory[touch.cell] = touch.content;
    return true;
  }

  bool ends_well(const Situation& now) const {
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      if (now.finished[lane] != lanes_[lane].size()) return false;  // A deadlock.
    }
    return holds(at_end_, now);
  }

  const Problem& problem_;
  const Schedule& schedule_;
  size_t limit_ = 0;
  bool bad_ = false;
  std::array<size_t, kTierCount> first_cell_{};
  std::array<std::vector<size_t>, kLaneCount> lanes_;
  std::vector<Action> actions_;
  std::vector<Touch> at_end_;
  Situation begin_;
};

}  // namespace

Verdict interpret(const Problem& problem, const Schedule& schedule, size_t state_limit) {
  return Interpreter(problem, schedule, state_limit).run();
}

}  // namespace olm2::testing
