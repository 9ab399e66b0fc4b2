#include "planner/occupancy.h"

#include <algorithm>

namespace olm2 {
namespace {

class Uses {
 public:
  explicit Uses(size_t buffers) : uses_(buffers) {}
  void touch(BufferId id, int32_t moment) {
    BufferUse& use = uses_[static_cast<size_t>(id.index)];
    if (!use.is_used) use = {.first = moment, .last = moment, .is_used = true};
    use.last = moment;
  }
  void touch(const std::vector<Operand>& operands, int32_t moment) {
    for (const Operand& operand : operands) {
      for (const Piece& piece : operand.pieces) touch(piece.buffer, moment);
    }
  }
  std::vector<BufferUse> take() { return std::move(uses_); }

 private:
  std::vector<BufferUse> uses_;
};

}  // namespace

std::vector<BufferUse> uses_of_buffers(const Schedule& schedule) {
  Uses uses(schedule.buffers.size());
  const auto count = static_cast<int32_t>(schedule.instructions.size());
  uses.touch(schedule.at_start, -1);
  for (int32_t i = 0; i < count; ++i) {
    const Instruction& instruction = schedule.instructions[static_cast<size_t>(i)];
    uses.touch(instruction.reads, i);
    uses.touch(instruction.writes, i);
    if (instruction.workspace.valid()) uses.touch(instruction.workspace, i);
  }
  uses.touch(schedule.at_end, count);
  return uses.take();
}

std::vector<BytesPerTier> occupancy_per_instruction(const Schedule& schedule) {
  const size_t count = schedule.instructions.size();
  std::vector<BytesPerTier> bytes(count + 1);  // Changes first.
  const std::vector<BufferUse> uses = uses_of_buffers(schedule);
  for (size_t b = 0; b < uses.size(); ++b) {
    if (!uses[b].is_used) continue;
    const Buffer& buffer = schedule.buffers[b];
    const size_t tier = index_of(buffer.tier);
    bytes[static_cast<size_t>(std::max(uses[b].first, 0))][tier] += buffer.bytes;
    const auto after = static_cast<size_t>(uses[b].last + 1);
    if (after <= count) bytes[after][tier] -= buffer.bytes;
  }
  for (size_t i = 1; i < count; ++i) {
    for (size_t tier = 0; tier < kTierCount; ++tier) bytes[i][tier] += bytes[i - 1][tier];
  }
  bytes.pop_back();
  return bytes;
}

std::vector<BufferSpan> buffer_spans(const Schedule& schedule, std::span<const double> start_s,
                                     std::span<const double> end_s, double seconds) {
  std::vector<BufferSpan> spans;
  std::vector<int> index(schedule.buffers.size(), -1);
  const auto touch = [&](BufferId id, double begin, double end) {
    int& known = index[static_cast<size_t>(id.index)];
    if (known < 0) {
      known = static_cast<int>(spans.size());
      spans.push_back({.buffer = id, .begin_s = begin, .end_s = end});
      return;
    }
    BufferSpan& span = spans[static_cast<size_t>(known)];
    span.begin_s = std::min(span.begin_s, begin);
    span.end_s = std::max(span.end_s, end);
  };
  const auto touch_all = [&](const std::vector<Operand>& operands, double begin, double end) {
    for (const Operand& operand : operands) {
      for (const Piece& piece : operand.pieces) touch(piece.buffer, begin, end);
    }
  };
  touch_all(schedule.at_start, 0, 0);
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    touch_all(instruction.reads, start_s[i], end_s[i]);
    touch_all(instruction.writes, start_s[i], end_s[i]);
    if (instruction.workspace.valid()) touch(instruction.workspace, start_s[i], end_s[i]);
  }
  touch_all(schedule.at_end, seconds, seconds);
  std::ranges::sort(spans, {}, &BufferSpan::buffer);
  return spans;
}

std::vector<OccupancyChange> occupancy_over_time(const Schedule& schedule,
                                                 std::span<const BufferSpan> spans) {
  struct Change {
    double time_s = 0;
    size_t tier = 0;
    int64_t bytes = 0;
  };
  std::vector<Change> changes;
  for (const BufferSpan& span : spans) {
    const Buffer& buffer = schedule.buffers[static_cast<size_t>(span.buffer.index)];
    changes.push_back({span.begin_s, index_of(buffer.tier), buffer.bytes});
    changes.push_back({span.end_s, index_of(buffer.tier), -buffer.bytes});
  }
  std::ranges::sort(changes, {}, &Change::time_s);
  std::vector<OccupancyChange> result;
  for (const Change& change : changes) {
    if (result.empty() || result.back().time_s != change.time_s) {
      result.push_back({.time_s = change.time_s, .bytes = {}});
      if (result.size() > 1) result.back().bytes = result[result.size() - 2].bytes;
    }
    result.back().bytes[change.tier] += change.bytes;
  }
  return result;
}

}  // namespace olm2
