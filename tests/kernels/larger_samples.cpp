#include "larger_samples.h"

#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace olm2::testing {
namespace {

ValueType f32(Shape shape) {
  return {std::move(shape), DType::f32};
}
ValueType i32(Shape shape) {
  return {std::move(shape), DType::i32};
}

class Samples {
 public:
  void add(std::string_view op, Sample sample) {
    samples.push_back({&find_op(op), std::move(sample)});
  }
  std::vector<NamedSample> samples;
};

void add_pointwise(Samples& to) {
  for (const Shape& shape : {Shape{1, 63}, Shape{3, 65, 257}, Shape{2, 40000}}) {
    to.add("add", {.inputs = {f32(shape), f32(shape)}});
    to.add("gelu", {.inputs = {f32(shape)}});
    to.add("gelu_grad", {.inputs = {f32(shape), f32(shape)}});
    to.add("dropout", {.inputs = {f32(shape), i32({4})},
                       .attrs = {{"probability", 0.25}, {"stream", 99}},
                       .integer_limit = {0, 1 << 30}});
  }
  to.add("fill", {.attrs = {{"value", 2.5}, {"d0", 70001}}});
  to.add("select_position", {.inputs = {f32({3, 7, 33}), i32({3})}, .integer_limit = {0, 7}});
}

void add_linear(Samples& to, double transposed) {
  const Attrs attrs{{"transposed", transposed}, {"bias", 0}};
  const Shape weight = transposed != 0 ? Shape{67, 65} : Shape{65, 67};
  const auto x = f32({3, 43, 65});
  const auto dy = f32({3, 43, 67});
  to.add("linear", {.inputs = {x, f32(weight)}, .attrs = attrs});
  to.add("linear_grad_input", {.inputs = {dy, f32(weight)}, .attrs = {{"transposed", transposed}}});
  to.add("linear_grad_input",
         {.inputs = {dy, f32(weight), x}, .attrs = {{"transposed", transposed}}});
  for (const double bias : {0.0, 1.0}) {
    if (bias != 0) {
      to.add("linear", {.inputs = {x, f32(weight), f32({67})},
                        .attrs = {{"transposed", transposed}, {"bias", 1}}});
    }
    for (const double add : {0.0, 1.0}) {
      Sample sample{.inputs = {x, dy},
                    .attrs = {{"transposed", transposed},
                              {"bias", bias},
                              {"accumulate_weight", add},
                              {"accumulate_bias", add * bias}}};
      if (add != 0) sample.inputs.push_back(f32(weight));
      if (add * bias != 0) sample.inputs.push_back(f32({67}));
      to.add("linear_grad_weight", std::move(sample));
    }
  }
}

void add_layer_norm(Samples& to) {
  for (const Shape& shape : {Shape{77, 97}, Shape{3, 19, 512}}) {
    const Shape rows(shape.begin(), shape.end() - 1);
    const auto x = f32(shape);
    const auto c = f32({shape.back()});
    to.add("layer_norm", {.inputs = {x, c, c}, .attrs = {{"epsilon", 1e-5}}});
    to.add("layer_norm_grad",
           {.inputs = {x, c, f32(rows), f32(rows), x},
            .attrs = {{"accumulate_x", 0}, {"accumulate_weight", 0}, {"accumulate_bias", 0}}});
    to.add("layer_norm_grad",
           {.inputs = {x, c, f32(rows), f32(rows), x, x, c, c},
            .attrs = {{"accumulate_x", 1}, {"accumulate_weight", 1}, {"accumulate_bias", 1}}});
  }
}

struct AttentionCase {
  int64_t batch = 0;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t head_size = 0;
};

void add_attention(Samples& to) {
  for (const auto& [batch, tokens, heads, size] :
       {AttentionCase{2, 64, 2, 16}, AttentionCase{1, 65, 3, 64}, AttentionCase{2, 131, 1, 33},
        AttentionCase{1, 79, 2, 7}}) {
    const int64_t channels = heads * size;
    const auto qkv = f32({batch, tokens, 3 * channels});
    const auto out = f32({batch, tokens, channels});
    const auto lse = f32({batch, heads, tokens});
    const Attrs plain{{"heads", static_cast<double>(heads)}, {"dropout", 0}};
    const Attrs random{{"heads", static_cast<double>(heads)}, {"dropout", 0.2}, {"stream", 5}};
    to.add("attention", {.inputs = {qkv}, .attrs = plain});
    to.add("attention",
           {.inputs = {qkv, i32({4})}, .attrs = random, .integer_limit = {0, 1 << 30}});
    to.add("attention_grad", {.inputs = {qkv, out, lse, out}, .attrs = plain});
    to.add("attention_grad", {.inputs = {qkv, out, lse, out, i32({4})},
                              .attrs = random,
                              .integer_limit = {0, 0, 0, 0, 1 << 30}});
  }
}

void add_embedding(Samples& to) {
  const auto tokens = i32({3, 51});
  const auto x = f32({3, 51, 130});
  to.add("embedding",
         {.inputs = {tokens, f32({11, 130}), f32({60, 130})}, .integer_limit = {11, 0, 0}});
  to.add("embedding_grad_tokens",
         {.inputs = {tokens, x}, .attrs = {{"vocabulary", 11}}, .integer_limit = {11, 0}});
  to.add("embedding_grad_tokens", {.inputs = {tokens, x, f32({11, 130})},
                                   .attrs = {{"vocabulary", 11}},
                                   .integer_limit = {11, 0, 0}});
  to.add("embedding_grad_positions", {.inputs = {x}, .attrs = {{"positions", 60}}});
  to.add("embedding_grad_positions", {.inputs = {x, f32({60, 130})}, .attrs = {{"positions", 60}}});
}

void add_loss(Samples& to) {
  for (const auto& [rows, width, classes] :
       {std::array<int64_t, 3>{5, 4099, 4099}, std::array<int64_t, 3>{37, 2064, 2049}}) {
    const auto logits = f32({rows, width});
    const auto targets = i32({rows});
    const Attrs attrs{{"classes", static_cast<double>(classes)}};
    to.add("softmax_cross_entropy",
           {.inputs = {logits, targets}, .attrs = attrs, .integer_limit = {0, classes}});
    to.add("softmax_cross_entropy_grad", {.inputs = {logits, targets, f32({rows}), f32({1})},
                                          .attrs = attrs,
                                          .integer_limit = {0, classes, 0, 0}});
  }
}

struct HeadCase {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t columns = 0;
  int64_t classes = 0;
  int64_t chunks = 0;
  bool transposed = false;
};

// The head with its loss: all gradients written, and weight and bias added to.
void add_head(Samples& to) {
  for (const auto& [rows, inputs, columns, classes, chunks, transposed] :
       {HeadCase{129, 65, 67, 61, 1, true}, HeadCase{129, 65, 67, 67, 4, true},
        HeadCase{37, 33, 2064, 2049, 5, false}, HeadCase{64, 48, 320, 320, 2, true}}) {
    const auto weight = f32(transposed ? Shape{columns, inputs} : Shape{inputs, columns});
    Sample loss{.inputs = {f32({rows, inputs}), weight, i32({rows}), f32({columns})},
                .attrs = {{"transposed", transposed ? 1.0 : 0.0},
                          {"bias", 1},
                          {"classes", static_cast<double>(classes)},
                          {"chunks", static_cast<double>(chunks)}},
                .integer_limit = {0, 0, classes, 0}};
    to.add("linear_cross_entropy", loss);
    for (const double add : {0.0, 1.0}) {
      Sample sample = loss;
      for (const char* key : {"grad_x", "grad_weight", "grad_bias"}) sample.attrs[key] = 1;
      sample.attrs["seed"] = 0.5;
      sample.attrs["accumulate_weight"] = sample.attrs["accumulate_bias"] = add;
      if (add != 0) {
        sample.inputs.insert(sample.inputs.end(), {weight, f32({columns})});
        sample.integer_limit.resize(6, 0);
      }
      to.add("linear_cross_entropy_grad", std::move(sample));
    }
  }
}

void add_optimizer(Samples& to) {
  const auto p = f32({40003});
  to.add("adamw", {.inputs = {p, p, p, p, f32({1}), f32({3})},
                   .attrs = {{"beta1", 0.9},
                             {"beta2", 0.95},
                             {"epsilon", 1e-8},
                             {"weight_decay", 0.1},
                             {"grad_clip", 0.01}},
                   .positive_inputs = {3, 4, 5}});
  to.add("global_norm", {.inputs = {f32({150001}), f32({16384}), f32({3, 7})}});
}

}  // namespace

std::vector<NamedSample> every_sample() {
  Samples samples;
  for (const OpDef* op : all_ops()) {
    if (op->samples == nullptr) continue;
    for (Sample& sample : op->samples()) samples.samples.push_back({op, std::move(sample)});
  }
  add_pointwise(samples);
  add_linear(samples, 0);
  add_linear(samples, 1);
  add_layer_norm(samples);
  add_attention(samples);
  add_embedding(samples);
  add_loss(samples);
  add_head(samples);
  add_optimizer(samples);
  return std::move(samples.samples);
}

}  // namespace olm2::testing
