// GPT-2.  Source: Radford et al. 2019; sizes and names follow the published checkpoints.
#include <cmath>
#include <string>

#include "core/error.h"
#include "models/networks.h"
#include "models/parameters.h"
#include "ops/ops.h"

namespace olm2 {
namespace {

constexpr double kInitStd = 0.02;

struct Linear {
  ValueId weight;
  ValueId bias;
};
struct LayerNorm {
  ValueId weight;
  ValueId bias;
};
struct Block {
  LayerNorm ln_1;
  Linear c_attn;
  Linear attn_c_proj;
  LayerNorm ln_2;
  Linear c_fc;
  Linear mlp_c_proj;
};

LayerNorm declare_layer_norm(Parameters& parameters, const std::string& name, int64_t channels) {
  return {parameters.ones(name + ".weight", {channels}),
          parameters.zeros(name + ".bias", {channels})};
}

Linear declare_linear(Parameters& parameters, const std::string& name, int64_t in, int64_t out,
                      double std) {
  return {parameters.normal(name + ".weight", {in, out}, std),
          parameters.zeros(name + ".bias", {out})};
}

Block declare_block(Parameters& parameters, const ModelConfig& config, int64_t layer) {
  const std::string h = "h." + std::to_string(layer) + ".";
  const int64_t c = config.n_embd;
  // Projections into the residual stream start smaller, for there are two per layer.
  const double residual_std = kInitStd / std::sqrt(2.0 * static_cast<double>(config.n_layer));
  Block block;
  block.ln_1 = declare_layer_norm(parameters, h + "ln_1", c);
  block.c_attn = declare_linear(parameters, h + "attn.c_attn", c, 3 * c, kInitStd);
  block.attn_c_proj = declare_linear(parameters, h + "attn.c_proj", c, c, residual_std);
  block.ln_2 = declare_layer_norm(parameters, h + "ln_2", c);
  block.c_fc = declare_linear(parameters, h + "mlp.c_fc", c, 4 * c, kInitStd);
  block.mlp_c_proj = declare_linear(parameters, h + "mlp.c_proj", 4 * c, c, residual_std);
  return block;
}

// Appends the network's nodes.
struct Builder {
  Graph& graph;
  const ModelConfig& config;
  ValueId random_key;  // Invalid: no dropout.

  ValueId drop(const char* name, ValueId x) const {
    return random_key.valid() ? dropout(graph, name, x, random_key, config.dropout) : x;
  }

  // x + attention(layer_norm(x)), then + mlp(layer_norm(.)).
  ValueId block(ValueId x, const Block& p) const {
    const double attention_dropout = random_key.valid() ? config.dropout : 0.0;
    ValueId y = layer_norm(graph, "ln_1", x, p.ln_1.weight, p.ln_1.bias);
    y = linear(graph, "attn.c_attn", y, p.c_attn.weight, p.c_attn.bias);
    y = attention(graph, "attn", y, config.n_head, attention_dropout, random_key);
    y = linear(graph, "attn.c_proj", y, p.attn_c_proj.weight, p.attn_c_proj.bias);
    x = add(graph, "attn.residual", x, drop("attn.dropout", y));
    y = layer_norm(graph, "ln_2", x, p.ln_2.weight, p.ln_2.bias);
    y = linear(graph, "mlp.c_fc", y, p.c_fc.weight, p.c_fc.bias);
    y = gelu(graph, "mlp.gelu", y);
    y = linear(graph, "mlp.c_proj", y, p.mlp_c_proj.weight, p.mlp_c_proj.bias);
    return add(graph, "mlp.residual", x, drop("mlp.dropout", y));
  }
};

}  // namespace

void validate_gpt2(const ModelConfig& config) {
  const auto at_least_one = [](const char* key, int64_t number) {
    if (number >= 1) return;
    throw Error("model." + std::string(key) + ": got " + std::to_string(number) +
                ", expected at least 1");
  };
  at_least_one("n_layer", config.n_layer);
  at_least_one("n_head", config.n_head);
  at_least_one("n_embd", config.n_embd);
  at_least_one("vocab_size", config.vocab_size);
  at_least_one("context_length", config.context_length);
  at_least_one("pad_vocab_to", config.pad_vocab_to);
  if (config.n_embd % config.n_head != 0) {
    throw Error("model.n_embd: got " + std::to_string(config.n_embd) +
                ", expected a multiple of model.n_head = " + std::to_string(config.n_head));
  }
  if (!(config.dropout >= 0.0 && config.dropout < 1.0)) {
    throw Error("model.dropout: got " + std::to_string(config.dropout) +
                ", expected 0 <= dropout < 1");
  }
}

Network build_gpt2(Graph& graph, const ModelConfig& config, const NetworkShape& shape) {
  validate_gpt2(config);
  Parameters parameters(graph, config.dtype);
  const int64_t c = config.n_embd;
  const int64_t v = config.padded_vocab();
  const ValueId wte = parameters.normal("wte.weight", {v, c}, kInitStd);
  const ValueId wpe = parameters.normal("wpe.weight", {config.context_length, c}, kInitStd);
  std::vector<Block> blocks;
  for (int64_t l = 0; l < config.n_layer; ++l) {
    blocks.push_back(declare_block(parameters, config, l));
  }
  const LayerNorm ln_f = declare_layer_norm(parameters, "ln_f", c);
  const ValueId head =
      config.tie_embeddings ? wte : parameters.normal("lm_head.weight", {v, c}, kInitStd);

  const auto ids = [&](const char* name, Shape sizes) {
    return graph.add_source(name, {std::move(sizes), DType::i32}, Role::input);
  };
  const bool drops = shape.purpose == Purpose::training && config.dropout > 0;
  const ValueId input = ids("tokens", {shape.batch, shape.tokens});
  const Builder builder{graph, config, drops ? ids("random_key", {4}) : ValueId{}};

  ValueId x = builder.drop("drop", embedding(graph, "embedding", input, wte, wpe));
  for (int64_t l = 0; l < config.n_layer; ++l) {
    const Scope scope(graph, "h." + std::to_string(l));
    x = builder.block(x, blocks[static_cast<size_t>(l)]);
  }
  Network network{.parameters = parameters.take(), .loss = {}, .logits = {}};
  const bool samples = shape.purpose == Purpose::sampling;
  if (samples) x = select_position(graph, "last", x, ids("position", {shape.batch}));
  x = layer_norm(graph, "ln_f", x, ln_f.weight, ln_f.bias);
  if (samples) {
    network.logits = linear(graph, "logits", x, head, {}, /*transposed=*/true);
  } else {
    network.loss = chunked_loss(graph, shape, 4 * c,
                                {.x = x,
                                 .weight = head,
                                 .targets = ids("targets", {shape.batch, shape.tokens}),
                                 .classes = config.vocab_size,
                                 .transposed = true});
  }
  return network;
}

}  // namespace olm2
