// attention: causal multi-head self-attention that never holds a T x T matrix.
// Per sequence and head, with scores s = q k^T / sqrt(C / H) over the keys up to the query:
//   lse = log sum exp s,  p = exp(s - lse),  out = p~ v,  p~ = p with dropout.
// The gradient makes p again from lse; with r = dout . out (per query):
//   dv = p~^T dout,  ds = p (keep / (1 - dropout) dout v^T - r),  dq = ds k,  dk = ds^T q.
// Source: Dao et al. 2022, algorithms 1 and 4 (dropout: appendix B).
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ops/operands.h"
#include "ops/ops.h"
#include "ops/random_elements.h"

namespace olm2 {
namespace {

bool has_dropout(const Attrs& attrs) {
  return attr_or(attrs, "dropout", 0) > 0;
}

// The types a qkv stands for.  Throws Error unless the heads divide the channels.
struct Types {
  ValueType out;
  ValueType lse;
};
Types types_of_qkv(std::string_view op, const Attrs& attrs, const ValueType& qkv) {
  expect_floating(op, "qkv", qkv);
  expect_axes(op, "qkv", qkv, 3);
  expect_probability(op, attr_or(attrs, "dropout", 0));
  if (has_dropout(attrs)) required_attr(op, attrs, "stream");
  const int64_t heads = required_size(op, attrs, "heads");
  const Shape& shape = qkv.shape;
  if (shape[2] % (3 * heads) != 0 || shape[2] == 0) {
    throw Error(std::string(op) + ": qkv is " + to_string(qkv) +
                ", expected a last axis that is a multiple of 3 x " + std::to_string(heads) +
                " heads");
  }
  return {.out = {{shape[0], shape[1], shape[2] / 3}, qkv.dtype},
          .lse = {{shape[0], heads, shape[1]}, sum_dtype(qkv.dtype)}};
}

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> in) {
  const bool dropout = has_dropout(attrs);
  expect_count("attention", in, dropout ? 2 : 1, dropout ? "qkv, key" : "qkv");
  const Types types = types_of_qkv("attention", attrs, in[0]);
  if (dropout) expect_random_key("attention", in[1]);
  return {types.out, types.lse};
}

std::vector<ValueType> infer_grad(const Attrs& attrs, std::span<const ValueType> in) {
  constexpr std::string_view op = "attention_grad";
  const bool dropout = has_dropout(attrs);
  expect_count(op, in, dropout ? 5 : 4,
               dropout ? "qkv, out, lse, dout, key" : "qkv, out, lse, dout");
  const Types types = types_of_qkv(op, attrs, in[0]);
  const std::string because = "to fit qkv " + to_string(in[0]);
  expect_type(op, "out", in[1], types.out, because);
  expect_type(op, "lse", in[2], types.lse, because);
  expect_type(op, "dout", in[3], types.out, because);
  if (dropout) expect_random_key(op, in[4]);
  return {in[0]};
}

std::vector<ValueId> grad(const GradRequest& request) {
  expect_only_first_output(request);
  const Node& node = request.node;
  std::vector<ValueId> inputs{node.inputs[0], node.outputs[0], node.outputs[1],
                              request.output_grads[0]};
  if (has_dropout(node.attrs)) inputs.push_back(node.inputs[1]);
  const ValueId dqkv =
      request.graph.add_value("attention_grad", request.name("grad"), inputs, node.attrs);
  std::vector<ValueId> grads(node.inputs.size());
  grads[0] = add_to(request, 0, dqkv);
  return grads;
}

// One head of one sequence.
template <typename T>
struct Head {
  const T* qkv = nullptr;  // Of this sequence, at this head's first query channel.
  int64_t tokens = 0;
  int64_t channels = 0;  // C, of all heads.
  int64_t size = 0;      // C / H.
  int64_t sample = 0;
  int64_t head = 0;
  RandomKey key = {};
  uint32_t threshold = 0;
  double keep_scale = 1;  // 1 / (1 - dropout).

  // part 0: query, 1: key, 2: value.
  const T* row(int64_t part, int64_t t) const { return qkv + t * 3 * channels + part * channels; }
  double score(int64_t t, int64_t s) const {
    return dot(row(0, t), row(1, s)) / std::sqrt(static_cast<double>(size));
  }
  double dot(const T* a, const T* b) const {
    double sum = 0;
    for (int64_t c = 0; c < size; ++c) sum += static_cast<double>(a[c]) * b[c];
    return sum;
  }
  // What dropout multiplies the probability of query t and key s with.
  double keep(int64_t t, int64_t s) const {
    if (threshold == 0) return 1;
    const int64_t element = (head * tokens + t) * tokens + s;
    return is_kept(key, sample, element, threshold) ? keep_scale : 0;
  }
};

// Calls visit(head) for every head of every sequence; `key` is null without dropout.
template <typename T, typename Visit>
void for_each_head(const Attrs& attrs, const Tensor& qkv, const Tensor* key, Visit visit) {
  const Shape& shape = qkv.shape();
  const auto heads = static_cast<int64_t>(attr_or(attrs, "heads", 1));
  Head<T> h{.tokens = shape[1], .channels = shape[2] / 3, .size = shape[2] / 3 / heads};
  if (key != nullptr) {
    const double dropout = attr_or(attrs, "dropout", 0);
    h.key = random_key(*key, static_cast<uint32_t>(attr_or(attrs, "stream", 0)));
    h.threshold = drop_threshold(dropout);
    h.keep_scale = 1 / (1 - dropout);
  }
  for (h.sample = 0; h.sample < shape[0]; ++h.sample) {
    for (h.head = 0; h.head < heads; ++h.head) {
      h.qkv = qkv.as<T>() + h.sample * shape[1] * shape[2] + h.head * h.size;
      visit(h);
    }
  }
}

// log of the sum of exp(score) over the keys up to t, kept finite by its running maximum.
template <typename T>
double log_sum_exp(const Head<T>& h, int64_t t) {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  for (int64_t s = 0; s <= t; ++s) {
    const double score = h.score(t, s);
    const double grown = std::max(largest, score);
    sum = sum * std::exp(largest - grown) + std::exp(score - grown);
    largest = grown;
  }
  return largest + std::log(sum);
}

template <typename T>
void reference(const KernelArgs& args) {
  const Tensor* const key = has_dropout(args.attrs) ? &args.in[1] : nullptr;
  std::vector<double> sum;
  for_each_head<T>(args.attrs, args.in[0], key, [&](const Head<T>& h) {
    const int64_t heads = h.channels / h.size;
    for (int64_t t = 0; t < h.tokens; ++t) {
      const double lse = log_sum_exp(h, t);
      args.out[1].as<T>()[(h.sample * heads + h.head) * h.tokens + t] = static_cast<T>(lse);
      sum.assign(static_cast<size_t>(h.size), 0);
      for (int64_t s = 0; s <= t; ++s) {
        const double p = std::exp(h.score(t, s) - lse) * h.keep(t, s);
        for (int64_t c = 0; c < h.size; ++c) sum[static_cast<size_t>(c)] += p * h.row(2, s)[c];
      }
      T* const out = args.out[0].as<T>() + (h.sample * h.tokens + t) * h.channels + h.head * h.size;
      for (int64_t c = 0; c < h.size; ++c) out[c] = static_cast<T>(sum[static_cast<size_t>(c)]);
    }
  });
}

// What the gradients of one head are made of.
template <typename T>
struct HeadGrad {
  const Head<T>& h;
  const T* out = nullptr;   // Of this sequence, at this head's first channel.
  const T* dout = nullptr;  // Likewise.
  const T* lse = nullptr;   // Of this head.

  const T* dout_row(int64_t t) const { return dout + t * h.channels; }
  double p(int64_t t, int64_t s) const { return std::exp(h.score(t, s) - lse[t]); }
  // Gradient of q.k, the scale of the scores included.
  double ds(int64_t t, int64_t s) const {
    const double r = h.dot(dout_row(t), out + t * h.channels);
    const double dp = h.keep(t, s) * h.dot(dout_row(t), h.row(2, s));
    return p(t, s) * (dp - r) / std::sqrt(static_cast<double>(h.size));
  }
};

// sum += factor * row.
template <typename T>
void add_scaled(std::vector<double>& sum, double factor, const T* row) {
  for (size_t c = 0; c < sum.size(); ++c) sum[c] += factor * row[c];
}

template <typename T>
void store(std::vector<double>& sum, T* row) {
  for (size_t c = 0; c < sum.size(); ++c) row[c] = static_cast<T>(sum[c]);
  std::fill(sum.begin(), sum.end(), 0.0);
}

// Every row of dq, dk and dv is gathered on its own, in the order of its partners.
template <typename T>
void reference_grad(const KernelArgs& args) {
  const Tensor* const key = has_dropout(args.attrs) ? &args.in[4] : nullptr;
  for_each_head<T>(args.attrs, args.in[0], key, [&](const Head<T>& h) {
    const int64_t heads = h.channels / h.size;
    const int64_t first = h.sample * h.tokens * h.channels + h.head * h.size;
    const HeadGrad<T> g{.h = h,
                        .out = args.in[1].as<T>() + first,
                        .dout = args.in[3].as<T>() + first,
                        .lse = args.in[2].as<T>() + (h.sample * heads + h.head) * h.tokens};
    T* const dqkv = args.out[0].as<T>() + (h.qkv - args.in[0].as<T>());
    std::vector<double> sum(static_cast<size_t>(h.size), 0);
    std::vector<double> value_sum = sum;
    for (int64_t t = 0; t < h.tokens; ++t) {
      for (int64_t s = 0; s <= t; ++s) add_scaled(sum, g.ds(t, s), h.row(1, s));
      store(sum, dqkv + t * 3 * h.channels);
    }
    for (int64_t s = 0; s < h.tokens; ++s) {
      for (int64_t t = s; t < h.tokens; ++t) {
        add_scaled(sum, g.ds(t, s), h.row(0, t));
        add_scaled(value_sum, g.p(t, s) * h.keep(t, s), g.dout_row(t));
      }
      store(sum, dqkv + s * 3 * h.channels + h.channels);
      store(value_sum, dqkv + s * 3 * h.channels + 2 * h.channels);
    }
  });
}

// Pairs of query and key, all channels: a causal half.
double pairs_times_channels(const Shape& qkv) {
  const auto tokens = static_cast<double>(qkv[1]);
  return static_cast<double>(qkv[0]) * tokens * (tokens + 1) / 2 * static_cast<double>(qkv[2]) / 3;
}

std::vector<Sample> samples() {
  const Attrs random{{"heads", 2}, {"dropout", 0.3}, {"stream", 77}};
  return {{.inputs = {f32({2, 5, 12})}, .attrs = {{"heads", 2}, {"dropout", 0}}},
          {.inputs = {f32({1, 7, 9})}, .attrs = {{"heads", 1}, {"dropout", 0}}},
          {.inputs = {f32({3, 1, 9})}, .attrs = {{"heads", 3}, {"dropout", 0}}},
          {.inputs = {f32({2, 5, 12}), i32({4})}, .attrs = random, .integer_limit = {0, 1000}}};
}

std::vector<Sample> samples_grad() {
  const Attrs random{{"heads", 2}, {"dropout", 0.3}, {"stream", 77}};
  return {{.inputs = {f32({2, 5, 12}), f32({2, 5, 4}), f32({2, 2, 5}), f32({2, 5, 4})},
           .attrs = {{"heads", 2}, {"dropout", 0}}},
          {.inputs = {f32({1, 7, 9}), f32({1, 7, 3}), f32({1, 3, 7}), f32({1, 7, 3})},
           .attrs = {{"heads", 3}, {"dropout", 0}}},
          {.inputs = {f32({2, 5, 12}), f32({2, 5, 4}), f32({2, 2, 5}), f32({2, 5, 4}), i32({4})},
           .attrs = random,
           .integer_limit = {0, 0, 0, 0, 1000}}};
}

const OpDef kAttention{
    .name = "attention",
    .summary = "causal multi-head self-attention",
    .infer = infer,
    .grad = grad,
    .cost =
        [](const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
          return streaming_cost(4 * pairs_times_channels(in[0].shape), in, out);
        },
    .reference = by_dtype<reference<float>, reference<double>>,
    .samples = samples,
};
const OpDef kAttentionGrad{
    .name = "attention_grad",
    .summary = "gradient of attention",
    .infer = infer_grad,
    .cost =
        [](const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
          return streaming_cost(10 * pairs_times_channels(in[0].shape), in, out);
        },
    .reference = by_dtype<reference_grad<float>, reference_grad<double>>,
    .samples = samples_grad,
};
const RegisterOp kRegister{kAttention};
const RegisterOp kRegisterGrad{kAttentionGrad};

}  // namespace

ValueId attention(Graph& graph, std::string_view name, ValueId qkv, int64_t heads, double dropout,
                  ValueId key) {
  Attrs attrs{{"heads", static_cast<double>(heads)}, {"dropout", dropout}};
  if (!has_dropout(attrs)) return graph.add_value("attention", name, {qkv}, attrs);
  if (!key.valid()) throw Error("attention: dropout needs a key, see dropout()");
  attrs["stream"] = stream_of(graph.node_name(name));
  return graph.add_value("attention", name, {qkv, key}, attrs);
}

}  // namespace olm2
