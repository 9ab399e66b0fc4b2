// How many parameters there are, and which of them decay.
#include <gtest/gtest.h>

#include "train/planning.h"

namespace olm2 {
namespace {

RunPrograms gpt2_124m() {
  return build_programs(model_preset("gpt2-124m"), {.batch = 1, .tokens = 8}, {}, 64);
}

TEST(Parameters, OfGpt2AreCountedAsPublished) {
  int64_t count = 0;
  for (const NamedParameter& p : gpt2_124m().parameters) count += element_count(p.type.shape);
  EXPECT_EQ(count, 124'439'808);
}

// Biases and the weights of layer_norm do not; a tied head decays once, as the embedding it is.
TEST(Parameters, OfTwoDimensionsAndMoreDecayOnceAndNoOthersDo) {
  const RunPrograms run = gpt2_124m();
  const Graph& graph = run.programs.at(0).graph;
  size_t updates = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "adamw") continue;
    ++updates;
    const bool is_matrix = graph.type(node.inputs.at(0)).shape.size() >= 2;
    EXPECT_EQ(attr_or(node.attrs, "weight_decay", -1), is_matrix ? AdamW{}.weight_decay : 0.0)
        << node.name;
  }
  EXPECT_EQ(updates, run.parameters.size());
  EXPECT_GT(AdamW{}.weight_decay, 0);
}

}  // namespace
}  // namespace olm2
