#include "models/model.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "models/networks.h"

namespace olm2 {
namespace {

struct Preset {
  std::string_view name;
  int64_t n_layer = 0;
  int64_t n_head = 0;
  int64_t n_embd = 0;
};

// Source: Radford et al. 2019, table 2; the sizes are those of the published checkpoints.
constexpr std::array<Preset, 4> kPresets = {{{"gpt2-124m", 12, 12, 768},
                                             {"gpt2-355m", 24, 16, 1024},
                                             {"gpt2-774m", 36, 20, 1280},
                                             {"gpt2-1558m", 48, 25, 1600}}};

constexpr std::array<Model, 2> kModels = {{
    {"gpt2", "GPT-2: decoder-only transformer with learned positions (Radford et al. 2019)",
     build_gpt2, validate_gpt2},
    {"mlp", "embedding -> hidden layers -> logits: the smallest thing that trains", build_mlp,
     validate_mlp},
}};

template <typename Rows>
std::string joined_names(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

}  // namespace

std::vector<std::string_view> model_preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

ModelConfig model_preset(std::string_view name) {
  const auto* const found = std::ranges::find(kPresets, name, &Preset::name);
  if (found == kPresets.end()) {
    throw Error("model.preset: got '" + std::string(name) + "', expected one of " +
                joined_names(kPresets));
  }
  ModelConfig config;
  config.n_layer = found->n_layer;
  config.n_head = found->n_head;
  config.n_embd = found->n_embd;
  config.vocab_size = 50257;
  config.context_length = 1024;
  return config;
}

int64_t default_head_chunks(int64_t rows, int64_t width, int64_t vocabulary) {
  constexpr int64_t kLeastRows = 256;
  const int64_t wanted = (vocabulary + width - 1) / width;
  return std::max<int64_t>(1, std::min(wanted, rows / kLeastRows));
}

ValueId chunked_loss(Graph& graph, const NetworkShape& shape, int64_t width, OutputHead head) {
  const Shape& weight = graph.type(head.weight).shape;
  head.chunks = shape.head_chunks > 0 ? shape.head_chunks
                                      : default_head_chunks(shape.batch * shape.tokens, width,
                                                            weight[head.transposed ? 0 : 1]);
  return linear_cross_entropy(graph, "loss", head);
}

std::span<const Model> all_models() {
  return kModels;
}

const Model& find_model(std::string_view name) {
  const auto* const found = std::ranges::find(kModels, name, &Model::name);
  if (found == kModels.end()) {
    throw Error("model.type: got '" + std::string(name) + "', expected one of " +
                joined_names(kModels));
  }
  return *found;
}

}  // namespace olm2
