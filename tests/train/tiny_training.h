// A training step small enough to be run under hundreds of plans.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "core/autograd.h"
#include "ops/ops.h"
#include "planner/planner.h"
#include "train/executor.h"

namespace olm2 {

using Random = std::mt19937;

// Two linear layers with a gelu between them, trained by AdamW.  Odd sizes.
struct TinyTraining {
  Graph graph;
  Problem problem;

  TinyTraining() {
    const ValueId x = graph.add_source("x", {.shape = {6, 19}}, Role::input);
    const ValueId targets =
        graph.add_source("targets", {.shape = {6}, .dtype = DType::i32}, Role::input);
    const ValueId rates = graph.add_source("rates", {.shape = {3}}, Role::input);
    std::vector<ValueId> parameters;
    const auto parameter = [&](const char* name, Shape shape) {
      parameters.push_back(graph.add_source(name, {.shape = std::move(shape)}, Role::parameter));
      return parameters.back();
    };
    const ValueId w1 = parameter("w1", {19, 37});
    const ValueId b1 = parameter("b1", {37});
    const ValueId w2 = parameter("w2", {37, 11});
    const ValueId b2 = parameter("b2", {11});
    const ValueId hidden = gelu(graph, "act", linear(graph, "fc1", x, w1, b1));
    const ValueId logits = linear(graph, "fc2", hidden, w2, b2);
    const ValueId loss = softmax_cross_entropy(graph, "loss", logits, targets, 11);
    add_updates(parameters, loss, rates);
    make_problem(loss);
  }

 private:
  void add_updates(const std::vector<ValueId>& parameters, ValueId loss, ValueId rates) {
    std::vector<GradTarget> wanted;
    for (const ValueId parameter : parameters) {
      const std::string name = graph.value(parameter).name + ".grad";
      const ValueId home = graph.add_source(name, graph.type(parameter), Role::gradient);
      wanted.push_back({.value = parameter, .home = home});
    }
    const std::vector<ValueId> gradients = differentiate(graph, loss, wanted);
    graph.set_phase(Phase::update);
    const ValueId norm = global_norm(graph, "norm", gradients);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string name = graph.value(parameters[i]).name;
      const ValueType type = graph.type(parameters[i]);
      const ValueId m = graph.add_source(name + ".m", type, Role::moment);
      const ValueId v = graph.add_source(name + ".v", type, Role::moment);
      const NodeId update =
          adamw(graph, name + ".update", parameters[i], gradients[i], m, v, norm, rates, {});
      const std::vector<ValueId> outputs = graph.node(update).outputs;
      graph.set_home(outputs[0], parameters[i]);
      graph.set_home(outputs[1], m);
      graph.set_home(outputs[2], v);
    }
  }

  void make_problem(ValueId loss) {
    problem.graph = &graph;
    problem.results = {loss};
    problem.seconds.assign(graph.nodes().size(), 1e-3);
    problem.workspace.assign(graph.nodes().size(), 0);
    problem.device_to_host = {.bytes_per_s = 1e9};
    problem.host_to_device = {.bytes_per_s = 1e9};
    problem.budget = {int64_t{1} << 40, int64_t{1} << 40, 0};
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const Value& value = graph.values()[i];
      const bool is_source = is_state(value.role) && !value.producer.valid();
      problem.state_offset.push_back(is_source ? problem.state_bytes : -1);
      if (is_source) problem.state_bytes += problem.padded_bytes({static_cast<int32_t>(i)});
    }
  }
};

// Every node once, in order; with a seed, values also travel to the host and back, whole or in
// part, at once or after one more use, and the first layer is computed again.
Plan make_plan(const Problem& problem, uint32_t seed);

CheckedSchedule schedule_of(const Problem& problem, uint32_t plan_seed, uint64_t place_seed = 0);

std::vector<ExecutableProgram> one_program(const Problem& problem, CheckedSchedule schedule);

void write_floats(std::span<std::byte> bytes, Random& random, float scale);
void write_inputs(Executor& executor, size_t program, int step);

// All bytes that three steps leave behind: losses, parameters, gradients and moments.
std::vector<std::byte> train(Executor& executor, const Graph& graph);
std::vector<std::byte> train(const TinyTraining& tiny, CheckedSchedule schedule,
                             const ExecutorOptions& options);

float first_float(std::span<const std::byte> bytes);

}  // namespace olm2
