#include "train/measured_occupancy.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace olm2 {
namespace {

// [begin, end) of an arena, touched at a moment (-1: before the step, `count`: after it).
struct Touch {
  int64_t begin = 0;
  int64_t end = 0;
  int32_t moment = 0;
  bool reads = false;    // Otherwise it writes.
  bool is_held = false;  // In use all the time.
};

class Recorder {
 public:
  Recorder(const BoundProgram& program, const Arenas& arenas, std::span<const TraceEvent> ran)
      : program_(program), arenas_(arenas), ran_(program.instructions, false) {
    for (const TraceEvent& event : ran) ran_.at(static_cast<size_t>(event.instruction)) = true;
  }

  std::vector<BytesPerTier> record() {
    for (const KernelCall& call : program_.calls) add(call);
    for (size_t k = 0; k < program_.copies.size(); ++k) {
      add(program_.copies[k], program_.copy_instructions[k]);
    }
    add_surroundings();
    std::vector<BytesPerTier> bytes(program_.instructions);
    for (size_t tier = 0; tier < kTierCount; ++tier) count(tier, bytes);
    return bytes;
  }

 private:
  bool has_run(int32_t instruction) const { return ran_.at(static_cast<size_t>(instruction)); }

  void touch(Tier tier, const void* address, int64_t bytes, int32_t moment, bool reads,
             bool is_held = false) {
    if (bytes == 0) return;
    const int64_t begin = static_cast<const std::byte*>(address) - arenas_[index_of(tier)].at(0);
    touches_[index_of(tier)].push_back({.begin = begin,
                                        .end = begin + padded(bytes, program_.alignment),
                                        .moment = moment,
                                        .reads = reads,
                                        .is_held = is_held});
  }

  void add(const KernelCall& call) {
    if (!has_run(call.instruction)) return;
    for (size_t k = 0; k < call.operands.size(); ++k) {
      const Tensor& tensor = call.operands[k];
      touch(Tier::device, tensor.data, tensor.type->bytes(), call.instruction, k < call.inputs);
    }
    touch(Tier::device, call.workspace, call.workspace_bytes, call.instruction, false);
  }

  void add(const Copy& copy, int32_t instruction) {
    if (!has_run(instruction)) return;
    const bool is_out = copy.lane == Lane::device_to_host;
    ensure(is_out || copy.lane == Lane::host_to_device, "a copy over a link that is not counted");
    touch(is_out ? Tier::device : Tier::host, copy.source, copy.bytes, instruction, true);
    touch(is_out ? Tier::host : Tier::device, copy.target, copy.bytes, instruction, false);
  }

  void add_surroundings() {
    const auto after = static_cast<int32_t>(program_.instructions);
    const auto add_bytes = [&](Tier tier, std::span<const std::byte> bytes, int32_t moment,
                               bool reads, bool is_held = false) {
      touch(tier, bytes.data(), static_cast<int64_t>(bytes.size()), moment, reads, is_held);
    };
    for (const auto& [name, bytes] : program_.inputs) add_bytes(Tier::device, bytes, -1, false);
    for (const auto& [name, bytes] : program_.results) add_bytes(Tier::device, bytes, after, true);
    for (const auto& [name, state] : program_.states) {
      const bool is_held = state.at_start && state.at_end;
      if (state.at_start) add_bytes(state.tier, state.bytes, -1, false, is_held);
      if (state.at_end && !is_held) add_bytes(state.tier, state.bytes, after, true);
    }
  }

  // Cuts the arena where any touch begins or ends, and follows the lives of each part.
  void count(size_t tier, std::vector<BytesPerTier>& bytes) {
    std::vector<Touch>& touches = touches_[tier];
    std::ranges::stable_sort(touches, {}, &Touch::moment);
    std::vector<int64_t> cuts;
    for (const Touch& touch : touches) {
      cuts.push_back(touch.begin);
      cuts.push_back(touch.end);
    }
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<std::vector<Touch>> parts(cuts.size());
    for (const Touch& touch : touches) {
      auto part = static_cast<size_t>(std::ranges::lower_bound(cuts, touch.begin) - cuts.begin());
      for (; cuts[part] < touch.end; ++part) parts[part].push_back(touch);
    }
    for (size_t part = 0; part + 1 < cuts.size(); ++part) {
      follow(tier, cuts[part + 1] - cuts[part], parts[part], bytes);
    }
  }

  // A life begins with a write that does not read, and ends with the last read before the next one.
  void follow(size_t tier, int64_t size, const std::vector<Touch>& touches,
              std::vector<BytesPerTier>& bytes) const {
    int32_t first = 0;
    int32_t last = -2;  // No life so far.
    const auto add = [&](int32_t from, int32_t to) {
      const auto end = std::min<int32_t>(to + 1, static_cast<int32_t>(bytes.size()));
      for (int32_t i = std::max(from, 0); i < end; ++i) bytes[static_cast<size_t>(i)][tier] += size;
    };
    if (std::ranges::any_of(touches, &Touch::is_held)) {
      return add(0, static_cast<int32_t>(bytes.size()));
    }
    for (size_t k = 0; k < touches.size();) {
      const int32_t moment = touches[k].moment;
      bool reads = false;
      for (; k < touches.size() && touches[k].moment == moment; ++k) {
        reads = reads || touches[k].reads;
      }
      if (!reads || last < -1) {
        add(first, last);
        first = moment;
      }
      last = moment;
    }
    add(first, last);
  }

  const BoundProgram& program_;
  const Arenas& arenas_;
  std::vector<bool> ran_;
  std::array<std::vector<Touch>, kTierCount> touches_;
};

}  // namespace

std::vector<BytesPerTier> measured_occupancy(const BoundProgram& program, const Arenas& arenas,
                                             std::span<const TraceEvent> ran) {
  return Recorder(program, arenas, ran).record();
}

}  // namespace olm2
