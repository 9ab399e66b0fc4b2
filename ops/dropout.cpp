// dropout: zeroes elements at random and scales the rest, so that the mean stays.
// Nothing is remembered for the gradient: which elements fall is a function of (seed, step,
// sample, name of the node, element), see kernels/random.h.  Running the op again, in a
// recomputation, in the gradient or in a smaller micro batch, drops the same elements.
// Source: Srivastava et al. 2014.
#include "kernels/random.h"
#include "ops/operands.h"
#include "ops/ops.h"
#include "ops/random_elements.h"

namespace olm2 {
namespace {

constexpr double kFlops = 25;  // Per element: a quarter of a Philox block, compare, scale.

std::vector<ValueType> infer(const Attrs& attrs, std::span<const ValueType> in) {
  expect_count("dropout", in, 2, "x, key");
  expect_floating("dropout", "x", in[0], 1);
  expect_random_key("dropout", in[1]);
  expect_probability("dropout", required_attr("dropout", attrs, "probability"));
  required_attr("dropout", attrs, "stream");
  return {in[0]};
}

std::vector<ValueId> grad(const GradRequest& request) {
  const ValueId key = request.node.inputs[1];
  const ValueId dx = request.graph.add_value("dropout", request.name("grad"),
                                             {request.output_grads[0], key}, request.node.attrs);
  return {add_to(request, 0, dx), {}};
}

template <typename T>
void reference(const KernelArgs& args) {
  const double probability = attr_or(args.attrs, "probability", 0);
  const auto stream = static_cast<uint32_t>(attr_or(args.attrs, "stream", 0));
  const RandomKey key = random_key(args.in[1], stream);
  const uint32_t threshold = drop_threshold(probability);
  const T scale = static_cast<T>(1 / (1 - probability));
  const int64_t samples = args.in[0].shape()[0];
  const int64_t elements = samples == 0 ? 0 : args.in[0].elements() / samples;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const T* const x = args.in[0].as<T>() + sample * elements;
    T* const y = args.out[0].as<T>() + sample * elements;
    for (int64_t i = 0; i < elements; ++i) {
      y[i] = is_kept(key, sample, i, threshold) ? x[i] * scale : T{0};
    }
  }
}

const OpDef kDropout{
    .name = "dropout",
    .summary = "zeroes elements at random, scales the rest",
    .infer = infer,
    .grad = grad,
    .cost =
        [](const Attrs&, std::span<const ValueType> in, std::span<const ValueType> out) {
          return streaming_cost(kFlops * static_cast<double>(element_count(in[0].shape)), in, out);
        },
    .reference = by_dtype<reference<float>, reference<double>>,
    .in_place = [](const Attrs&, size_t) -> std::vector<InPlace> {
      return {{.output = 0, .input = 0}};
    },
    .samples = []() -> std::vector<Sample> {
      const Attrs attrs{{"probability", 0.3}, {"stream", 12345}};
      return {{.inputs = {f32({3, 5, 7}), i32({4})}, .attrs = attrs, .integer_limit = {0, 1000}},
              {.inputs = {f32({2, 9}), i32({4})},
               .attrs = {{"probability", 0}, {"stream", 4294967295.0}},
               .integer_limit = {0, 1000}}};
    },
};
const RegisterOp kRegister{kDropout};

}  // namespace

ValueId dropout(Graph& graph, std::string_view name, ValueId x, ValueId key, double probability) {
  const double stream = stream_of(graph.node_name(name));
  return graph.add_value("dropout", name, {x, key},
                         {{"probability", probability}, {"stream", stream}});
}

}  // namespace olm2
