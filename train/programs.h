// The graphs of a run: one program per kind of step, all over one set of state.
//
//   grad_accumulation 1:   step
//   grad_accumulation 2:   first, last
//   more:                  first, middle (again and again), last
//   and evaluation, sampling where asked for.
//
// `first` writes gradients, `middle` and `last` add to them, `last` and `step` update the
// parameters: nothing is ever set to zero, and every program ends in the state the next starts
// from.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/graph.h"
#include "core/schedule.h"
#include "models/model.h"
#include "ops/ops.h"

namespace olm2 {

struct RunShape {
  int64_t batch = 0;   // Sequences per micro batch.
  int64_t tokens = 0;  // Tokens per sequence.
  int64_t grad_accumulation = 1;
  int64_t head_chunks = 0;  // As NetworkShape has it.
  bool evaluation = false;
  bool sampling = false;  // One sequence at a time.
};

struct NamedParameter {
  std::string name;
  ValueType type;
  ParameterInit init;
};

// A parameter, gradient or moment, whichever programs know it.
struct StateSource {
  std::string name;
  Role role = Role::parameter;
  int64_t bytes = 0;  // Padded.
};

struct RunPrograms {
  std::vector<Program> programs;
  int64_t grad_accumulation = 1;
  std::vector<NamedParameter> parameters;
  // Where each state source lives when all of them stay on the device, the same in every program:
  // parameters, gradients, moments.
  std::unordered_map<std::string, int64_t> state_offset;
  std::vector<StateSource> sources;  // In this order.
  int64_t state_bytes = 0;
};

// Results: "loss" of every program but sampling, "grad_norm" of step and last, "logits" of
// sampling. The loss is a mean over its micro batch; gradients are those of the mean over all micro
// batches.
RunPrograms build_programs(const ModelConfig& config, const RunShape& shape, const AdamW& optimizer,
                           int64_t alignment);

// Only a sampling program, of one sequence: parameters are its whole state.
RunPrograms sampling_programs(const ModelConfig& config, int64_t tokens, int64_t alignment);

// Program number `micro` of a step's micro batches.
std::string program_name(int64_t micro, int64_t grad_accumulation);

// Everything of a Problem that does not depend on a profile or a budget, all state on the device.
Problem make_problem(const RunPrograms& run, const Program& program, int64_t alignment);

}  // namespace olm2
