// Runs checked schedules, again and again: waits, hands planned addresses to kernels and copies,
// and measures.  Decides nothing, allocates nothing while a step runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/backend.h"
#include "core/schedule.h"

namespace olm2 {

// One program as the executor takes it.  The Problem's graph must outlive the executor.
struct ExecutableProgram {
  std::string name;
  Problem problem;
  CheckedSchedule schedule;
};

struct ExecutorOptions {
  // Fills a buffer with NaN bytes when its life ends and before its first write: a read of dead or
  // unfinished bytes then shows in the result.
  bool poison = false;
  // Delays each copy at random by up to this long: a missing wait then shows in the result.
  double max_copy_delay_s = 0;
  uint64_t delay_seed = 1;
  // Bytes per second each link is slowed down to; 0: as fast as it goes.
  double device_to_host_bytes_per_s = 0;
  double host_to_device_bytes_per_s = 0;
  // Allocate at least so much: room for the programs of a later exchange().
  BytesPerTier least_arena{};
  bool trace = false;  // Keep start and end of every instruction of the last step.
};

struct StepReport {
  double seconds = 0;
  double stall_seconds = 0;  // The compute lane waited for copies.
  BytesPerTier peak{};       // From the addresses handed to kernels and copies in this step.
  int64_t computed = 0;      // Kernels launched.
  int64_t copied_bytes = 0;
};

struct TraceEvent {
  int32_t instruction = 0;
  double start_s = 0;  // Since the step began.
  double end_s = 0;
};

class Executor {
 public:
  // Programs, in the order they run in, again and again; they share one arena per tier (the largest
  // any of them wants) and one set of state addresses.  Kernels are prepared here.  Throws Error if
  // memory is missing, or if programs do not hand state to each other (check_handover).
  Executor(std::vector<ExecutableProgram> programs, Backend& backend, ExecutorOptions options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  size_t program_index(std::string_view name) const;  // Throws Error.

  // Memory of a state source (any program's) where it rests, between steps.  Throws Error for a
  // name that is unknown or rests nowhere.
  std::span<std::byte> state(std::string_view name);
  // Memory of an input of a program: write it right before run(); other programs reuse it.
  std::span<std::byte> input(size_t program, std::string_view name);
  // Memory of a result of a program, right after run().
  std::span<const std::byte> result(size_t program, std::string_view name) const;

  // Goes on with other schedules for the same programs, in the same memory; to be called between
  // optimizer steps.  State keeps its content, wherever it rests from now on; what rests elsewhere
  // than before passes through a buffer of its size.  Spans handed out before are void.  Throws
  // Error, and changes nothing, if the programs are others or the memory does not suffice.
  void exchange(std::vector<ExecutableProgram> programs);

  // Throws Error if state it needs was overwritten by a program that does not keep it.
  StepReport run(size_t program);

  // Bytes allocated per tier: the largest planned peak.
  BytesPerTier arena_bytes() const;
  // Of the last step; only with ExecutorOptions::trace.
  std::span<const TraceEvent> trace() const;
  // Bytes in use while each instruction of the last step ran, in list order, from the addresses
  // handed to kernels and copies; only with ExecutorOptions::trace.
  std::vector<BytesPerTier> occupancy() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace olm2
