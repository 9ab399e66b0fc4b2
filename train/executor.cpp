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

// Every state source has one place in all programs, and no program uses the place of another's.
void check_states(std::span<const ExecutableProgram> programs) {
  struct Home {
    const ValueType* type = nullptr;
    int64_t offset = 0;
    const ExecutableProgram* program = nullptr;
  };
  std::map<std::string, Home> homes;
  for (const ExecutableProgram& program : programs) {
    const Graph& graph = *program.problem.graph;
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const Value& value = graph.values()[i];
      if (!is_state(value.role) || value.producer.valid()) continue;
      const Home home{&value.type, program.problem.state_offset[i], &program};
      const auto [known, is_new] = homes.emplace(value.name, home);
      const Home& other = known->second;
      if (is_new || (other.offset == home.offset && *other.type == *home.type)) continue;
      throw Error("executor: state " + value.name + " is " + to_string(*other.type) +
                  " at offset " + std::to_string(other.offset) + " in program " +
                  other.program->name + ", and " + to_string(*home.type) + " at offset " +
                  std::to_string(home.offset) + " in program " + program.name);
    }
  }
  std::vector<std::pair<std::string, Home>> by_offset(homes.begin(), homes.end());
  std::ranges::sort(by_offset, {}, [](const auto& entry) { return entry.second.offset; });
  int64_t end = 0;
  for (const auto& [name, home] : by_offset) {
    if (home.offset < end) throw Error("executor: state " + name + " overlaps other state");
    end = home.offset + home.type->bytes();
  }
  for (const ExecutableProgram& program : programs) {
    if (program.problem.state_bytes >= end) continue;
    throw Error("executor: program " + program.name + " leaves " +
                std::to_string(program.problem.state_bytes) +
                " bytes to state, all programs need " + std::to_string(end));
  }
}

}  // namespace

struct Executor::Impl {
  std::vector<ExecutableProgram> programs;
  ExecutorOptions options;
  BytesPerTier arena_bytes{};
  Arenas arenas;
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
  std::vector<BoundProgram> bound;
  std::unique_ptr<CopyEngine> copies;
  std::vector<TraceEvent> trace;  // As long as the longest program.
  size_t traced = 0;              // Events of the last step.
  size_t last_program = 0;        // That of the last step.

  Impl(std::vector<ExecutableProgram> all, Backend& backend, const ExecutorOptions& chosen)
      : programs(std::move(all)), options(chosen) {
    check_states(programs);
    allocate(backend);
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
    if (options.trace) trace.resize(longest);
    copies = std::make_unique<CopyEngine>(std::move(copy_lists), copy_options(options));
  }

  void allocate(const Backend& backend) {
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

  StepReport run(size_t index);
};

// The only loop.
StepReport Executor::Impl::run(size_t index) {
  const BoundProgram& program = this->program(index);
  Footprint footprint(arenas);
  StepReport report;
  traced = 0;
  last_program = index;
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
    if (found != program.states.end()) return found->second;
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
