#include "train/executor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/op.h"
#include "memory/arena.h"
#include "memory/copy_engine.h"
#include "train/executor_program.h"
#include "train/measured_occupancy.h"
#include "train/state_contents.h"

namespace olm2 {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_between(SteadyClock::time_point begin, SteadyClock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Equal for two nodes exactly if one prepared kernel can serve both.
std::string kernel_key(const Graph& graph, const Node& node) {
  return signature(graph, node) + " stream=" + std::to_string(attr_or(node.attrs, "stream", 0));
}

CopyEngineOptions copy_options(const ExecutorOptions& options) {
  CopyEngineOptions copies;
  copies.throttle[index_of(Lane::device_to_host)] = options.device_to_host_bytes_per_s;
  copies.throttle[index_of(Lane::host_to_device)] = options.host_to_device_bytes_per_s;
  copies.max_delay_s = options.max_copy_delay_s;
  copies.delay_seed = options.delay_seed;
  return copies;
}

// The same, proven to hand state to each other.
std::vector<ExecutableProgram> checked(std::vector<ExecutableProgram> programs) {
  std::vector<ProgramInTurn> turns;
  for (const ExecutableProgram& program : programs) {
    turns.push_back({program.name, &program.problem});
  }
  check_handover(turns);
  return programs;
}

}  // namespace

struct Executor::Impl {
  std::vector<ExecutableProgram> programs;
  Backend& backend;
  ExecutorOptions options;
  StateContents contents;
  BytesPerTier arena_bytes{};
  Arenas arenas;
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
  std::vector<BoundProgram> bound;
  std::unique_ptr<CopyEngine> copies;
  std::vector<TraceEvent> trace;  // As long as the longest program.
  size_t traced = 0;              // Events of the last step.
  size_t last_program = 0;        // That of the last step.

  Impl(std::vector<ExecutableProgram> all, Backend& device, const ExecutorOptions& chosen)
      : programs(checked(std::move(all))),
        backend(device),
        options(chosen),
        contents(programs),
        arena_bytes(chosen.least_arena) {
    allocate();
    bind();
  }

  void bind() {
    bound.clear();
    const PrepareKernel prepare = [&](const Graph& graph, const Node& node) {
      std::unique_ptr<Kernel>& kernel = kernels[kernel_key(graph, node)];
      if (kernel == nullptr) kernel = backend.prepare(graph, node);
      return kernel.get();
    };
    std::vector<CopyEngine::Program> copy_lists;
    size_t longest = 0;
    for (const ExecutableProgram& program : programs) {
      bound.push_back(bind_program(program.problem, program.schedule.schedule(), arenas, prepare,
                                   options.poison));
      copy_lists.push_back(bound.back().copies);
      longest = std::max(longest, bound.back().instructions);
    }
    list_untouched();
    traced = 0;
    if (options.trace) trace.resize(longest);
    copies = std::make_unique<CopyEngine>(std::move(copy_lists), copy_options(options));
  }

  void allocate() {
    for (const ExecutableProgram& program : programs) {
      if (program.problem.alignment % backend.alignment() != 0) {
        throw Error("executor: program " + program.name + " is aligned to " +
                    std::to_string(program.problem.alignment) + " bytes, backend " +
                    std::string(backend.name()) + " needs " + std::to_string(backend.alignment()));
      }
      for (size_t tier = 0; tier < kTierCount; ++tier) {
        arena_bytes[tier] = std::max(arena_bytes[tier], program.schedule.schedule().arena[tier]);
      }
    }
    if (arena_bytes[index_of(Tier::disk)] > 0) {
      throw Error("executor: the schedule wants " +
                  std::to_string(arena_bytes[index_of(Tier::disk)]) +
                  " bytes on disk, which this executor does not use");
    }
    for (size_t tier = 0; tier < kTierCount; ++tier) arenas[tier] = Arena(arena_bytes[tier]);
  }

  // Per program the state that only others know and that lies where this one never writes.
  void list_untouched() {
    std::map<std::string_view, RestingState> all;
    for (const BoundProgram& program : bound) {
      for (const auto& [name, state] : program.states) all.emplace(name, state);
    }
    for (size_t i = 0; i < bound.size(); ++i) {
      for (const auto& [name, state] : all) {
        const std::byte* begin = arenas[index_of(state.tier)].at(0);
        const int64_t spared = programs[i].problem.state_bytes_in(state.tier);
        const bool is_spared = state.bytes.data() + state.bytes.size() <= begin + spared;
        if (is_spared && !bound[i].states.contains(name)) bound[i].untouched.push_back(state);
      }
    }
  }

  const BoundProgram& program(size_t index) const {
    ensure(index < bound.size(), "a program the executor does not have");
    return bound[index];
  }

  void keep_trace(const BoundProgram& program, size_t index) {
    if (!options.trace) return;
    const std::span<const CopyTime> times = copies->times(index);
    for (size_t k = 0; k < times.size(); ++k) {
      trace[traced++] = {program.copy_instructions[k], times[k].start_s, times[k].end_s};
    }
    std::ranges::sort(std::span(trace).first(traced), {}, &TraceEvent::instruction);
  }

  // Where each state source rests, as the first program that knows it has it.
  std::map<std::string, std::span<std::byte>, std::less<>> resting_states() const {
    std::map<std::string, std::span<std::byte>, std::less<>> all;
    for (const BoundProgram& program : bound) {
      for (const auto& [name, state] : program.states) all.emplace(name, state.bytes);
    }
    return all;
  }

  void exchange(std::vector<ExecutableProgram> others);
  StepReport run(size_t index);
};

void Executor::Impl::exchange(std::vector<ExecutableProgram> others) {
  others = checked(std::move(others));
  const bool same_names =
      std::ranges::equal(programs, others, {}, &ExecutableProgram::name, &ExecutableProgram::name);
  if (!same_names) throw Error("executor: an exchange needs the same programs in the same order");
  for (const ExecutableProgram& program : others) {
    for (const Tier tier : kTiers) {
      const int64_t wanted = program.schedule.schedule().arena[index_of(tier)];
      if (wanted <= arena_bytes[index_of(tier)]) continue;
      throw Error("executor: program " + program.name + " wants " + std::to_string(wanted) +
                  " bytes in tier " + std::string(to_string(tier)) + ", allocated were " +
                  std::to_string(arena_bytes[index_of(tier)]));
    }
  }
  const auto before = resting_states();
  programs = std::move(others);
  contents = StateContents(programs);
  bind();
  std::vector<std::pair<std::span<std::byte>, std::vector<std::byte>>> moves;
  for (const auto& [name, there] : resting_states()) {
    const auto old = before.find(name);
    if (old == before.end() || old->second.data() == there.data()) continue;
    moves.emplace_back(there, std::vector(old->second.begin(), old->second.end()));
  }
  for (const auto& [there, bytes] : moves) std::ranges::copy(bytes, there.begin());
}

// The only loop.
StepReport Executor::Impl::run(size_t index) {
  const BoundProgram& program = this->program(index);
  Footprint footprint(arenas);
  StepReport report;
  traced = 0;
  last_program = index;
  contents.begin(index, programs[index].name);
  copies->begin(index);
  const SteadyClock::time_point begin = copies->begin_time();
  SteadyClock::time_point now = begin;
  const auto waited = [&] {
    const SteadyClock::time_point before = std::exchange(now, SteadyClock::now());
    report.stall_seconds += seconds_between(before, now);
  };
  try {
    for (const KernelCall& call : program.calls) {
      now = SteadyClock::now();
      copies->wait(call.after);
      waited();
      footprint.add(program, call);
      call.run();
      ++report.computed;
      if (options.trace) {
        trace[traced++] = {call.instruction, seconds_between(begin, now),
                           seconds_between(begin, SteadyClock::now())};
      }
      copies->announce(static_cast<int32_t>(report.computed));
    }
    now = SteadyClock::now();
    copies->finish();
    waited();
  } catch (...) {
    copies->abandon();
    throw;
  }
  contents.end(index);
  footprint.add_surroundings(program);
  keep_trace(program, index);
  report.seconds = seconds_between(begin, now);
  report.copied_bytes = program.copied_bytes;
  report.peak = footprint.peak();
  return report;
}

Executor::Executor(std::vector<ExecutableProgram> programs, Backend& backend,
                   ExecutorOptions options)
    : impl_(std::make_unique<Impl>(std::move(programs), backend, options)) {}

Executor::~Executor() = default;

size_t Executor::program_index(std::string_view name) const {
  std::string known;
  for (size_t i = 0; i < impl_->programs.size(); ++i) {
    if (impl_->programs[i].name == name) return i;
    known += (i == 0 ? "" : ", ") + impl_->programs[i].name;
  }
  throw Error("executor: no program is named '" + std::string(name) + "'; there are: " + known);
}

std::span<std::byte> Executor::state(std::string_view name) {
  for (const BoundProgram& program : impl_->bound) {
    const auto found = program.states.find(name);
    if (found != program.states.end()) return found->second.bytes;
  }
  throw Error("executor: no state is named '" + std::string(name) + "'");
}

std::span<std::byte> Executor::input(size_t program, std::string_view name) {
  const BoundProgram& bound = impl_->program(program);
  const auto found = bound.inputs.find(name);
  if (found == bound.inputs.end()) {
    throw Error("executor: program " + impl_->programs[program].name + " has no input '" +
                std::string(name) + "'");
  }
  return found->second;
}

std::span<const std::byte> Executor::result(size_t program, std::string_view name) const {
  const BoundProgram& bound = impl_->program(program);
  const auto found = bound.results.find(name);
  if (found == bound.results.end()) {
    throw Error("executor: program " + impl_->programs[program].name + " has no result '" +
                std::string(name) + "'");
  }
  return found->second;
}

void Executor::exchange(std::vector<ExecutableProgram> programs) {
  impl_->exchange(std::move(programs));
}

StepReport Executor::run(size_t program) {
  return impl_->run(program);
}

BytesPerTier Executor::arena_bytes() const {
  return impl_->arena_bytes;
}

std::span<const TraceEvent> Executor::trace() const {
  return std::span(impl_->trace).first(impl_->traced);
}

std::vector<BytesPerTier> Executor::occupancy() const {
  ensure(impl_->options.trace, "occupancy is known of traced steps only");
  return measured_occupancy(impl_->program(impl_->last_program), impl_->arenas, trace());
}

}  // namespace olm2
