#include "tests/core/schedule_maker.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/op.h"

namespace olm2::testing {
namespace {

constexpr int64_t kAlignment = 64;

std::vector<ValueType> infer_mix(const Attrs& attrs, std::span<const ValueType> in) {
  return std::vector<ValueType>(static_cast<size_t>(attr_or(attrs, "outputs", 1)), in[0]);
}
std::vector<InPlace> in_place_mix(const Attrs& attrs, size_t) {
  if (attr_or(attrs, "in_place", 0) == 0) return {};
  return {{.output = 0, .input = 0}};
}
const OpDef kMix{.name = "check_test_mix",
                 .summary = "mixes its inputs",
                 .infer = infer_mix,
                 .in_place = in_place_mix};
const RegisterOp kRegister{kMix};

bool coin(Random& random, size_t sides = 2) {
  return pick(random, sides) == 0;
}

// Sizes of one, one and a bit, two and five units of alignment.
ValueType random_type(Random& random) {
  constexpr int64_t kElements[] = {16, 20, 32, 75};
  return {.shape = {kElements[pick(random, std::size(kElements))]}, .dtype = DType::f32};
}

std::unique_ptr<Graph> make_graph(const MakerOptions& options, Random& random) {
  auto graph = std::make_unique<Graph>();
  std::vector<ValueId> values;
  std::vector<ValueId> states;
  for (size_t i = 0; i < options.inputs; ++i) {
    values.push_back(
        graph->add_source("input" + std::to_string(i), random_type(random), Role::input));
  }
  for (size_t i = 0; i < options.states; ++i) {
    states.push_back(
        graph->add_source("state" + std::to_string(i), random_type(random), Role::parameter));
    values.push_back(states.back());
  }
  for (size_t i = 0; i < options.nodes; ++i) {
    std::vector<ValueId> inputs = {coin(random) ? values.back()
                                                : values[pick(random, values.size())]};
    if (coin(random)) inputs.push_back(values[pick(random, values.size())]);
    const NodeId node =
        graph->add("check_test_mix", "n" + std::to_string(i), inputs,
                   {{"outputs", coin(random, 4) ? 2 : 1}, {"in_place", coin(random) ? 1 : 0}});
    for (const ValueId output : graph->node(node).outputs) values.push_back(output);
  }
  // Every state source is updated at the very end, when nobody reads the old version again.
  for (size_t i = 0; i < states.size(); ++i) {
    const ValueId update = graph->add_value("check_test_mix", "update" + std::to_string(i),
                                            {states[i], values.back()}, {{"in_place", 1}});
    graph->set_home(update, states[i]);
  }
  return graph;
}

// Where the parts of a value are; empty: nowhere.
struct Places {
  std::vector<Piece> device;
  std::vector<Piece> host;
};

class Maker {
 public:
  Maker(const Graph& graph, Problem& problem, Random& random)
      : graph_(graph), problem_(problem), random_(random), places_(graph.values().size()) {}

  Schedule make() {
    place_sources();
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId node{static_cast<int32_t>(i)};
      if (!ready_for_updates_ && is_update(node)) prepare_updates(i);
      compute(node, true);
      if (!ready_for_updates_) forget_some();
    }
    if (!ready_for_updates_) prepare_updates(graph_.nodes().size());
    for (const ValueId result : problem_.results) {
      schedule_.at_end.push_back({result, places(result).device});
    }
    for (size_t i = 0; i < graph_.values().size(); ++i) {
      const Value& value = graph_.values()[i];
      if (!is_state(value.role) || value.producer.valid()) continue;
      const ValueId newest = graph_.newest({static_cast<int32_t>(i)});
      schedule_.at_end.push_back({newest, places(newest).device});
    }
    add_waits();
    return std::move(schedule_);
  }

 private:
  Places& places(ValueId value) { return places_[static_cast<size_t>(value.index)]; }
  bool is_result(ValueId value) const {
    return std::ranges::find(problem_.results, value) != problem_.results.end();
  }

  bool is_update(NodeId node) const {
    return graph_.value(graph_.node(node).outputs[0]).home.valid();
  }

  // Updates overwrite state for good: whatever is still wanted must be there before.
  void prepare_updates(size_t first_update) {
    ready_for_updates_ = true;
    for (const ValueId result : problem_.results) bring(result);
    for (size_t i = first_update; i < graph_.nodes().size(); ++i) {
      for (const ValueId input : graph_.nodes()[i].inputs) bring(input);
    }
  }

  // A place free of everything alive: a random one, else behind all others.
  int64_t free_offset(Tier tier, int64_t bytes) {
    const int64_t floor = tier == Tier::device ? problem_.state_bytes : 0;
    int64_t end = floor;
    for (const int32_t i : alive_) {
      const Buffer& buffer = schedule_.buffers[static_cast<size_t>(i)];
      if (buffer.tier == tier) end = std::max(end, buffer.offset + buffer.bytes);
    }
    const auto is_free = [&](int64_t offset) {
      return std::ranges::none_of(alive_, [&](int32_t i) {
        const Buffer& buffer = schedule_.buffers[static_cast<size_t>(i)];
        return buffer.tier == tier && buffer.offset < offset + bytes &&
               offset < buffer.offset + buffer.bytes;
      });
    };
    for (int attempt = 0; attempt < 8; ++attempt) {
      const auto choices = static_cast<size_t>((end - floor) / kAlignment + 1);
      const int64_t offset = floor + static_cast<int64_t>(pick(random_, choices)) * kAlignment;
      if (is_free(offset)) return offset;
    }
    return end;
  }

  BufferId open(std::string name, Tier tier, int64_t offset, int64_t bytes) {
    const BufferId id{static_cast<int32_t>(schedule_.buffers.size())};
    schedule_.buffers.push_back({.name = std::move(name),
                                 .tier = tier,
                                 .offset = offset,
                                 .bytes = padded(bytes, kAlignment)});
    alive_.push_back(id.index);
    int64_t& arena = schedule_.arena[static_cast<size_t>(tier)];
    arena = std::max(arena, offset + padded(bytes, kAlignment));
    return id;
  }

  // Buffers for `value` at neighbouring addresses, in one part or in two.
  std::vector<Piece> open_pieces(ValueId value, Tier tier, const std::vector<Range>& ranges) {
    int64_t offset = free_offset(tier, problem_.padded_bytes(value));
    std::vector<Piece> pieces;
    for (const Range range : ranges) {
      pieces.push_back({open(graph_.value(value).name, tier, offset, range.bytes()), range});
      offset += range.bytes();
    }
    return pieces;
  }

  std::vector<Range> random_ranges(ValueId value) {
    const int64_t bytes = graph_.type(value).bytes();
    if (bytes <= kAlignment || is_result(value) || coin(random_)) return {{0, bytes}};
    return {{0, kAlignment}, {kAlignment, bytes}};
  }

  void close(std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) std::erase(alive_, piece.buffer.index);
    pieces.clear();
  }

  void place_sources() {
    for (size_t i = 0; i < graph_.values().size(); ++i) {
      const Value& value = graph_.values()[i];
      const ValueId id{static_cast<int32_t>(i)};
      if (value.producer.valid()) continue;
      const int64_t bytes = value.type.bytes();
      const int64_t offset =
          is_state(value.role) ? problem_.state_offset[i] : free_offset(Tier::device, bytes);
      places(id).device = {{open(value.name, Tier::device, offset, bytes), {0, bytes}}};
      schedule_.at_start.push_back({id, places(id).device});
    }
  }

  void copy(ValueId value, const Piece& from, const Piece& to, Lane lane) {
    Instruction instruction;
    instruction.kind = Instruction::Kind::copy;
    instruction.lane = lane;
    instruction.reads.push_back({value, {from}});
    instruction.writes.push_back({value, {to}});
    schedule_.instructions.push_back(std::move(instruction));
  }

  std::vector<Range> ranges_of(const std::vector<Piece>& pieces) {
    std::vector<Range> ranges;
    for (const Piece& piece : pieces) ranges.push_back(piece.range);
    return ranges;
  }

  // Has the value on the device: from the host, or by computing it again.
  void bring(ValueId value) {
    Places& places = this->places(value);
    if (!places.device.empty()) return;
    if (places.host.empty()) {
      compute(graph_.value(value).producer, false);
      return;
    }
    places.device = open_pieces(value, Tier::device, ranges_of(places.host));
    for (size_t k = 0; k < places.host.size(); ++k) {
      copy(value, places.host[k], places.device[k], Lane::host_to_device);
    }
    if (coin(random_)) close(places.host);
  }

  // `may_reuse`: nothing that is being gathered for another node can get lost.
  void compute(NodeId id, bool may_reuse) {
    const Node& node = graph_.node(id);
    for (const ValueId input : node.inputs) bring(input);
    Instruction instruction;
    instruction.node = id;
    for (const ValueId input : node.inputs) {
      instruction.reads.push_back({input, places(input).device});
    }
    if (const int64_t bytes = problem_.workspace[static_cast<size_t>(id.index)]; bytes > 0) {
      instruction.workspace =
          open("workspace of " + node.name, Tier::device, free_offset(Tier::device, bytes), bytes);
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      write_output(node, k, may_reuse, instruction);
    }
    if (instruction.workspace.valid()) std::erase(alive_, instruction.workspace.index);
    schedule_.instructions.push_back(std::move(instruction));
  }

  void write_output(const Node& node, size_t k, bool may_reuse, Instruction& instruction) {
    const ValueId output = node.outputs[k];
    const Value& value = graph_.value(output);
    Places& places = this->places(output);
    const ValueId first = node.inputs[0];
    if (value.home.valid()) {
      places.device = this->places(value.home).device;
    } else if (k == 0 && may_reuse && may_overwrite(node, output)) {
      places.device = std::exchange(this->places(first).device, {});
    } else if (places.device.empty()) {
      places.device = open_pieces(output, Tier::device, random_ranges(output));
    }  // Else: made again while it is still there, at the same place.
    instruction.writes.push_back({output, places.device});
  }

  // The first input may be lost: it is elsewhere, or can be made again, or nobody wants it.
  bool may_overwrite(const Node& node, ValueId output) {
    const ValueId input = node.inputs[0];
    const Value& value = graph_.value(input);
    if (in_place_of(node).empty() || is_state(value.role) || !value.producer.valid()) return false;
    if (!places(output).device.empty() || is_result(input) || is_result(output)) return false;
    if (node.inputs.size() > 1 && node.inputs[1] == input) return false;
    return coin(random_);
  }

  // Sends some values to the host and drops others from the device.
  void forget_some() {
    for (size_t i = 0; i < graph_.values().size(); ++i) {
      const ValueId value{static_cast<int32_t>(i)};
      Places& places = this->places(value);
      const bool made = graph_.value(value).producer.valid() && !is_state(graph_.value(value).role);
      if (places.device.empty() || !made || coin(random_)) continue;
      if (places.host.empty() && coin(random_)) {
        places.host = open_pieces(value, Tier::host, ranges_of(places.device));
        for (size_t k = 0; k < places.host.size(); ++k) {
          copy(value, places.device[k], places.host[k], Lane::device_to_host);
        }
      }
      close(places.device);
    }
  }

  struct Touch {
    Tier tier;
    Range bytes;
    bool writes;
  };
  std::vector<Touch> touches(const Instruction& instruction) const {
    std::vector<Touch> found;
    const auto add = [&](BufferId id, bool writes) {
      const Buffer& buffer = schedule_.buffers[static_cast<size_t>(id.index)];
      found.push_back({buffer.tier, {buffer.offset, buffer.offset + buffer.bytes}, writes});
    };
    for (const Operand& operand : instruction.reads) {
      for (const Piece& piece : operand.pieces) add(piece.buffer, false);
    }
    for (const Operand& operand : instruction.writes) {
      for (const Piece& piece : operand.pieces) add(piece.buffer, true);
    }
    if (instruction.workspace.valid()) add(instruction.workspace, true);
    return found;
  }

  bool disturb(const Instruction& a, const Instruction& b) const {
    for (const Touch& x : touches(a)) {
      for (const Touch& y : touches(b)) {
        if (x.tier == y.tier && (x.writes || y.writes) && x.bytes.begin < y.bytes.end &&
            y.bytes.begin < x.bytes.end) {
          return true;
        }
      }
    }
    return false;
  }

  // Per other lane, the last earlier instruction that must not run at the same time.
  void add_waits() {
    for (size_t j = 0; j < schedule_.instructions.size(); ++j) {
      Instruction& instruction = schedule_.instructions[j];
      std::map<Lane, int32_t> last;
      for (size_t i = 0; i < j; ++i) {
        const Instruction& earlier = schedule_.instructions[i];
        if (earlier.lane != instruction.lane && disturb(earlier, instruction)) {
          last[earlier.lane] = static_cast<int32_t>(i);
        }
      }
      for (const auto& [lane, index] : last) instruction.waits.push_back(index);
    }
  }

  const Graph& graph_;
  Problem& problem_;
  Random& random_;
  std::vector<Places> places_;  // Per value.
  std::vector<int32_t> alive_;  // Buffers in use.
  bool ready_for_updates_ = false;
  Schedule schedule_;
};

}  // namespace

MadeSchedule make_schedule(const MakerOptions& options, Random& random) {
  MadeSchedule made;
  made.graph = make_graph(options, random);
  Problem& problem = made.problem;
  problem.graph = made.graph.get();
  problem.alignment = kAlignment;
  problem.device_to_host.bytes_per_s = 1e9;
  problem.host_to_device.bytes_per_s = 1e9;
  problem.state_offset.assign(made.graph->values().size(), -1);
  for (size_t i = 0; i < made.graph->values().size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    const Value& value = made.graph->value(id);
    if (is_state(value.role) && !value.producer.valid()) {
      problem.state_offset[i] = problem.state_bytes;
      problem.state_bytes += problem.padded_bytes(id);
    } else if (value.producer.valid() && !value.home.valid() && coin(random, 4)) {
      problem.results.push_back(id);
    }
  }
  for (size_t i = 0; i < made.graph->nodes().size(); ++i) {
    problem.seconds.push_back(1e-3);
    problem.workspace.push_back(coin(random, 3) ? 100 : 0);
  }
  made.schedule = Maker(*made.graph, problem, random).make();
  problem.budget = made.schedule.arena;
  return made;
}

}  // namespace olm2::testing
