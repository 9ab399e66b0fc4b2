#include "train/executor_program.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/happens_before.h"

namespace olm2 {
namespace {

// Which memory to overwrite before and after each instruction: a buffer before it is first written,
// and after its last use where one use comes after all others.  (Where two uses race to be the
// last, the next buffer at that place is overwritten before its first write.)
struct PoisonPlan {
  std::vector<std::vector<BufferId>> before;  // Per instruction.
  std::vector<std::vector<BufferId>> after;
};

// The moments at which each buffer is used, in list order.
std::vector<std::vector<int32_t>> uses_of_buffers(const Schedule& schedule) {
  std::vector<std::vector<int32_t>> uses(schedule.buffers.size());
  const auto use = [&](BufferId id, int32_t moment) {
    std::vector<int32_t>& moments = uses[static_cast<size_t>(id.index)];
    if (moments.empty() || moments.back() != moment) moments.push_back(moment);
  };
  const auto use_all = [&](const std::vector<Operand>& operands, int32_t moment) {
    for (const Operand& operand : operands) {
      for (const Piece& piece : operand.pieces) use(piece.buffer, moment);
    }
  };
  const auto count = static_cast<int32_t>(schedule.instructions.size());
  use_all(schedule.at_start, -1);
  for (int32_t i = 0; i < count; ++i) {
    const Instruction& instruction = schedule.instructions[static_cast<size_t>(i)];
    use_all(instruction.reads, i);
    use_all(instruction.writes, i);
    if (instruction.workspace.valid()) use(instruction.workspace, i);
  }
  use_all(schedule.at_end, count);
  return uses;
}

PoisonPlan plan_poison(const Schedule& schedule) {
  PoisonPlan plan;
  plan.before.resize(schedule.instructions.size());
  plan.after.resize(schedule.instructions.size());
  const HappensBefore order(schedule);
  const std::vector<std::vector<int32_t>> uses = uses_of_buffers(schedule);
  for (size_t b = 0; b < uses.size(); ++b) {
    if (uses[b].empty()) continue;
    const BufferId id{static_cast<int32_t>(b)};
    const int32_t first = uses[b].front();
    const int32_t last = uses[b].back();
    if (first != order.start()) plan.before[static_cast<size_t>(first)].push_back(id);
    const bool is_last = std::all_of(uses[b].begin(), uses[b].end() - 1,
                                     [&](int32_t use) { return order.precedes(use, last); });
    if (last != order.end() && last != order.start() && is_last) {
      plan.after[static_cast<size_t>(last)].push_back(id);
    }
  }
  return plan;
}

class Binder {
 public:
  Binder(const Problem& problem, const Schedule& schedule, const Arenas& arenas,
         const PrepareKernel& prepare, bool poison)
      : problem_(problem),
        graph_(*problem.graph),
        schedule_(schedule),
        arenas_(arenas),
        prepare_(prepare) {
    if (poison) poison_ = plan_poison(schedule);
  }

  BoundProgram bind() {
    program_.instructions = schedule_.instructions.size();
    program_.alignment = problem_.alignment;
    std::array<int32_t, kLaneCount> count{};
    for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
      const Instruction& instruction = schedule_.instructions[i];
      events_.push_back({instruction.lane, ++count[index_of(instruction.lane)]});
      if (instruction.kind == Instruction::Kind::compute) {
        program_.calls.push_back(call_of(i));
      } else {
        program_.copies.push_back(copy_of(i));
        program_.copied_bytes += program_.copies.back().bytes;
        program_.copy_instructions.push_back(static_cast<int32_t>(i));
      }
    }
    hand_out();
    return std::move(program_);
  }

 private:
  const Buffer& buffer(BufferId id) const {
    return schedule_.buffers[static_cast<size_t>(id.index)];
  }
  std::byte* address_of(BufferId id) const {
    return arenas_[index_of(buffer(id).tier)].at(buffer(id).offset);
  }
  Tensor tensor_of(const Operand& operand) const {
    return {.data = address_of(operand.pieces.at(0).buffer), .type = &graph_.type(operand.value)};
  }
  std::span<std::byte> span_of(const Operand& operand) const {
    const int64_t bytes = graph_.type(operand.value).bytes();
    return {address_of(operand.pieces.at(0).buffer), static_cast<size_t>(bytes)};
  }

  std::vector<Event> events_before(const Instruction& instruction) const {
    std::vector<Event> events;
    for (const int32_t wait : instruction.waits) {
      events.push_back(events_[static_cast<size_t>(wait)]);
    }
    return events;
  }
  std::vector<Poison> poisons(const std::vector<std::vector<BufferId>>& plan, size_t i) const {
    std::vector<Poison> found;
    if (plan.empty()) return found;
    for (const BufferId id : plan[i]) found.push_back({address_of(id), buffer(id).bytes});
    return found;
  }

  KernelCall call_of(size_t i) {
    const Instruction& instruction = schedule_.instructions[i];
    const Node& node = graph_.node(instruction.node);
    KernelCall call;
    call.instruction = static_cast<int32_t>(i);
    call.kernel = prepare_(graph_, node);
    for (const Operand& operand : instruction.reads) call.operands.push_back(tensor_of(operand));
    for (const Operand& operand : instruction.writes) call.operands.push_back(tensor_of(operand));
    call.inputs = instruction.reads.size();
    const int64_t planned = problem_.workspace[static_cast<size_t>(instruction.node.index)];
    if (call.kernel->workspace_bytes() > planned) {
      throw Error("executor: the kernel of " + node.name + " wants " +
                  std::to_string(call.kernel->workspace_bytes()) +
                  " bytes of scratch, the plan has " + std::to_string(planned) +
                  "; was its profile measured with another backend?");
    }
    if (instruction.workspace.valid()) {
      call.workspace = address_of(instruction.workspace);
      call.workspace_bytes = planned;
    }
    call.after = events_before(instruction);
    call.poison_before = poisons(poison_.before, i);
    call.poison_after = poisons(poison_.after, i);
    return call;
  }

  Copy copy_of(size_t i) const {
    const Instruction& instruction = schedule_.instructions[i];
    const Piece& source = instruction.reads.at(0).pieces.at(0);
    const Piece& target = instruction.writes.at(0).pieces.at(0);
    return {.lane = instruction.lane,
            .source = address_of(source.buffer),
            .target = address_of(target.buffer),
            .bytes = source.range.bytes(),
            .after = events_before(instruction),
            .poison_before = poisons(poison_.before, i),
            .poison_after = poisons(poison_.after, i)};
  }

  void hand_out() {
    for (const Operand& operand : schedule_.at_start) {
      const Value& value = graph_.value(operand.value);
      if (is_state(value.role)) {
        hand_out_state(operand);
      } else {
        program_.inputs[value.name] = span_of(operand);
      }
    }
    for (const Operand& operand : schedule_.at_end) {
      const ValueId home = graph_.value(operand.value).home;
      if (home.valid() && problem_.rest_of(home).at_end) hand_out_state(operand);
      if (std::ranges::find(problem_.results, operand.value) == problem_.results.end()) continue;
      program_.results[graph_.value(operand.value).name] = span_of(operand);
    }
  }
  void hand_out_state(const Operand& operand) {
    const ValueId home = graph_.value(operand.value).home;
    const StateRest rest = problem_.rest_of(home);
    program_.states[graph_.value(home).name] = {.tier = rest.tier,
                                                .bytes = span_of(operand),
                                                .at_start = rest.at_start,
                                                .at_end = rest.at_end};
  }

  const Problem& problem_;
  const Graph& graph_;
  const Schedule& schedule_;
  const Arenas& arenas_;
  const PrepareKernel& prepare_;
  PoisonPlan poison_;
  std::vector<Event> events_;  // Per instruction: that it has finished.
  BoundProgram program_;
};

}  // namespace

void KernelCall::run() const {
  const std::span<const Tensor> all(operands);
  apply(poison_before);
  kernel->run(all.first(inputs), all.subspan(inputs), workspace);
  apply(poison_after);
}

BoundProgram bind_program(const Problem& problem, const Schedule& schedule, const Arenas& arenas,
                          const PrepareKernel& prepare, bool poison) {
  return Binder(problem, schedule, arenas, prepare, poison).bind();
}

void Footprint::add(const BoundProgram& program, const KernelCall& call) {
  for (const Tensor& tensor : call.operands) {
    add(Tier::device, tensor.data, padded(tensor.type->bytes(), program.alignment));
  }
  if (call.workspace != nullptr) {
    add(Tier::device, call.workspace, padded(call.workspace_bytes, program.alignment));
  }
}

void Footprint::add_surroundings(const BoundProgram& program) {
  for (const Copy& copy : program.copies) {
    const bool is_out = copy.lane == Lane::device_to_host;
    const int64_t bytes = padded(copy.bytes, program.alignment);
    add(is_out ? Tier::device : Tier::host, copy.source, bytes);
    add(is_out ? Tier::host : Tier::device, copy.target, bytes);
  }
  const auto add_span = [&](Tier tier, std::span<std::byte> bytes) {
    add(tier, bytes.data(), padded(static_cast<int64_t>(bytes.size()), program.alignment));
  };
  for (const auto* handed : {&program.inputs, &program.results}) {
    for (const auto& [name, bytes] : *handed) add_span(Tier::device, bytes);
  }
  for (const auto& [name, state] : program.states) add_span(state.tier, state.bytes);
  for (const RestingState& state : program.untouched) add_span(state.tier, state.bytes);
}

}  // namespace olm2
