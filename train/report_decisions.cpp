#include "train/report_decisions.h"

#include <algorithm>

#include "train/tensor_class.h"

namespace olm2 {
namespace {

// Per value of the graph.
struct Fate {
  bool is_read_later = false;
  int times_made = 0;
  int64_t sent_bytes = 0;
  double copy_s = 0;
};

double copy_seconds(const Problem& problem, const Step& step) {
  const LinkProfile& link = step.to == Tier::host ? problem.device_to_host : problem.host_to_device;
  if (link.bytes_per_s <= 0) return 0;
  return link.latency_s + static_cast<double>(step.range.bytes()) / link.bytes_per_s;
}

std::vector<Fate> fates_of(const Problem& problem, const Plan& plan) {
  std::vector<Fate> fates(problem.graph->values().size());
  const auto fate = [&](ValueId value) -> Fate& { return fates[static_cast<size_t>(value.index)]; };
  for (const Node& node : problem.graph->nodes()) {
    if (node.phase == Phase::forward) continue;
    for (const ValueId input : node.inputs) fate(input).is_read_later = true;
  }
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::compute) {
      for (const ValueId output : problem.graph->node(step.node).outputs) ++fate(output).times_made;
    } else if (step.kind == Step::Kind::copy) {
      fate(step.value).copy_s += copy_seconds(problem, step);
      if (step.from == Tier::device) fate(step.value).sent_bytes += step.range.bytes();
    }
  }
  return fates;
}

}  // namespace

std::vector<ClassDecision> decisions_by_class(const Problem& problem, const Plan& plan) {
  const std::vector<Fate> fates = fates_of(problem, plan);
  std::vector<ClassDecision> classes;
  for (size_t v = 0; v < fates.size(); ++v) {
    const Value& value = problem.graph->values()[v];
    const Fate& fate = fates[v];
    if (value.role != Role::activation || value.home.valid() || !value.producer.valid()) continue;
    const Node& producer = problem.graph->node(value.producer);
    const bool is_again = fate.times_made > 1;
    const bool matters = fate.is_read_later || is_again || fate.sent_bytes > 0;
    if (producer.phase != Phase::forward || !matters) continue;
    const std::string name = class_of_name(value.name);
    auto row = std::ranges::find(classes, name, &ClassDecision::name);
    if (row == classes.end()) row = classes.insert(row, {.name = name});
    const int64_t bytes = value.type.bytes();
    ++row->tensors;
    row->bytes += bytes;
    row->copy_s += fate.copy_s;
    if (is_again) {
      row->again_bytes += bytes;
      const bool is_first = producer.outputs.front().index == static_cast<int32_t>(v);
      const double once_s = problem.run_seconds(static_cast<size_t>(value.producer.index), true);
      if (is_first) row->again_s += (fate.times_made - 1) * once_s;
    } else {
      row->moved_bytes += fate.sent_bytes;
      row->kept_bytes += bytes - fate.sent_bytes;
    }
  }
  return classes;
}

}  // namespace olm2
