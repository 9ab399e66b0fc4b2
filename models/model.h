// Networks as functions that append to a Graph.  Not a word of memory in them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph.h"

namespace olm2 {

// Sizes of a network; each model reads the ones it knows.
struct ModelConfig {
  std::string type = "gpt2";
  int64_t n_layer = 0;
  int64_t n_head = 0;
  int64_t n_embd = 0;
  int64_t vocab_size = 0;
  int64_t context_length = 0;
  double dropout = 0.0;
  bool tie_embeddings = true;
  DType dtype = DType::f32;  // Of parameters and activations; sums of bf16 are f32.
  int64_t pad_vocab_to = 1;  // The vocabulary's rows are padded to a multiple of this.
  int64_t padded_vocab() const {
    return (vocab_size + pad_vocab_to - 1) / pad_vocab_to * pad_vocab_to;
  }
  bool operator==(const ModelConfig&) const = default;
};

// "gpt2-124m", "gpt2-355m", "gpt2-774m", "gpt2-1558m".  Throws Error that lists them.
ModelConfig model_preset(std::string_view name);
std::vector<std::string_view> model_preset_names();

// How a parameter starts.
struct ParameterInit {
  enum class Kind : uint8_t { zeros, ones, normal };
  Kind kind = Kind::zeros;
  double std = 0;
};
struct Parameter {
  ValueId value;
  ParameterInit init;
};

enum class Purpose : uint8_t {
  training,    // loss, with dropout
  evaluation,  // loss, without
  sampling,    // logits (B, V padded) at input "position" (B)
};

struct NetworkShape {
  int64_t batch = 0;   // Sequences.
  int64_t tokens = 0;  // Per sequence.
  Purpose purpose = Purpose::training;
  int64_t head_chunks = 0;  // Where there is a loss; 0: default_head_chunks.
};

// Into how many chunks of rows the output head and its loss are cut (ops: linear_cross_entropy),
// from sizes alone: as many as it takes for the logits of a chunk to be no larger than the widest
// activation, of `rows` x `width` elements, but none of less than 256 rows: below that, reading
// the weight and adding to its gradient once per chunk costs time (measured: kernels/README.md).
//   vocabulary  columns of the logits
int64_t default_head_chunks(int64_t rows, int64_t width, int64_t vocabulary);

// Inputs a model declares: "tokens" (B,T) i32; "targets" (B,T) i32 unless sampling; "position" (B)
// i32 when sampling; "random_key" i32 (4) when training with dropout.
struct Network {
  std::vector<Parameter> parameters;  // In declaration order, the same for every purpose.
  ValueId loss;                       // training, evaluation; the logits never exist whole
  ValueId logits;                     // (B, V padded): sampling
};

struct Model {
  std::string_view name;
  std::string_view summary;
  Network (*build)(Graph& graph, const ModelConfig& config, const NetworkShape& shape);
  // Throws Error naming the key for sizes that cannot be built.
  void (*validate)(const ModelConfig& config);
};
std::span<const Model> all_models();             // Rows: gpt2, mlp.
const Model& find_model(std::string_view name);  // Throws Error that lists the names.

}  // namespace olm2
