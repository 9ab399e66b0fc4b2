#include "random_blocks.h"

#include <algorithm>

#include "planner/planner.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

void add_once(std::vector<ValueId>& values, ValueId value) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(value);
}

}  // namespace

RandomBlocks::RandomBlocks(uint64_t seed, const BlockRules& rules) : random_(seed), rules_(rules) {
  const int64_t block = rules.elements * byte_size(DType::f32);
  std::vector<std::vector<ValueId>> reads(1);
  if (rules.input) reads[0] = {graph_.add_source("x", {{rules.elements}}, Role::input)};
  const int forward = rules.lean ? 3 : 2 + below(2);
  std::vector<ValueId> made;
  for (int i = 0; i < forward; ++i) {
    if (i > 0) reads.push_back({made.back()});
    if (i > 1 && below(3) == 0) add_once(reads.back(), made[0]);
    made.push_back(add_node("f" + std::to_string(i), reads.back()));
  }
  ValueId last = made.back();
  if (rules.lean) last = toy::add(graph_, "loss", {last}, rules.elements);
  graph_.set_phase(Phase::backward);
  for (int i = forward; i-- > 0;) {
    std::vector<ValueId> inputs = reads[static_cast<size_t>(i)];
    const bool reads_own = below(5) > 0;
    if (rules.lean && reads_own) inputs.clear();
    add_once(inputs, last);
    if (reads_own) add_once(inputs, made[static_cast<size_t>(i)]);
    last = add_node("b" + std::to_string(i), inputs);
  }
  problem_ = toy::problem_of(graph_, {last});
  for (double& seconds : problem_.seconds) seconds = 1 + below(rules.most_seconds);
  if (rules.workspace) {
    for (int64_t& bytes : problem_.workspace) bytes = block * below(2);
  }
  problem_.device_to_host.bytes_per_s = static_cast<double>(block);
  problem_.host_to_device = problem_.device_to_host;
  // The largest power of two that blocks are multiples of.
  problem_.alignment = std::min<int64_t>(64, block & -block);
  problem_.budget = {proven_minimum(problem_).bytes + block * below(3), block * (1 + below(5)), 0};
}

ValueId RandomBlocks::add_node(const std::string& name, const std::vector<ValueId>& inputs) {
  const bool in_place = below(3) == 0;
  const int64_t elements = rules_.elements * (1 + below(rules_.most_blocks));
  return toy::add(graph_, name, inputs, elements, in_place && rules_.in_place);
}

}  // namespace olm2
