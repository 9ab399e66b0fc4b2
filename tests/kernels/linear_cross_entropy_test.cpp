// The chunked head on the CPU: the bits of the kernels it joins, and the memory it saves.
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "one_node.h"

namespace olm2::testing {
namespace {

using Numbers = std::vector<double>;

// A head of f32 operands whose every gradient is wanted.
struct HeadCase {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t columns = 0;
  int64_t classes = 0;
  int64_t chunks = 1;
};

Attrs loss_attrs(const HeadCase& c) {
  return {{"transposed", 1},
          {"bias", 1},
          {"classes", static_cast<double>(c.classes)},
          {"chunks", static_cast<double>(c.chunks)}};
}

Sample loss_sample(const HeadCase& c) {
  return {.inputs = {{{c.rows, c.inputs}, DType::f32},
                     {{c.columns, c.inputs}, DType::f32},
                     {{c.rows}, DType::i32},
                     {{c.columns}, DType::f32}},
          .attrs = loss_attrs(c),
          .integer_limit = {0, 0, c.classes, 0}};
}

Sample gradient_sample(const HeadCase& c) {
  Sample sample = loss_sample(c);
  for (const char* key : {"grad_x", "grad_weight", "grad_bias"}) sample.attrs[key] = 1;
  sample.attrs["seed"] = 0.5;
  return sample;
}

OneNode head_of(const HeadCase& c) {
  return {find_op("linear_cross_entropy_grad"), gradient_sample(c)};
}

// One op on given numbers: all its outputs.
std::vector<Numbers> outputs_of(Backend& backend, std::string_view op, const Attrs& attrs,
                                const std::vector<ValueType>& types,
                                const std::vector<Numbers>& inputs) {
  const OneNode one(find_op(op), {.inputs = types, .attrs = attrs});
  Launch launch(backend, one, inputs);
  launch();
  std::vector<Numbers> outputs;
  for (size_t i = 0; i < launch.outputs(); ++i) outputs.push_back(launch.numbers(i));
  return outputs;
}

// Loss, dx, dW, db by the ops that the head joins.
std::vector<Numbers> joined(Backend& backend, const HeadCase& c,
                            const std::vector<Numbers>& inputs) {
  const std::vector<ValueType> types = loss_sample(c).inputs;
  const ValueType& x = types[0];
  const ValueType& weight = types[1];
  const ValueType& targets = types[2];
  const ValueType logits{{c.rows, c.columns}, DType::f32};
  const Attrs classes{{"classes", static_cast<double>(c.classes)}};
  const auto y = outputs_of(backend, "linear", {{"transposed", 1}, {"bias", 1}},
                            {x, weight, types[3]}, {inputs[0], inputs[1], inputs[3]});
  const auto loss =
      outputs_of(backend, "softmax_cross_entropy", classes, {logits, targets}, {y[0], inputs[2]});
  const auto dlogits = outputs_of(backend, "softmax_cross_entropy_grad", classes,
                                  {logits, targets, {{c.rows}, DType::f32}, {{1}, DType::f32}},
                                  {y[0], inputs[2], loss[1], {0.5}});
  const auto dweight = outputs_of(backend, "linear_grad_weight", {{"transposed", 1}, {"bias", 1}},
                                  {x, logits}, {inputs[0], dlogits[0]});
  const auto dx = outputs_of(backend, "linear_grad_input", {{"transposed", 1}}, {logits, weight},
                             {dlogits[0], inputs[1]});
  return {loss[0], dx[0], dweight[0], dweight[1]};
}

TEST(LinearCrossEntropy, InOneChunkGivesTheBitsOfTheKernelsItJoins) {
  for (const bool use_onednn : {true, false}) {
    CpuBackend cpu({.threads = 2, .use_onednn = use_onednn});
    for (const HeadCase& c : {HeadCase{37, 16, 101, 97}, HeadCase{64, 48, 320, 320}}) {
      std::vector<Numbers> inputs = draw_inputs(loss_sample(c));
      inputs[2][3] = inputs[2][20] = -1;  // Ignored.
      const std::vector<Numbers> expected = joined(cpu, c, inputs);
      const OneNode one = head_of(c);
      Launch launch(cpu, one, inputs);
      launch();
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(launch.numbers(i), expected[i]) << i;
    }
  }
}

TEST(LinearCrossEntropy, GivesTheSameLossWithAndWithoutGradients) {
  CpuBackend cpu({.threads = 2});
  for (const int64_t chunks : {1, 2, 5, 37}) {
    const HeadCase c{37, 20, 101, 97, chunks};
    const auto inputs = draw_inputs(loss_sample(c));
    const OneNode alone(find_op("linear_cross_entropy"), loss_sample(c));
    const OneNode with = head_of(c);
    Launch loss(cpu, alone, inputs);
    Launch both(cpu, with, inputs);
    loss();
    both();
    EXPECT_EQ(loss.numbers(0), both.numbers(0)) << chunks;
  }
}

TEST(LinearCrossEntropy, HoldsTheLogitsOfOneChunk) {
  for (const bool use_onednn : {true, false}) {
    CpuBackend cpu({.threads = 2, .use_onednn = use_onednn});
    const auto workspace_of = [&](int64_t chunks) {
      const OneNode one = head_of({1000, 16, 4096, 4096, chunks});
      return cpu.prepare(one.graph, one.get())->workspace_bytes();
    };
    constexpr int64_t kRowBytes = 4096 * sizeof(float);
    constexpr int64_t kScratch = int64_t{2} << 20;  // Of products and column sums: at most.
    for (const int64_t chunks : {1, 3, 8, 40, 1000}) {
      const int64_t logits = (1000 + chunks - 1) / chunks * kRowBytes;
      EXPECT_GE(workspace_of(chunks), logits);
      const OneNode one = head_of({1000, 16, 4096, 4096, chunks});
      EXPECT_EQ(cost_of(one.graph, one.get()).workspace, logits);
      EXPECT_LE(workspace_of(chunks), logits + kScratch) << chunks;
    }
  }
}

TEST(LinearCrossEntropy, RefusesATargetThatIsNoClass) {
  CpuBackend cpu({.threads = 2});
  const HeadCase c{4, 3, 8, 5, 2};
  auto inputs = draw_inputs(loss_sample(c));
  inputs[2][1] = 5;
  const OneNode one = head_of(c);
  Launch launch(cpu, one, inputs);
  EXPECT_THROW(launch(), Error);
}

TEST(LinearCrossEntropy, PassesNotANumberOn) {
  CpuBackend cpu({.threads = 2});
  const HeadCase c{4, 3, 8, 8, 2};
  auto inputs = draw_inputs(loss_sample(c));
  inputs[0][10] = std::numeric_limits<double>::quiet_NaN();
  const OneNode one = head_of(c);
  Launch launch(cpu, one, inputs);
  launch();
  EXPECT_NE(launch.numbers(0)[0], launch.numbers(0)[0]);
}

}  // namespace
}  // namespace olm2::testing
