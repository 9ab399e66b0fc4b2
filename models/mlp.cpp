// The teaching example: predicts the next token from the current one and its position.
#include <cmath>
#include <string>

#include "core/error.h"
#include "models/networks.h"
#include "models/parameters.h"
#include "ops/ops.h"

namespace olm2 {

void validate_mlp(const ModelConfig& config) {
  if (config.n_layer < 1 || config.n_embd < 1 || config.vocab_size < 1 ||
      config.context_length < 1 || config.pad_vocab_to < 1) {
    throw Error("model: an mlp needs n_layer, n_embd, vocab_size and context_length, each >= 1");
  }
  if (config.dropout != 0.0) throw Error("model.dropout: an mlp has none; expected 0");
  if (config.tie_embeddings) {
    throw Error("model.tie_embeddings: an mlp has no tied head; set tie_embeddings = false");
  }
}

Network build_mlp(Graph& graph, const ModelConfig& config, const NetworkShape& shape) {
  validate_mlp(config);
  const int64_t c = config.n_embd;
  const int64_t v = config.padded_vocab();
  Parameters p(graph, config.dtype);
  const auto ids = [&](const char* name, Shape sizes) {
    return graph.add_source(name, {std::move(sizes), DType::i32}, Role::input);
  };
  const ValueId token_table = p.normal("wte.weight", {v, c}, 0.1);
  const ValueId position_table = p.normal("wpe.weight", {config.context_length, c}, 0.1);
  ValueId x = embedding(graph, "embedding", ids("tokens", {shape.batch, shape.tokens}), token_table,
                        position_table);
  for (int64_t l = 0; l < config.n_layer; ++l) {
    const std::string layer = "layer." + std::to_string(l);
    const ValueId weight = p.normal(layer + ".weight", {c, c}, 1 / std::sqrt(c));
    const ValueId bias = p.zeros(layer + ".bias", {c});
    const Scope scope(graph, layer);
    x = gelu(graph, "gelu", linear(graph, "linear", x, weight, bias));
  }
  const ValueId head = p.normal("head.weight", {c, v}, 1 / std::sqrt(c));
  const ValueId head_bias = p.zeros("head.bias", {v});
  Network network;
  if (shape.purpose == Purpose::sampling) {
    x = select_position(graph, "last", x, ids("position", {shape.batch}));
    network.logits = linear(graph, "logits", x, head, head_bias);
  } else {
    network.loss = chunked_loss(graph, shape, c,
                                {.x = x,
                                 .weight = head,
                                 .targets = ids("targets", {shape.batch, shape.tokens}),
                                 .bias = head_bias,
                                 .classes = config.vocab_size});
  }
  network.parameters = p.take();
  return network;
}

}  // namespace olm2
