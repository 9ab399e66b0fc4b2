// Plans and schedules as text, one step, buffer or instruction per line:
//
// clang-format off
//   compute h.0.fc                                 a plan
//   copy h.0.fc [0,512) device host
//   drop h.0.fc [0,512) device
//
//   arena device 4096 host 512 disk 0              a schedule
//   buffer 0 device offset 256 bytes 512 used 0 3 : h.0.fc
//   start x=1[0,64)
//   0 compute run h.0.fc reads x=1[0,64) writes h.0.fc=0[0,512)
//   1 device-to-host copy reads h.0.fc=0[0,512) writes ... waits 0
//   end loss=7[0,4)
// clang-format on
//
// An operand is value=pieces, a piece buffer[begin,end); pieces are joined by '+'.  Characters that
// would end a name (blanks, line ends, backslashes) are written as \xHH.  Parsing allocates no more
// than the text is long.
#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/schedule.h"

namespace olm2 {
namespace {

// --- printing ----------------------------------------------------------------------------------

std::string escaped(std::string_view name, bool blanks_too) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte > ' ' && byte != 0x7f && c != '\\';
    if (is_plain || (c == ' ' && !blanks_too)) {
      text += c;
    } else {
      text += {'\\', 'x', kHex[byte / 16], kHex[byte % 16]};
    }
  }
  return text.empty() ? "\\" : text;  // A lone backslash stands for no name at all.
}

std::string to_string(Range range) {
  return "[" + std::to_string(range.begin) + "," + std::to_string(range.end) + ")";
}

std::string to_string(const Graph& graph, const Operand& operand) {
  std::string text = escaped(graph.value(operand.value).name, true) + "=";
  for (size_t i = 0; i < operand.pieces.size(); ++i) {
    const Piece& piece = operand.pieces[i];
    if (i > 0) text += '+';
    text += std::to_string(piece.buffer.index) + to_string(piece.range);
  }
  return text;
}

void print_instruction(const Graph& graph, const Instruction& instruction, std::string& text) {
  text += to_string(instruction.lane);
  text += instruction.kind == Instruction::Kind::copy
              ? " copy"
              : " run " + escaped(graph.node(instruction.node).name, true);
  text += " reads";
  for (const Operand& operand : instruction.reads) text += " " + to_string(graph, operand);
  text += " writes";
  for (const Operand& operand : instruction.writes) text += " " + to_string(graph, operand);
  if (instruction.workspace.valid()) {
    text += " workspace " + std::to_string(instruction.workspace.index);
  }
  if (!instruction.waits.empty()) text += " waits";
  for (const int32_t wait : instruction.waits) text += " " + std::to_string(wait);
}

// --- parsing -----------------------------------------------------------------------------------

// The text, word by word and line by line.
class Reader {
 public:
  Reader(std::string_view kind, std::string_view text) : kind_(kind), text_(text) {}

  // Goes to the next line that is not empty.  False at the end.
  bool next_line() {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      line_ = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++number_;
      skip_blanks();
      if (!line_.empty()) return true;
    }
    return false;
  }

  bool at_end() const { return line_.empty(); }
  std::string_view peek() const { return line_.substr(0, std::min(line_.find(' '), line_.size())); }
  std::string_view word(std::string_view what) {
    if (at_end()) fail("expected " + std::string(what) + ", found the end of the line");
    const std::string_view word = peek();
    line_.remove_prefix(word.size());
    skip_blanks();
    return word;
  }
  void expect(std::string_view keyword) {
    const std::string_view found = word("'" + std::string(keyword) + "'");
    if (found != keyword) {
      fail("expected '" + std::string(keyword) + "', found '" + std::string(found) + "'");
    }
  }
  void expect_end() {
    if (!at_end()) fail("did not expect '" + std::string(line_) + "'");
  }
  std::string_view rest() { return std::exchange(line_, {}); }

  template <typename Integer>
  Integer number(std::string_view word) const {
    Integer value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) {
      fail("expected a number, found '" + std::string(word) + "'");
    }
    return value;
  }
  template <typename Integer>
  Integer number() {
    return number<Integer>(word("a number"));
  }

  // "[begin,end)"
  Range range(std::string_view word) const {
    const size_t comma = word.find(',');
    if (word.size() < 5 || word.front() != '[' || word.back() != ')' || comma == word.npos) {
      fail("expected a range [begin,end), found '" + std::string(word) + "'");
    }
    return {number<int64_t>(word.substr(1, comma - 1)),
            number<int64_t>(word.substr(comma + 1, word.size() - comma - 2))};
  }

  std::string unescaped(std::string_view word) const {
    std::string name;
    if (word == "\\") return name;
    for (size_t i = 0; i < word.size(); ++i) {
      if (word[i] != '\\') {
        name += word[i];
        continue;
      }
      int byte = 0;
      const char* digits = word.data() + i + 2;
      const bool is_complete = i + 4 <= word.size() && word[i + 1] == 'x';
      if (!is_complete || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
        fail("expected \\xHH in the name '" + std::string(word) + "'");
      }
      name += static_cast<char>(byte);
      i += 3;
    }
    return name;
  }

  Tier tier() { return parsed(parse_tier, word("a tier")); }
  Lane lane() { return parsed(parse_lane, word("a lane")); }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(std::string(kind_) + " text, line " + std::to_string(number_) + ": " + what);
  }

 private:
  void skip_blanks() { line_.remove_prefix(std::min(line_.find_first_not_of(' '), line_.size())); }
  template <typename Result>
  Result parsed(Result (*parse)(std::string_view), std::string_view word) const {
    try {
      return parse(word);
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  std::string_view kind_;  // For messages: "plan" or "schedule".
  std::string_view text_;  // What follows the current line.
  std::string_view line_;  // What is left of the current line.
  int64_t number_ = 0;
};

// Names of a graph, back to ids.
class Names {
 public:
  explicit Names(const Graph& graph) : graph_(graph) {
    const auto nodes = graph.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) node_by_name_[nodes[i].name] = int32_t(i);
  }
  NodeId node(const Reader& reader, std::string_view word) const {
    const std::string name = reader.unescaped(word);
    const auto found = node_by_name_.find(name);
    if (found == node_by_name_.end()) reader.fail("no node is named '" + name + "'");
    return {found->second};
  }
  ValueId value(const Reader& reader, std::string_view word) const {
    const std::string name = reader.unescaped(word);
    const ValueId id = graph_.find_or_invalid(name);
    if (!id.valid()) reader.fail("no value is named '" + name + "'");
    return id;
  }

 private:
  const Graph& graph_;
  std::unordered_map<std::string_view, int32_t> node_by_name_;
};

Operand parse_operand(Reader& reader, const Names& names) {
  const std::string_view word = reader.word("value=pieces");
  const size_t equals = word.rfind('=');
  if (equals == word.npos) {
    reader.fail("expected value=pieces, found '" + std::string(word) + "'");
  }
  Operand operand{.value = names.value(reader, word.substr(0, equals)), .pieces = {}};
  std::string_view rest = word.substr(equals + 1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('+'), rest.size());
    const std::string_view piece = rest.substr(0, end);
    if (end + 1 == rest.size()) reader.fail("expected a piece after '+'");
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t bracket = std::min(piece.find('['), piece.size());
    operand.pieces.push_back(
        {{reader.number<int32_t>(piece.substr(0, bracket))}, reader.range(piece.substr(bracket))});
  }
  return operand;
}

Instruction parse_instruction(Reader& reader, const Names& names) {
  Instruction instruction;
  instruction.lane = reader.lane();
  const std::string_view kind = reader.word("'run' or 'copy'");
  if (kind == "run") {
    instruction.node = names.node(reader, reader.word("a node"));
  } else if (kind == "copy") {
    instruction.kind = Instruction::Kind::copy;
  } else {
    reader.fail("expected 'run' or 'copy', found '" + std::string(kind) + "'");
  }
  reader.expect("reads");
  while (!reader.at_end() && reader.peek() != "writes") {
    instruction.reads.push_back(parse_operand(reader, names));
  }
  reader.expect("writes");
  while (!reader.at_end() && reader.peek() != "workspace" && reader.peek() != "waits") {
    instruction.writes.push_back(parse_operand(reader, names));
  }
  if (reader.peek() == "workspace") {
    reader.expect("workspace");
    instruction.workspace = {reader.number<int32_t>()};
    if (!instruction.workspace.valid()) reader.fail("expected a buffer as workspace");
  }
  if (reader.at_end()) return instruction;
  reader.expect("waits");
  do {
    instruction.waits.push_back(reader.number<int32_t>());
  } while (!reader.at_end());
  return instruction;
}

Buffer parse_buffer(Reader& reader) {
  Buffer buffer;
  buffer.tier = reader.tier();
  reader.expect("offset");
  buffer.offset = reader.number<int64_t>();
  reader.expect("bytes");
  buffer.bytes = reader.number<int64_t>();
  reader.expect("used");
  buffer.first = reader.number<int32_t>();
  buffer.last = reader.number<int32_t>();
  reader.expect(":");
  buffer.name = reader.unescaped(reader.rest());
  return buffer;
}

Step parse_step(Reader& reader, const Names& names) {
  Step step;
  const std::string_view kind = reader.word("a step");
  if (kind == "compute") {
    step.node = names.node(reader, reader.word("a node"));
    return step;
  }
  if (kind != "copy" && kind != "drop") {
    reader.fail("expected 'compute', 'copy' or 'drop', found '" + std::string(kind) + "'");
  }
  step.kind = kind == "copy" ? Step::Kind::copy : Step::Kind::drop;
  step.value = names.value(reader, reader.word("a value"));
  step.range = reader.range(reader.word("a range"));
  step.from = reader.tier();
  if (step.kind == Step::Kind::copy) step.to = reader.tier();
  return step;
}

void expect_index(Reader& reader, int64_t found, size_t expected, std::string_view what) {
  if (found == static_cast<int64_t>(expected)) return;
  reader.fail("found " + std::string(what) + " " + std::to_string(found) + ", expected number " +
              std::to_string(expected));
}

}  // namespace

std::string to_string(const Graph& graph, const Plan& plan) {
  std::string text = "plan\n";
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::compute) {
      text += "compute " + escaped(graph.node(step.node).name, true) + "\n";
      continue;
    }
    text += step.kind == Step::Kind::copy ? "copy " : "drop ";
    text += escaped(graph.value(step.value).name, true) + " " + to_string(step.range) + " ";
    text += to_string(step.from);
    if (step.kind == Step::Kind::copy) text += " " + std::string(to_string(step.to));
    text += "\n";
  }
  return text;
}

Plan parse_plan(const Graph& graph, std::string_view text) {
  Reader reader("plan", text);
  const Names names(graph);
  Plan plan;
  if (!reader.next_line()) reader.fail("expected 'plan', found the end");
  reader.expect("plan");
  reader.expect_end();
  while (reader.next_line()) {
    plan.steps.push_back(parse_step(reader, names));
    reader.expect_end();
  }
  return plan;
}

std::string to_string(const Graph& graph, const Schedule& schedule) {
  std::string text = "schedule\narena";
  for (const Tier tier : kTiers) {
    text +=
        " " + std::string(to_string(tier)) + " " + std::to_string(schedule.arena[index_of(tier)]);
  }
  text += "\n";
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    text += "buffer " + std::to_string(i) + " " + std::string(to_string(buffer.tier)) + " offset " +
            std::to_string(buffer.offset) + " bytes " + std::to_string(buffer.bytes) + " used " +
            std::to_string(buffer.first) + " " + std::to_string(buffer.last) + " : " +
            escaped(buffer.name, false) + "\n";
  }
  for (const Operand& operand : schedule.at_start) {
    text += "start " + to_string(graph, operand) + "\n";
  }
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    text += std::to_string(i) + " ";
    print_instruction(graph, schedule.instructions[i], text);
    text += "\n";
  }
  for (const Operand& operand : schedule.at_end) text += "end " + to_string(graph, operand) + "\n";
  return text;
}

Schedule parse_schedule(const Graph& graph, std::string_view text) {
  Reader reader("schedule", text);
  const Names names(graph);
  Schedule schedule;
  if (!reader.next_line()) reader.fail("expected 'schedule', found the end");
  reader.expect("schedule");
  reader.expect_end();
  if (!reader.next_line()) reader.fail("expected 'arena', found the end");
  reader.expect("arena");
  for (const Tier tier : kTiers) {
    reader.expect(to_string(tier));
    schedule.arena[index_of(tier)] = reader.number<int64_t>();
  }
  reader.expect_end();
  while (reader.next_line()) {
    const std::string_view first = reader.word("a line");
    if (first == "buffer") {
      expect_index(reader, reader.number<int64_t>(), schedule.buffers.size(), "buffer");
      schedule.buffers.push_back(parse_buffer(reader));
    } else if (first == "start") {
      schedule.at_start.push_back(parse_operand(reader, names));
    } else if (first == "end") {
      schedule.at_end.push_back(parse_operand(reader, names));
    } else {
      expect_index(reader, reader.number<int64_t>(first), schedule.instructions.size(),
                   "instruction");
      schedule.instructions.push_back(parse_instruction(reader, names));
    }
    reader.expect_end();
  }
  return schedule;
}

}  // namespace olm2
