#include "train/plan_why.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/op.h"
#include "planner/occupancy.h"
#include "train/config_keys.h"
#include "train/page.h"
#include "train/tensor_fates.h"

namespace olm2 {
namespace {

class Explainer {
 public:
  Explainer(const PlannedProgram& entry, ValueId id)
      : problem_(entry.problem),
        graph_(*entry.problem.graph),
        plan_(entry.planned.plan),
        schedule_(entry.planned.schedule->schedule()),
        program_(entry.program->name),
        id_(id),
        value_(graph_.value(id)),
        simulation_(simulate(problem_, schedule_)) {}

  std::string explain() {
    text_ = value_.name + "\n";
    say_birth();
    say_readers();
    say_story();
    say_reasons();
    return std::move(text_);
  }

 private:
  void say(const std::string& what, const std::string& line) {
    text_ += "  " + what + std::string(what.size() < 9 ? 9 - what.size() : 1, ' ') + line + "\n";
  }

  void say_birth() {
    if (value_.producer.valid()) {
      const Node& node = graph_.node(value_.producer);
      std::string inputs;
      for (const ValueId input : node.inputs) {
        inputs += (inputs.empty() ? "" : ", ") + graph_.value(input).name;
      }
      say("born", std::string(to_string(node.phase)) + " pass, by " + node.name + " (" +
                      std::string(node.op->name) + ") from " + inputs);
    } else {
      say("born", "before the step: " + std::string(to_string(value_.role)));
    }
    say("size", to_string(value_.type) + ", " + describe_bytes(value_.type.bytes()));
    if (value_.producer.valid()) {
      const auto node = static_cast<size_t>(value_.producer.index);
      say("to make", short_seconds(problem_.run_seconds(node, false)) + ", again " +
                         short_seconds(problem_.run_seconds(node, true)));
    }
  }

  void say_readers() {
    std::string readers;
    for (const Node& node : graph_.nodes()) {
      if (std::ranges::find(node.inputs, id_) == node.inputs.end()) continue;
      readers += (readers.empty() ? "" : ", ") + node.name + " (" +
                 std::string(to_string(node.phase)) + ")";
      is_read_later_ = is_read_later_ || node.phase != Phase::forward;
    }
    if (std::ranges::find(problem_.results, id_) != problem_.results.end()) {
      readers += (readers.empty() ? "" : ", ") + std::string("whoever runs the step");
    }
    say("read by", readers.empty() ? "nobody" : readers);
  }

  // --- what the plan does ------------------------------------------------------------------------

  const Buffer& buffer(const Operand& operand) const {
    return schedule_.buffers[static_cast<size_t>(operand.pieces.front().buffer.index)];
  }
  const Operand* operand_in(const std::vector<Operand>& operands) const {
    const auto found = std::ranges::find(operands, id_, &Operand::value);
    return found == operands.end() ? nullptr : &*found;
  }
  static std::string place_of(const Buffer& buffer, int64_t bytes) {
    return std::string(to_string(buffer.tier)) + " bytes " + std::to_string(buffer.offset) +
           " to " + std::to_string(buffer.offset + bytes);
  }
  void at(double seconds, const std::string& line) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%13s", short_seconds(seconds).c_str());
    moments_.emplace_back(seconds, std::string(text.data()) + "  " + line + "\n");
  }

  void say_story() {
    text_ += "In the plan of program " + program_ + " (a step takes " +
             short_seconds(simulation_.seconds) + "):\n";
    if (const Operand* start = operand_in(schedule_.at_start)) {
      at(0, "is there: " + place_of(buffer(*start), value_.type.bytes()));
    }
    int runs = 0;
    std::vector<Travel> travels;
    for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
      const Instruction& instruction = schedule_.instructions[i];
      if (instruction.kind == Instruction::Kind::copy) {
        add_travel(instruction, i, travels);
      } else {
        say_compute(instruction, i, runs);
      }
    }
    say_travels(travels);
    say_ends();
    std::ranges::stable_sort(moments_, {}, [](const auto& moment) { return moment.first; });
    for (const auto& [seconds, line] : moments_) text_ += line;
  }

  // Copies of parts that follow each other are one.
  struct Travel {
    Lane lane = Lane::compute;
    double begin_s = 0;
    double end_s = 0;
    int64_t bytes = 0;
    Buffer from;
    Buffer to;
  };
  void say_travels(const std::vector<Travel>& travels) {
    for (const Travel& travel : travels) {
      at(travel.begin_s,
         "copied, " + describe_bytes(travel.bytes) + ": " + place_of(travel.from, travel.bytes) +
             " -> " + place_of(travel.to, travel.bytes) + ", until " + short_seconds(travel.end_s));
    }
  }
  void add_travel(const Instruction& instruction, size_t i, std::vector<Travel>& travels) const {
    const Operand* source = operand_in(instruction.reads);
    const Operand* target = operand_in(instruction.writes);
    if (source == nullptr || target == nullptr) return;
    const int64_t bytes = source->pieces.front().range.bytes();
    const Travel next{.lane = instruction.lane,
                      .begin_s = simulation_.start_s[i],
                      .end_s = simulation_.end_s[i],
                      .bytes = bytes,
                      .from = buffer(*source),
                      .to = buffer(*target)};
    const bool goes_on = !travels.empty() && travels.back().lane == next.lane &&
                         travels.back().from.offset + travels.back().bytes == next.from.offset &&
                         travels.back().to.offset + travels.back().bytes == next.to.offset;
    if (!goes_on) return travels.push_back(next);
    travels.back().bytes += bytes;
    travels.back().end_s = next.end_s;
  }

  void say_compute(const Instruction& instruction, size_t i, int& runs) {
    const Node& node = graph_.node(instruction.node);
    if (const Operand* made = operand_in(instruction.writes)) {
      std::string line = ++runs == 1 ? "computed" : "computed again";
      line += ": " + place_of(buffer(*made), value_.type.bytes());
      for (const Operand& read : instruction.reads) {
        if (read.pieces.front().buffer == made->pieces.front().buffer) {
          line += ", over " + graph_.value(read.value).name;
        }
      }
      at(simulation_.start_s[i], line);
    }
    if (operand_in(instruction.reads) != nullptr) {
      at(simulation_.start_s[i], "read by " + node.name);
    }
  }

  // When its buffers are free again.
  void say_ends() {
    std::vector<BufferId> mine;
    const auto collect = [&](const std::vector<Operand>& operands) {
      if (const Operand* operand = operand_in(operands)) {
        for (const Piece& piece : operand->pieces) mine.push_back(piece.buffer);
      }
    };
    collect(schedule_.at_start);
    for (const Instruction& instruction : schedule_.instructions) {
      collect(instruction.reads);
      collect(instruction.writes);
    }
    std::ranges::sort(mine);
    std::vector<BufferSpan> spans =
        buffer_spans(schedule_, simulation_.start_s, simulation_.end_s, simulation_.seconds);
    std::erase_if(spans, [&](const BufferSpan& span) {
      return !std::ranges::binary_search(mine, span.buffer);
    });
    const auto place = [&](const BufferSpan& span) -> const Buffer& {
      return schedule_.buffers[static_cast<size_t>(span.buffer.index)];
    };
    std::ranges::sort(spans, [&](const BufferSpan& a, const BufferSpan& b) {
      return std::tuple(place(a).tier, place(a).offset, a.begin_s) <
             std::tuple(place(b).tier, place(b).offset, b.begin_s);
    });
    for (size_t k = 0; k < spans.size();) {  // Neighbours that are there together are one.
      Buffer all = place(spans[k]);
      double end_s = spans[k].end_s;
      size_t next = k + 1;
      for (; next < spans.size() && place(spans[next]).tier == all.tier &&
             place(spans[next]).offset == all.offset + all.bytes && spans[next].begin_s < end_s &&
             spans[k].begin_s < spans[next].end_s;
           ++next) {
        all.bytes += place(spans[next]).bytes;
        end_s = std::max(end_s, spans[next].end_s);
      }
      const bool stays = end_s == simulation_.seconds;
      at(end_s, (stays ? "step ends; still there: " : "all free: ") + place_of(all, all.bytes));
      k = next;
    }
  }

  // --- why ---------------------------------------------------------------------------------------

  void say_reasons() {
    const bool is_choice = value_.role == Role::activation && value_.producer.valid() &&
                           graph_.node(value_.producer).phase == Phase::forward;
    if (!is_choice) {
      text_ += "Nothing to decide: only what the forward pass makes can be computed again.\n";
      return;
    }
    if (!is_read_later_) {
      text_ += "Nothing to decide: no later pass reads it.\n";
      return;
    }
    const Fate now = fate_of(problem_, plan_, id_);
    const OtherFate same = with_fate(problem_, plan_, id_, now);
    text_ += "The plan " + std::string(word_of(now)) +
             ". With this one decision changed, and the rest as it is:\n";
    for (const Fate fate : {Fate::kept, Fate::computed_again, Fate::moved}) {
      if (fate != now) say_other(fate, same);
    }
  }

  static std::string_view word_of(Fate fate) {
    constexpr std::array<std::string_view, 3> kWords = {"keeps it", "computes it again",
                                                        "moves it to the host and back"};
    return kWords.at(static_cast<size_t>(fate));
  }

  void say_other(Fate fate, const OtherFate& same) {
    constexpr std::array<const char*, 3> kNames = {"kept", "computed again", "moved"};
    std::array<char, 32> name{};
    std::snprintf(name.data(), name.size(), "  %-16s", kNames.at(static_cast<size_t>(fate)));
    const OtherFate other = with_fate(problem_, plan_, id_, fate);
    text_ += name.data();
    if (!other.possible) {
      text_ += "not possible: " + other.why_not + "\n";
      return;
    }
    const double difference = other.seconds - same.seconds;
    if (std::abs(difference) < 1e-9 * same.seconds) {
      text_ += "the step takes as long";
    } else {
      text_ += "the step takes " + short_seconds(std::abs(difference)) +
               (difference > 0 ? " longer" : " less");
    }
    if (other.excess_bytes > 0) {
      text_ += ", but exceeds the device budget by " + describe_bytes(other.excess_bytes);
    } else {
      text_ += ", within the device budget";
    }
    if (other.host_excess_bytes > 0) {
      text_ += ", and exceeds the host budget by " + describe_bytes(other.host_excess_bytes);
    }
    text_ += "\n";
  }

  const Problem& problem_;
  const Graph& graph_;
  const Plan& plan_;
  const Schedule& schedule_;
  std::string program_;
  ValueId id_;
  const Value& value_;
  Simulation simulation_;
  bool is_read_later_ = false;
  std::vector<std::pair<double, std::string>> moments_;
  std::string text_;
};

}  // namespace

void check_tensor_name(std::span<const Problem> programs, std::string_view tensor) {
  std::set<std::pair<size_t, std::string>> near;
  for (const Problem& problem : programs) {
    if (problem.graph->find_or_invalid(tensor).valid()) return;
    for (const Value& value : problem.graph->values()) {
      near.emplace(edit_distance(tensor, value.name), value.name);
    }
  }
  std::string text = "--why: no tensor is named '" + std::string(tensor) + "'; near names:";
  size_t shown = 0;
  for (const auto& [distance, name] : near) {
    if (++shown > 5) break;
    text += (shown == 1 ? " " : ", ") + name;
  }
  throw Error(text);
}

std::string why(const PlannedProgram& program, std::string_view tensor) {
  return Explainer(program, program.problem.graph->find(tensor)).explain();
}

}  // namespace olm2
