// The build functions behind the rows of the table in model.cpp.
#pragma once

#include "models/model.h"

namespace olm2 {

Network build_gpt2(Graph& graph, const ModelConfig& config, int64_t batch, int64_t tokens,
                   Purpose purpose);
void validate_gpt2(const ModelConfig& config);

Network build_mlp(Graph& graph, const ModelConfig& config, int64_t batch, int64_t tokens,
                  Purpose purpose);
void validate_mlp(const ModelConfig& config);

}  // namespace olm2
