// A checked schedule bound to memory: every address, wait and tensor worked out before the first
// step, so that running it decides and allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/schedule.h"
#include "memory/arena.h"
#include "memory/copy_engine.h"

namespace olm2 {

using Arenas = std::array<Arena, kTierCount>;

// A kernel with everything it is handed.
struct KernelCall {
  int32_t instruction = 0;
  Kernel* kernel = nullptr;
  std::vector<Tensor> operands;  // Inputs, then outputs.
  size_t inputs = 0;
  std::byte* workspace = nullptr;
  int64_t workspace_bytes = 0;
  std::vector<Event> after;
  std::vector<Poison> poison_before;
  std::vector<Poison> poison_after;

  void run() const;
};

// A state source in its resting place.
struct RestingState {
  Tier tier = Tier::device;
  std::span<std::byte> bytes;
  bool at_start = true;  // As in StateRest.
  bool at_end = true;
};

struct BoundProgram {
  std::vector<KernelCall> calls;  // In the order of the compute lane.
  CopyEngine::Program copies;
  std::vector<int32_t> copy_instructions;  // Per copy.
  int64_t copied_bytes = 0;
  size_t instructions = 0;
  int64_t alignment = 64;
  // What the caller is handed before and after a step, by name.
  std::map<std::string, std::span<std::byte>, std::less<>> inputs;
  std::map<std::string, RestingState, std::less<>> states;
  std::map<std::string, std::span<std::byte>, std::less<>> results;
  std::vector<RestingState> untouched;  // State of other programs that stays where it is meanwhile.
};

// Makes a node ready to run, or finds the kernel of an equal node made before.
using PrepareKernel = std::function<Kernel*(const Graph&, const Node&)>;

// Throws Error if a kernel wants more scratch than the problem planned for.
BoundProgram bind_program(const Problem& problem, const Schedule& schedule, const Arenas& arenas,
                          const PrepareKernel& prepare, bool poison);

// The highest byte handed out so far, per tier.
class Footprint {
 public:
  explicit Footprint(const Arenas& arenas) : arenas_(arenas) {}
  void add(Tier tier, const void* address, int64_t padded_bytes) {
    const Arena& arena = arenas_[index_of(tier)];
    int64_t& peak = peak_[index_of(tier)];
    const int64_t end = static_cast<const std::byte*>(address) - arena.at(0) + padded_bytes;
    if (end > peak) peak = end;
  }
  void add(const BoundProgram& program, const KernelCall& call);
  // Copies, and what lies in memory before and after the step.
  void add_surroundings(const BoundProgram& program);
  BytesPerTier peak() const { return peak_; }

 private:
  const Arenas& arenas_;
  BytesPerTier peak_{};
};

}  // namespace olm2
