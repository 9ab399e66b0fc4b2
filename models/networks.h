// The build functions behind the rows of the table in model.cpp.
#pragma once

#include "models/model.h"
#include "ops/ops.h"

namespace olm2 {

// The head of a training or evaluation network and its loss, in the chunks of `shape`.
//   x (B, T, C); width: columns of the widest activation; head: weight, bias, how it is stored
ValueId chunked_loss(Graph& graph, const NetworkShape& shape, int64_t width, OutputHead head);

Network build_gpt2(Graph& graph, const ModelConfig& config, const NetworkShape& shape);
void validate_gpt2(const ModelConfig& config);

Network build_mlp(Graph& graph, const ModelConfig& config, const NetworkShape& shape);
void validate_mlp(const ModelConfig& config);

}  // namespace olm2
