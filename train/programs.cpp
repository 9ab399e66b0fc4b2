#include "train/programs.h"

#include "core/autograd.h"
#include "core/error.h"
#include "train/optimizer.h"

namespace olm2 {
namespace {

NetworkShape network_shape(const RunShape& shape, Purpose purpose) {
  return {.batch = purpose == Purpose::sampling ? 1 : shape.batch,
          .tokens = shape.tokens,
          .purpose = purpose,
          .head_chunks = shape.head_chunks};
}

Program training_program(const ModelConfig& config, const RunShape& shape, const AdamW& optimizer,
                         const std::string& name) {
  Program program{.name = name, .graph = {}, .results = {}};
  Graph& graph = program.graph;
  const Network network =
      find_model(config.type).build(graph, config, network_shape(shape, Purpose::training));
  declare_gradients(graph, network.parameters);
  const bool accumulate = name == "middle" || name == "last";
  std::vector<GradTarget> targets;
  for (const Parameter& p : network.parameters) {
    targets.push_back({.value = p.value,
                       .home = graph.find(gradient_name(graph.value(p.value).name)),
                       .accumulate = accumulate});
  }
  differentiate(graph, network.loss, targets, 1.0 / static_cast<double>(shape.grad_accumulation));
  program.results.push_back(network.loss);
  if (name == "step" || name == "last") {
    program.results.push_back(add_optimizer(graph, network.parameters, optimizer));
  }
  return program;
}

Program forward_program(const ModelConfig& config, const RunShape& shape, Purpose purpose,
                        const std::string& name) {
  Program program{.name = name, .graph = {}, .results = {}};
  const Network network =
      find_model(config.type).build(program.graph, config, network_shape(shape, purpose));
  program.results.push_back(purpose == Purpose::sampling ? network.logits : network.loss);
  return program;
}

// Gives every state source of `graph` an address after those already given.
void lay_out_state(const Graph& graph, int64_t alignment, RunPrograms& run) {
  for (const Role role : {Role::parameter, Role::gradient, Role::moment}) {
    for (const Value& value : graph.values()) {
      if (value.producer.valid() || value.role != role) continue;
      if (!run.state_offset.emplace(value.name, run.state_bytes).second) continue;
      run.sources.push_back({value.name, role, padded(value.type.bytes(), alignment)});
      run.state_bytes += run.sources.back().bytes;
    }
  }
}

void list_parameters(const ModelConfig& config, int64_t tokens, RunPrograms& run) {
  Graph graph;
  const Network network =
      find_model(config.type)
          .build(graph, config, network_shape({.tokens = tokens}, Purpose::sampling));
  for (const Parameter& p : network.parameters) {
    run.parameters.push_back({graph.value(p.value).name, graph.type(p.value), p.init});
  }
}

}  // namespace

std::string program_name(int64_t micro, int64_t grad_accumulation) {
  if (grad_accumulation == 1) return "step";
  if (micro == 0) return "first";
  return micro + 1 == grad_accumulation ? "last" : "middle";
}

RunPrograms build_programs(const ModelConfig& config, const RunShape& shape, const AdamW& optimizer,
                           int64_t alignment) {
  RunPrograms run;
  run.grad_accumulation = shape.grad_accumulation;
  const Program update = training_program(
      config, shape, optimizer, program_name(shape.grad_accumulation - 1, shape.grad_accumulation));
  lay_out_state(update.graph, alignment, run);

  if (shape.grad_accumulation > 1) {
    run.programs.push_back(training_program(config, shape, optimizer, "first"));
  }
  if (shape.grad_accumulation > 2) {
    run.programs.push_back(training_program(config, shape, optimizer, "middle"));
  }
  run.programs.push_back(update);
  if (shape.evaluation) {
    run.programs.push_back(forward_program(config, shape, Purpose::evaluation, "evaluation"));
  }
  if (shape.sampling) {
    run.programs.push_back(forward_program(config, shape, Purpose::sampling, "sampling"));
  }

  list_parameters(config, shape.tokens, run);
  return run;
}

RunPrograms sampling_programs(const ModelConfig& config, int64_t tokens, int64_t alignment) {
  RunPrograms run;
  run.programs.push_back(
      forward_program(config, {.tokens = tokens}, Purpose::sampling, "sampling"));
  lay_out_state(run.programs.back().graph, alignment, run);
  list_parameters(config, tokens, run);
  return run;
}

Problem make_problem(const RunPrograms& run, const Program& program, int64_t alignment) {
  Problem problem;
  problem.graph = &program.graph;
  problem.results = program.results;
  problem.alignment = alignment;
  problem.state_bytes = run.state_bytes;
  for (const Value& value : program.graph.values()) {
    const bool is_source = !value.producer.valid() && is_state(value.role);
    problem.state_offset.push_back(is_source ? run.state_offset.at(value.name) : -1);
  }
  problem.seconds.assign(program.graph.nodes().size(), 0.0);
  problem.workspace.assign(program.graph.nodes().size(), 0);
  return problem;
}

}  // namespace olm2
