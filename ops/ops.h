// The catalogue: every operation a model can be built of.
//
// Each function appends one node to the graph and returns its first output.  The files beside this
// one hold, per operation, its shapes, gradient, cost, reference kernel and samples.
// Letters: B batch, T tokens of a sequence, C channels, V vocabulary, H heads, N any leading axes.
// Floating point values are f32 (or f64 for the reference kernels); all of one node have one dtype.
#pragma once

#include <string_view>
#include <vector>

#include "core/graph.h"
#include "core/op.h"

namespace olm2 {

// A value without inputs: `shape` filled with `value`.  Op "fill" {value, axes d0, d1 ..., f64}.
ValueId fill(Graph& graph, std::string_view name, ValueType type, double value);

// a + b, element by element; equal shapes.  Op "add"; may lie on a or b.
ValueId add(Graph& graph, std::string_view name, ValueId a, ValueId b);

// y = x W + bias.  Op "linear" {transposed, bias}.
//   x (N..., I), weight (I, O) or, transposed, (O, I); bias (O) or invalid.  Returns (N..., O).
// Gradients: "linear_grad_input" (dy, weight[, accumulator]) -> dx {transposed};
// "linear_grad_weight" (x, dy[, accumulator dW][, accumulator db]) -> dW[, db]
// {transposed, bias, accumulate_weight, accumulate_bias}, in place over the accumulators.
ValueId linear(Graph& graph, std::string_view name, ValueId x, ValueId weight, ValueId bias,
               bool transposed = false);

// x[b,t,:] = token_table[tokens[b,t],:] + position_table[t,:].  Op "embedding".
//   tokens (B, T) i32 in [0, V); token_table (V, C); position_table (P, C), P >= T.
// Gradients: "embedding_grad_tokens" (tokens, dx[, accumulator]) -> (V, C) {vocabulary};
// "embedding_grad_positions" (dx[, accumulator]) -> (P, C) {positions}; rows nobody read get zero.
ValueId embedding(Graph& graph, std::string_view name, ValueId tokens, ValueId token_table,
                  ValueId position_table);

// y = (x - mean) * rstd * weight + bias over the last axis; rstd = 1 / sqrt(variance + epsilon).
//   x (N..., C), weight (C), bias (C).  Op "layer_norm" {epsilon} -> y, mean (N...), rstd (N...).
// Source: Ba et al. 2016, eq. 4.
// Gradient: "layer_norm_grad" (x, weight, mean, rstd, dy[, acc dx][, acc dw][, acc db]) ->
// dx, dw, db {accumulate_x, accumulate_weight, accumulate_bias}; dx may lie on acc dx or dy.
ValueId layer_norm(Graph& graph, std::string_view name, ValueId x, ValueId weight, ValueId bias,
                   double epsilon = 1e-5);

// Causal multi-head self-attention, computed in tiles: no T x T matrix is ever stored.
//   qkv (B, T, 3C): query, key and value of every head side by side, as GPT-2's c_attn makes them.
//   Op "attention" {heads, dropout, stream} -> out (B, T, C), lse (B, H, T): log of each row's sum
//   of exp(q.k / sqrt(C / H)).  With dropout > 0 a further input: key (see dropout).
// Source: Dao et al. 2022.  Gradient: "attention_grad" (qkv, out, lse, dout[, key]) -> dqkv.
ValueId attention(Graph& graph, std::string_view name, ValueId qkv, int64_t heads,
                  double dropout = 0.0, ValueId key = {});

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).  Op "gelu".  Source: Hendrycks and Gimpel 2016.
// Gradient: "gelu_grad" (x, dy) -> dx; may lie on dy.
ValueId gelu(Graph& graph, std::string_view name, ValueId x);

// Zeroes each element with probability `probability` and scales the rest by 1/(1 - probability).
//   x (B, ...); key i32 (4) = {seed low, seed high, step, number of the first sample}.
//   Op "dropout" {probability, stream}; the element's random number is keyed by (seed, step,
//   sample, stream = hash of the node's name, element within the sample): see kernels/random.h.
// The gradient is the same op on dy.  May lie on x.
ValueId dropout(Graph& graph, std::string_view name, ValueId x, ValueId key, double probability);

// Mean cross-entropy of softmax(logits) against targets, in nats; probabilities are never stored.
//   logits (N..., V), targets (N...) i32.  Op "softmax_cross_entropy" {classes} -> loss (1),
//   lse (N...).  Columns >= classes are padding: they take no part.  Targets < 0 are ignored and
//   do not count in the mean.
// Gradient: "softmax_cross_entropy_grad" (logits, targets, lse, dloss (1)) -> dlogits {classes};
// may lie on logits; padding columns get zero.
ValueId softmax_cross_entropy(Graph& graph, std::string_view name, ValueId logits, ValueId targets,
                              int64_t classes);

// softmax_cross_entropy of linear, in chunks of rows: at most ceil(rows / chunks) rows of logits
// exist at a time, as scratch of the kernel.  Op "linear_cross_entropy" {transposed, bias, classes,
// chunks} (x, weight, targets[, bias]) -> loss (1); operands as of the two ops it joins,
// 1 <= chunks <= rows.  The number of chunks is part of what is computed: dW is summed chunk by
// chunk, so another number may change last bits.
// Only the loss itself has a gradient: differentiate puts "linear_cross_entropy_grad" (x, weight,
// targets[, bias][, accumulator dW][, accumulator db]) -> loss[, dx][, dW][, db] in its place {the
// same, seed, grad_x, grad_weight, grad_bias, accumulate_weight, accumulate_bias}: the same loss,
// and seed times its gradients; dx may lie on x, dW and db on their accumulators.
// Source: Hsu et al. 2024 (Liger Kernel), FusedLinearCrossEntropy: loss and gradients at once.
struct OutputHead {
  ValueId x;
  ValueId weight;
  ValueId targets;
  ValueId bias = {};  // Invalid: none.
  int64_t classes = 0;
  int64_t chunks = 1;
  bool transposed = false;
};
ValueId linear_cross_entropy(Graph& graph, std::string_view name, const OutputHead& head);

// x[b, position[b], :] -> (B, C).  Op "select_position"; x (B, T, C), position (B) i32.  No
// gradient.
ValueId select_position(Graph& graph, std::string_view name, ValueId x, ValueId position);

// Square root of the sum of the squares of all elements of all inputs -> (1).  Op "global_norm".
// Summed in double in blocks of fixed size: independent of the number of threads.
ValueId global_norm(Graph& graph, std::string_view name, const std::vector<ValueId>& values);

// One AdamW step.  Op "adamw" {beta1, beta2, epsilon, weight_decay, grad_clip}
//   (parameter, gradient, m, v, norm (1), rates f32 (3)) -> new parameter, m, v, each on its input.
//   rates = {learning rate, 1 - beta1^t, 1 - beta2^t} for this step t >= 1.
//   g = gradient * min(1, grad_clip / (norm + 1e-6)), or gradient itself where grad_clip is 0;
//   m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;
//   p = p - lr * (weight_decay p + (m / bc1) / (sqrt(v / bc2) + epsilon)).
//   A norm that is not finite leaves all three unchanged.
// Source: Loshchilov and Hutter 2019, algorithm 2.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double grad_clip = 1.0;
};
// Returns the node: its outputs are the new parameter, m and v.
NodeId adamw(Graph& graph, std::string_view name, ValueId parameter, ValueId gradient, ValueId m,
             ValueId v, ValueId norm, ValueId rates, const AdamW& options);

}  // namespace olm2
