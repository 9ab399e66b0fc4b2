// Proves a schedule: replays it in list order, which is one of the orders its lanes may take, and
// demands for every pair of accesses that could disturb each other that lanes and waits force the
// order seen in the list.  Then every other order the lanes may take gives the same bytes.
//
// What a buffer holds is tracked as one (value, range); values are SSA, so equal names are equal
// bytes, however often they were computed.
#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/happens_before.h"
#include "core/op.h"
#include "core/schedule.h"

namespace olm2 {
namespace {

// What a buffer holds in list order, and who touched that content.
struct Content {
  bool written = false;
  ValueId value;  // Invalid: scratch.
  Range range;
  int32_t writer = 0;
  std::vector<int32_t> readers;  // Since it was written.
};

std::string to_string(Range range) {
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
           std::string(olm2::to_string(buffer.tier)) + " " +
           to_string(Range{buffer.offset, buffer.offset + buffer.bytes}) + ")";
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
      fail("the " + std::string(olm2::to_string(tier)) + " arena has " + std::to_string(bytes) +
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
         ", outside the " + std::string(olm2::to_string(buffer.tier)) + " arena of " +
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

void Checker::check_piece(ValueId value, const Piece& piece) {
  const Range range = piece.range;
  const int64_t whole = graph_.type(value).bytes();
  const auto fail_piece = [&](const std::string& why) {
    fail("the part " + to_string(range) + " of " + name_of(value) + why);
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
           ", expected it on the " + std::string(olm2::to_string(tier)));
    }
    if (piece.range.begin != value_end || (k > 0 && buffer.offset != arena_end)) {
      fail(std::string(role) + " " + name + " with a gap before " + to_string(piece.range));
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
    fail("is on lane " + std::string(olm2::to_string(instruction.lane)) + ", expected compute");
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
        fail("writes " + name_of(node.outputs[k]) + " " + to_string(piece.range) +
             " over its input " + name_of(node.inputs[j]) + " " + to_string(range) + ", which op " +
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
    fail("reads " + to_string(source.range) + " and writes " + to_string(target.range));
  }
  const Tier from = buffer(source.buffer).tier;
  const Tier to = buffer(target.buffer).tier;
  const bool out = from == Tier::device && to == Tier::host;
  const bool back = from == Tier::host && to == Tier::device;
  const double bytes_per_s = out    ? problem_.device_to_host.bytes_per_s
                             : back ? problem_.host_to_device.bytes_per_s
                                    : 0;
  if (!(bytes_per_s > 0)) {
    fail("there is no link from " + std::string(olm2::to_string(from)) + " to " +
         std::string(olm2::to_string(to)));
  }
  if (instruction.lane != lane_of_copy(from, to)) {
    fail("is on lane " + std::string(olm2::to_string(instruction.lane)) + ", expected " +
         std::string(olm2::to_string(lane_of_copy(from, to))));
  }
  read(value, source);
  write(value, target);
}

void Checker::read(ValueId value, const Piece& piece) {
  Content& content = this->content(piece.buffer);
  const auto fail_reading = [&](const std::string& why) {
    fail("reads " + name_of(value) + " " + to_string(piece.range) + " from " +
         name_of(piece.buffer) + why);
  };
  if (!content.written) fail_reading(", which holds nothing yet");
  if (content.value != value || content.range != piece.range) {
    fail_reading(", which holds " + (content.value.valid()
                                         ? name_of(content.value) + " " + to_string(content.range)
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
    fail("writes " + name_of(value) + " " + to_string(piece.range) + " over state " +
         name_of(home));
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

}  // namespace

CheckedSchedule check(const Problem& problem, Schedule schedule) {
  ensure(problem.graph != nullptr, "check: a problem without a graph");
  Checker(problem, schedule).run();
  return CheckedSchedule(std::move(schedule));
}

}  // namespace olm2
