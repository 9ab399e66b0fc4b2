// What check() demands of each instruction, and of each access of a buffer.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/checker.h"
#include "core/op.h"

namespace olm2 {

void Checker::check_piece(ValueId value, const Piece& piece) {
  const Range range = piece.range;
  const int64_t whole = graph_.type(value).bytes();
  const auto fail_piece = [&](const std::string& why) {
    fail("the part " + text_of(range) + " of " + name_of(value) + why);
  };
  if (!exists(piece.buffer)) fail_piece(" is in a buffer that does not exist");
  if (range.begin < 0 || range.begin > range.end || range.end > whole) {
    fail_piece(" lies outside of its " + std::to_string(whole) + " bytes");
  }
  if (range.bytes() == 0 && whole > 0) fail_piece(" is empty");
  if (!is_aligned(range.begin) || (!is_aligned(range.end) && range.end < whole)) {
    fail_piece(" does not begin and end at multiples of " + std::to_string(problem_.alignment));
  }
  if (buffer(piece.buffer).bytes < padded(range.bytes(), problem_.alignment)) {
    fail_piece(" does not fit into " + name_of(piece.buffer));
  }
}

void Checker::check_operand(const Operand& operand, ValueId expected, const char* role, Tier tier) {
  if (operand.value != expected) {
    fail(std::string(role) + " " +
         (exists(operand.value) ? name_of(operand.value) : std::string("nothing")) + ", expected " +
         name_of(expected));
  }
  const std::string name = name_of(expected);
  if (operand.pieces.empty()) fail(std::string(role) + " " + name + " from nowhere");
  int64_t value_end = 0;
  int64_t arena_end = 0;
  for (size_t k = 0; k < operand.pieces.size(); ++k) {
    const Piece& piece = operand.pieces[k];
    check_piece(expected, piece);
    const Buffer& buffer = this->buffer(piece.buffer);
    if (buffer.tier != tier) {
      fail(std::string(role) + " " + name + " in " + name_of(piece.buffer) +
           ", expected it on the " + std::string(to_string(tier)));
    }
    if (piece.range.begin != value_end || (k > 0 && buffer.offset != arena_end)) {
      fail(std::string(role) + " " + name + " with a gap before " + text_of(piece.range));
    }
    value_end = piece.range.end;
    arena_end = buffer.offset + piece.range.bytes();
  }
  if (value_end != graph_.type(expected).bytes()) {
    fail(std::string(role) + " only " + std::to_string(value_end) + " bytes of " + name + ", " +
         std::to_string(graph_.type(expected).bytes()) + " expected");
  }
}

void Checker::check_compute(const Instruction& instruction) {
  const NodeId id = instruction.node;
  if (!id.valid() || static_cast<size_t>(id.index) >= graph_.nodes().size()) {
    fail("there is no such node");
  }
  const Node& node = graph_.node(id);
  if (instruction.lane != Lane::compute) {
    fail("is on lane " + std::string(to_string(instruction.lane)) + ", expected compute");
  }
  if (instruction.reads.size() != node.inputs.size() ||
      instruction.writes.size() != node.outputs.size()) {
    fail("has " + std::to_string(instruction.reads.size()) + " inputs and " +
         std::to_string(instruction.writes.size()) + " outputs, expected " +
         std::to_string(node.inputs.size()) + " and " + std::to_string(node.outputs.size()));
  }
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    check_operand(instruction.reads[k], node.inputs[k], "reads");
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    check_operand(instruction.writes[k], node.outputs[k], "writes");
    const Value& output = graph_.value(node.outputs[k]);
    const int64_t offset = buffer(instruction.writes[k].pieces[0].buffer).offset;
    if (problem_.lives_at_home(node.outputs[k]) &&
        offset != problem_.state_offset[static_cast<size_t>(output.home.index)]) {
      fail("writes " + output.name + " at offset " + std::to_string(offset) +
           ", expected it at the address of state " + name_of(output.home));
    }
  }
  check_in_place(instruction, node);
  for (const Operand& operand : instruction.reads) {
    for (const Piece& piece : operand.pieces) read(operand.value, piece);
  }
  check_workspace(instruction, problem_.workspace[static_cast<size_t>(id.index)]);
  for (const Operand& operand : instruction.writes) {
    for (const Piece& piece : operand.pieces) write(operand.value, piece);
  }
}

// An output that shares a buffer with an input lies on it byte for byte, and its op allows that.
void Checker::check_in_place(const Instruction& instruction, const Node& node) {
  std::unordered_map<int32_t, std::vector<std::pair<size_t, Range>>> inputs_in;
  for (size_t j = 0; j < instruction.reads.size(); ++j) {
    for (const Piece& piece : instruction.reads[j].pieces) {
      inputs_in[piece.buffer.index].emplace_back(j, piece.range);
    }
  }
  const std::vector<InPlace> allowed = in_place_of(node);
  for (size_t k = 0; k < instruction.writes.size(); ++k) {
    for (const Piece& piece : instruction.writes[k].pieces) {
      const auto found = inputs_in.find(piece.buffer.index);
      if (found == inputs_in.end()) continue;
      for (const auto& [j, range] : found->second) {
        const bool is_allowed = std::ranges::any_of(allowed, [&, input = j](InPlace pair) {
          return pair.output == static_cast<int>(k) && pair.input == static_cast<int>(input);
        });
        if (is_allowed && range == piece.range) continue;
        fail("writes " + name_of(node.outputs[k]) + " " + text_of(piece.range) +
             " over its input " + name_of(node.inputs[j]) + " " + text_of(range) + ", which op " +
             std::string(node.op->name) + " does not allow");
      }
    }
  }
}

void Checker::check_workspace(const Instruction& instruction, int64_t needed) {
  const BufferId id = instruction.workspace;
  if (!id.valid()) {
    if (needed > 0) fail("has no workspace, " + std::to_string(needed) + " bytes expected");
    return;
  }
  if (!exists(id)) fail("has a workspace that does not exist");
  if (buffer(id).tier != Tier::device || buffer(id).bytes < needed) {
    fail("has its workspace in " + name_of(id) + ", expected " + std::to_string(needed) +
         " bytes on the device");
  }
  if (state_of_[static_cast<size_t>(id.index)].valid()) {
    fail("has its workspace on state " + name_of(state_of_[static_cast<size_t>(id.index)]));
  }
  const std::vector<int32_t>& readers = content(id).readers;
  if (std::ranges::find(readers, moment_) != readers.end()) {
    fail("has its workspace on an input, " + name_of(id));
  }
  replace(id, {}, {});
}

void Checker::check_copy(const Instruction& instruction) {
  if (instruction.reads.size() != 1 || instruction.writes.size() != 1 ||
      instruction.reads[0].pieces.size() != 1 || instruction.writes[0].pieces.size() != 1) {
    fail("expected one piece to read and one to write");
  }
  if (instruction.workspace.valid()) fail("has a workspace, expected none");
  const ValueId value = instruction.reads[0].value;
  if (!exists(value)) fail("there is no such value");
  if (instruction.writes[0].value != value) fail("reads and writes different values");
  const Piece& source = instruction.reads[0].pieces[0];
  const Piece& target = instruction.writes[0].pieces[0];
  check_piece(value, source);
  check_piece(value, target);
  if (source.range != target.range) {
    fail("reads " + text_of(source.range) + " and writes " + text_of(target.range));
  }
  const Tier from = buffer(source.buffer).tier;
  const Tier to = buffer(target.buffer).tier;
  const bool out = from == Tier::device && to == Tier::host;
  const bool back = from == Tier::host && to == Tier::device;
  const double bytes_per_s = out    ? problem_.device_to_host.bytes_per_s
                             : back ? problem_.host_to_device.bytes_per_s
                                    : 0;
  if (!(bytes_per_s > 0)) {
    fail("there is no link from " + std::string(to_string(from)) + " to " +
         std::string(to_string(to)));
  }
  if (instruction.lane != lane_of_copy(from, to)) {
    fail("is on lane " + std::string(to_string(instruction.lane)) + ", expected " +
         std::string(to_string(lane_of_copy(from, to))));
  }
  read(value, source);
  write(value, target);
}

void Checker::read(ValueId value, const Piece& piece) {
  Content& content = this->content(piece.buffer);
  const auto fail_reading = [&](const std::string& why) {
    fail("reads " + name_of(value) + " " + text_of(piece.range) + " from " + name_of(piece.buffer) +
         why);
  };
  if (!content.written) fail_reading(", which holds nothing yet");
  if (content.value != value || content.range != piece.range) {
    fail_reading(", which holds " + (content.value.valid()
                                         ? name_of(content.value) + " " + text_of(content.range)
                                         : std::string("scratch")));
  }
  if (!order_.precedes(content.writer, moment_)) {
    fail_reading(" without waiting for " + name_of(content.writer) + ", which writes it");
  }
  content.readers.push_back(moment_);
  spans_[static_cast<size_t>(piece.buffer.index)].include(order_, moment_);
}

void Checker::write(ValueId value, const Piece& piece) {
  const ValueId home = state_of_[static_cast<size_t>(piece.buffer.index)];
  if (home.valid() && !is_part_of_home(piece, value, home)) {
    fail("writes " + name_of(value) + " " + text_of(piece.range) + " over state " + name_of(home));
  }
  replace(piece.buffer, value, piece.range);
}

// What state is written over: a version of the same source, byte for byte where it belongs.
bool Checker::is_part_of_home(const Piece& piece, ValueId value, ValueId home) const {
  const int64_t begin = problem_.state_offset[static_cast<size_t>(home.index)] + piece.range.begin;
  const bool is_whole = piece.range.bytes() == graph_.type(value).bytes();
  return graph_.value(value).home == home && buffer(piece.buffer).offset == begin &&
         (is_whole || buffer(piece.buffer).tier != Tier::device);
}

void Checker::replace(BufferId id, ValueId value, Range range) {
  Content& content = this->content(id);
  if (content.written && !order_.precedes(content.writer, moment_)) {
    fail("writes " + name_of(id) + " without waiting for " + name_of(content.writer) +
         ", which writes it too");
  }
  for (const int32_t reader : content.readers) {
    if (reader == moment_ || order_.precedes(reader, moment_)) continue;
    fail("writes " + name_of(id) + " without waiting for " + name_of(reader) + ", which reads it");
  }
  content = {.written = true, .value = value, .range = range, .writer = moment_, .readers = {}};
  spans_[static_cast<size_t>(id.index)].include(order_, moment_);
}

}  // namespace olm2
