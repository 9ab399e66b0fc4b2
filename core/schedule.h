// The texts between "what to compute" and "bytes moved":
//
//   Problem --a policy--> Plan --lower, place--> Schedule --check--> CheckedSchedule --Executor-->
//
// All are plain data: they can be printed, compared, saved and checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/graph.h"
#include "core/profile.h"
#include "core/tier.h"

namespace olm2 {

// Part of a value, in bytes: [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes() const { return end - begin; }
  auto operator<=>(const Range&) const = default;
};

// Where the content of a state source is between programs, and whether this program finds it there.
struct StateRest {
  Tier tier = Tier::device;
  bool at_start = true;  // Its content is there when the step begins ...
  bool at_end = true;    // ... and its newest version must be there when the step has ended.
};

// The whole input of a policy.
struct Problem {
  const Graph* graph = nullptr;
  std::vector<ValueId> results;    // Read by somebody after the step.
  std::vector<double> seconds;     // Per node, of its first run.
  std::vector<int64_t> workspace;  // Per node, bytes of scratch on the device.
  // Per value: where a state source rests in the arena of its tier; -1 for everything else.
  std::vector<int64_t> state_offset;
  // Per value, read of state sources only.  Empty: all rest on the device, there at start and end.
  std::vector<StateRest> rest = {};
  // Per node, of every run after the first; empty: as of the first.
  std::vector<double> again_seconds = {};
  int64_t state_bytes = 0;         // The device arena below this belongs to state.
  BytesPerTier state_elsewhere{};  // The same of the other tiers' arenas.
  LinkProfile device_to_host;
  LinkProfile host_to_device;
  BytesPerTier budget{};   // Bytes; the device's includes the state.
  int64_t alignment = 64;  // Every offset is a multiple; sizes are padded to it.

  double run_seconds(size_t node, bool is_again) const {
    return is_again && !again_seconds.empty() ? again_seconds.at(node) : seconds.at(node);
  }
  int64_t padded_bytes(ValueId value) const {
    return padded(graph->type(value).bytes(), alignment);
  }
  StateRest rest_of(ValueId source) const {
    return rest.empty() ? StateRest{} : rest.at(static_cast<size_t>(source.index));
  }
  int64_t state_bytes_in(Tier tier) const {
    return tier == Tier::device ? state_bytes : state_elsewhere[index_of(tier)];
  }
  // `value` takes no bytes of its own on the device: a version of state whose home there keeps its
  // bytes from the start of the step on, or a state source that has no content yet.  All other
  // versions of state are like activations until they come to rest.
  bool lives_at_home(ValueId value) const;
};

// A step of a Plan, replayed in list order:
// compute  needs every input of `node` whole on the device and makes every output there, whole.
//          A version that lives at home replaces the content of its home; nothing may read older
//          versions afterwards.
// copy     needs `value`[range] in `from` and makes it exist in `to` as well.
// drop     forgets `value`[range] in `from`.  Its bytes can be used again from here on; if a copy
//          reads or writes them, whoever uses them again waits for it.
// Inputs are on the device at the start, state is where it rests; results must be on the device at
// the end, the newest versions of state where they rest.  State that rests in another tier stays
// there: a copy of a newer version to that tier replaces the content of its home, piece by piece.
// Ranges begin and end at multiples of the alignment, or at the end of the value.
struct Step {
  enum class Kind : uint8_t { compute, copy, drop };
  Kind kind = Kind::compute;
  NodeId node;    // compute
  ValueId value;  // copy, drop
  Range range;    // copy, drop
  Tier from = Tier::device;
  Tier to = Tier::device;  // copy
  bool operator==(const Step&) const = default;
};

struct Plan {
  std::vector<Step> steps;
};

// One place in a tier's arena.  Its content may change over time: the versions of a state source,
// or an output that an op wrote over its input.
struct Buffer {
  std::string name;  // For people: the first value it holds, or "workspace of <node>".
  Tier tier = Tier::device;
  int64_t offset = 0;  // Bytes from the start of the arena.
  int64_t bytes = 0;   // Padded.
  // Instructions [first, last], in list order, between which it is in use: for drawing and
  // placing; `check` does not rely on it.  -1: before the step began; instructions.size(): after
  // its end.
  int32_t first = 0;
  int32_t last = 0;
};

// Part of a value in a buffer; the part begins where the buffer begins.
struct Piece {
  BufferId buffer;
  Range range;
};

// A value as an instruction sees it: pieces that follow each other without a gap, in the value
// and in the arena.
struct Operand {
  ValueId value;
  std::vector<Piece> pieces;
};

struct Instruction {
  enum class Kind : uint8_t { compute, copy };
  Kind kind = Kind::compute;
  Lane lane = Lane::compute;
  NodeId node;                  // compute
  std::vector<Operand> reads;   // compute: the node's inputs, in order.  copy: one piece.
  std::vector<Operand> writes;  // compute: the node's outputs, in order.  copy: one piece.
  BufferId workspace;           // compute; invalid if the node needs none.
  std::vector<int32_t> waits;   // Instructions of other lanes that must have finished before.
};

struct Schedule {
  std::vector<Instruction> instructions;
  std::vector<Buffer> buffers;
  // What is in memory when the step begins (inputs, state), and what must be there when it has
  // ended (newest versions of state, results).  One piece each, but for state that does not stay at
  // home on the device for the whole step.
  std::vector<Operand> at_start;
  std::vector<Operand> at_end;
  BytesPerTier arena{};  // Bytes to allocate per tier = planned peak.
};

// A Schedule that `check` accepted for a Problem.  Only `check` makes one; an Executor takes
// nothing else.
class CheckedSchedule {
 public:
  const Schedule& schedule() const { return schedule_; }

 private:
  friend CheckedSchedule check(const Problem& problem, Schedule schedule);
  explicit CheckedSchedule(Schedule schedule) : schedule_(std::move(schedule)) {}
  Schedule schedule_;
};

// Proves, from lane order and waits alone, that a schedule does what its graph says:
//  1. every read sees exactly the bytes it names, finished, and no one writes them meanwhile;
//  2. buffers whose bytes overlap are never in use at the same time;
//  3. an output lies on an input only where the op allows it and nobody reads the input later;
//  4. operands have the node's values in the node's order, whole, contiguous and aligned;
//     workspaces are large enough; a copy moves the same range of the same value over a link
//     that exists;
//  5. every buffer lies inside its arena, every arena inside its budget, and nothing but state
//     below state_bytes of its tier; state lies at its given offset;
//  6. at the end every state source that somebody needs then rests, in its newest version, where
//     Problem::rest says, and every result is there.
// Shares no code with what makes schedules (planner/).  Throws Error naming the instruction.
CheckedSchedule check(const Problem& problem, Schedule schedule);

// Programs under their names, which run in this order, again and again.  Owns nothing.
struct ProgramInTurn {
  std::string_view name;
  const Problem* problem = nullptr;
};

// Proves that programs hand state to each other: a source rests at one place in all of them, no two
// at the same, and what a program needs at its start was left there by the one before that knows
// it, out of reach of those between.  Throws Error naming the source and both programs.
void check_handover(std::span<const ProgramInTurn> turns);

// Text forms; parse(to_string(x)) prints as x again.  Values and nodes appear by name.
std::string to_string(const Graph& graph, const Plan& plan);
std::string to_string(const Graph& graph, const Schedule& schedule);
// Throw Error naming the line.
Plan parse_plan(const Graph& graph, std::string_view text);
Schedule parse_schedule(const Graph& graph, std::string_view text);

}  // namespace olm2
