// Two instructions that touch the same bytes, one of them writing, must run in list order.  Within
// a lane they do; across lanes the later one waits.  Addresses are what counts, not buffers:
// reading unfinished bytes and reusing an address too early are the same mistake.
//
// A wait is left out if lane order and the waits already there imply it, found with vector clocks
// (Fidge 1988, Mattern 1989): clock[lane] is the last instruction of that lane known to be
// finished.
#include <algorithm>
#include <array>
#include <map>

#include "planner/planner.h"

namespace olm2 {
namespace {

constexpr int32_t kNone = -1;
using LaneClock = std::array<int32_t, kLaneCount>;

LaneClock no_instruction() {
  LaneClock clock;
  clock.fill(kNone);
  return clock;
}

// Who last wrote each byte of a tier, and who has read it since (per lane the latest).
class AccessMap {
 public:
  // Calls `depend(instruction)` for everything that an access must come after, and records it.
  template <typename Depend>
  void access(Range bytes, bool is_write, int32_t instruction, Lane lane, const Depend& depend) {
    if (bytes.bytes() == 0) return;
    split(bytes.begin);
    split(bytes.end);
    int64_t covered = bytes.begin;
    for (auto at = spans_.lower_bound(bytes.begin); covered < bytes.end;) {
      if (at == spans_.end() || at->first > covered) {  // Never touched before.
        const int64_t end = at == spans_.end() ? bytes.end : std::min(at->first, bytes.end);
        at = spans_.emplace_hint(at, covered, Span{.end = end});
      }
      Span& span = at->second;
      depend(span.writer);
      if (is_write) {
        for (const int32_t reader : span.readers) depend(reader);
        span.writer = instruction;
        span.readers = no_instruction();
      } else {
        span.readers[index_of(lane)] = instruction;
      }
      covered = span.end;
      ++at;
    }
  }

 private:
  struct Span {
    int64_t end = 0;
    int32_t writer = kNone;
    LaneClock readers = no_instruction();
  };

  // Makes `position` a boundary of spans.
  void split(int64_t position) {
    auto after = spans_.upper_bound(position);
    if (after == spans_.begin()) return;
    const auto at = std::prev(after);
    if (at->first == position || at->second.end <= position) return;
    Span upper = at->second;
    at->second.end = position;
    spans_.emplace_hint(after, position, upper);
  }

  std::map<int64_t, Span> spans_;  // By first byte; disjoint.
};

class WaitFinder {
 public:
  explicit WaitFinder(Schedule& schedule) : schedule_(schedule) {
    last_of_lane_ = no_instruction();
    known_.reserve(schedule.instructions.size());
  }

  void run() {
    for (size_t i = 0; i < schedule_.instructions.size(); ++i) visit(static_cast<int32_t>(i));
  }

 private:
  void visit(int32_t i) {
    Instruction& instruction = schedule_.instructions[static_cast<size_t>(i)];
    wanted_ = no_instruction();
    for (const Operand& operand : instruction.reads) touch(operand, false, i, instruction.lane);
    for (const Operand& operand : instruction.writes) touch(operand, true, i, instruction.lane);
    if (instruction.workspace.valid()) {
      touch(instruction.workspace, true, i, instruction.lane);
    }
    LaneClock clock = no_instruction();
    learn(clock, last_of_lane_[index_of(instruction.lane)]);
    // Latest first: it may imply earlier ones, never the other way round.
    std::ranges::sort(wanted_, std::greater<>());
    instruction.waits.clear();
    for (const int32_t other : wanted_) {
      if (other == kNone || clock[lane_of(other)] >= other) continue;
      instruction.waits.push_back(other);
      learn(clock, other);
    }
    std::ranges::sort(instruction.waits);
    known_.push_back(clock);
    last_of_lane_[index_of(instruction.lane)] = i;
  }

  size_t lane_of(int32_t instruction) const {
    return index_of(schedule_.instructions[static_cast<size_t>(instruction)].lane);
  }
  // `other` has finished, and so has all it knew of.
  void learn(LaneClock& clock, int32_t other) const {
    if (other == kNone) return;
    const LaneClock& theirs = known_[static_cast<size_t>(other)];
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      clock[lane] = std::max(clock[lane], theirs[lane]);
    }
    clock[lane_of(other)] = std::max(clock[lane_of(other)], other);
  }
  void touch(const Operand& operand, bool is_write, int32_t i, Lane lane) {
    for (const Piece& piece : operand.pieces) touch(piece.buffer, is_write, i, lane);
  }
  void touch(BufferId id, bool is_write, int32_t i, Lane lane) {
    const Buffer& buffer = schedule_.buffers[static_cast<size_t>(id.index)];
    const Range bytes{buffer.offset, buffer.offset + buffer.bytes};
    tiers_[index_of(buffer.tier)].access(bytes, is_write, i, lane, [&](int32_t other) {
      if (other == kNone || other == i) return;
      int32_t& latest = wanted_[lane_of(other)];
      latest = std::max(latest, other);
    });
  }

  Schedule& schedule_;
  std::array<AccessMap, kTierCount> tiers_;
  LaneClock last_of_lane_{};
  LaneClock wanted_{};            // Latest instruction per lane that the current one comes after.
  std::vector<LaneClock> known_;  // Per instruction, when it starts.
};

}  // namespace

void add_waits(const Problem& /*problem*/, Schedule& schedule) {
  WaitFinder(schedule).run();
}

}  // namespace olm2
