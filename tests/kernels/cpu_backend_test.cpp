#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/null_backend.h"
#include "kernels/reference_backend.h"
#include "larger_samples.h"
#include "one_node.h"

namespace olm2::testing {
namespace {

double largest(const std::vector<double>& numbers) {
  double found = 0;
  for (const double number : numbers) found = std::max(found, std::abs(number));
  return found;
}

// The greatest difference to the reference in double, relative to the largest element.
double error_of(const std::vector<double>& got, const std::vector<double>& want) {
  double found = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(got[i] - want[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    found = std::max(found, difference);
  }
  return found / std::max(largest(want), 1e-30);
}

void expect_close_to_reference(const CpuOptions& options) {
  CpuBackend cpu(options);
  ReferenceBackend reference;
  for (const NamedSample& named : every_sample()) {
    const OneNode single(*named.op, named.sample);
    const OneNode twice(*named.op, named.sample, true);
    const auto inputs = draw_inputs(named.sample);
    Launch fast(cpu, single, inputs);
    Launch exact(reference, twice, inputs);
    fast();
    exact();
    for (size_t output = 0; output < fast.outputs(); ++output) {
      EXPECT_LT(error_of(fast.numbers(output), exact.numbers(output)), 3e-6)
          << describe(single) << ", output " << output;
    }
  }
}

TEST(CpuBackend, AgreesWithTheReferenceInDoubleOnEverySample) {
  expect_close_to_reference({.threads = 2});
}

TEST(CpuBackend, AgreesWithTheReferenceWithoutOnednn) {
  expect_close_to_reference({.threads = 2, .use_onednn = false});
}

TEST(CpuBackend, AgreesWithTheReferenceOnThreeThreads) {
  expect_close_to_reference({.threads = 3, .use_onednn = false});
}

TEST(CpuBackend, GivesTheSameBitsInPlace) {
  for (const bool use_onednn : {true, false}) {
    CpuBackend cpu({.threads = 2, .use_onednn = use_onednn});
    for (const NamedSample& named : every_sample()) {
      const OneNode one(*named.op, named.sample);
      const auto inputs = draw_inputs(named.sample);
      const std::string apart = bits_of(cpu, one, inputs);
      const auto pairs = in_place_of(one.get());
      for (const InPlace& pair : pairs) {
        EXPECT_TRUE(bits_of(cpu, one, inputs, {.in_place = {pair}}) == apart)
            << describe(one) << ", output " << pair.output << " on input " << pair.input;
      }
      // As many outputs in place as there are, each on the last input allowed.
      EXPECT_TRUE(bits_of(cpu, one, inputs, {.in_place = pairs}) == apart) << describe(one);
    }
  }
}

TEST(CpuBackend, GivesTheSameBitsAgainAndElsewhere) {
  for (const bool use_onednn : {true, false}) {
    CpuBackend cpu({.threads = 2, .use_onednn = use_onednn});
    for (const NamedSample& named : every_sample()) {
      const OneNode one(*named.op, named.sample);
      const auto inputs = draw_inputs(named.sample);
      const std::string first = bits_of(cpu, one, inputs);
      EXPECT_TRUE(bits_of(cpu, one, inputs) == first) << describe(one);
      EXPECT_TRUE(bits_of(cpu, one, inputs, {.shifted = true}) == first) << describe(one);
    }
  }
}

TEST(CpuBackend, GivesTheSameBitsOnOneAndThreeThreadsButForProducts) {
  CpuBackend one_thread({.threads = 1});
  CpuBackend three_threads({.threads = 3});
  for (const NamedSample& named : every_sample()) {
    if (named.op->name.starts_with("linear")) continue;
    const OneNode one(*named.op, named.sample);
    const auto inputs = draw_inputs(named.sample);
    EXPECT_TRUE(bits_of(one_thread, one, inputs) == bits_of(three_threads, one, inputs))
        << describe(one);
  }
}

TEST(CpuBackend, WritesNoByteOutsideOfOutputsAndWorkspace) {
  for (const bool use_onednn : {true, false}) {
    CpuBackend cpu({.threads = 2, .use_onednn = use_onednn});
    for (const NamedSample& named : every_sample()) {
      const OneNode one(*named.op, named.sample);
      Launch launch(cpu, one, draw_inputs(named.sample));
      launch();
      EXPECT_TRUE(launch.are_fences_intact()) << describe(one);
    }
  }
}

TEST(CpuBackend, RunsDoubleOnTheReference) {
  const Sample sample{.inputs = {{{3, 5}, DType::f64}, {{3, 5}, DType::f64}}};
  const OneNode one(find_op("add"), sample);
  CpuBackend cpu;
  ReferenceBackend reference;
  const auto inputs = draw_inputs(sample);
  EXPECT_EQ(bits_of(cpu, one, inputs), bits_of(reference, one, inputs));
}

TEST(CpuBackend, LeavesParametersAloneWhenTheNormIsNotFinite) {
  CpuBackend cpu;
  const Sample sample = find_op("adamw").samples()[0];
  const OneNode one(find_op("adamw"), sample);
  for (const double norm : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    auto inputs = draw_inputs(sample);
    inputs[4] = {norm};
    Launch launch(cpu, one, inputs);
    launch();
    EXPECT_EQ(launch.numbers(0), inputs[0]);
    EXPECT_EQ(launch.numbers(1), inputs[2]);
    EXPECT_EQ(launch.numbers(2), inputs[3]);
  }
}

TEST(CpuBackend, IgnoresNegativeTargets) {
  const Sample sample{.inputs = {{{4, 5}, DType::f32}, {{4}, DType::i32}},
                      .attrs = {{"classes", 5}},
                      .integer_limit = {0, 5}};
  const OneNode one(find_op("softmax_cross_entropy"), sample);
  CpuBackend cpu;
  auto inputs = draw_inputs(sample);
  for (const std::vector<double>& targets :
       {std::vector<double>{-1, 2, -1, 0}, std::vector<double>{-1, -1, -1, -1}}) {
    inputs[1] = targets;
    ReferenceBackend reference;
    Launch fast(cpu, one, inputs);
    Launch exact(reference, one, inputs);
    fast();
    exact();
    EXPECT_NEAR(fast.numbers(0)[0], exact.numbers(0)[0], 1e-6);
  }
}

TEST(CpuBackend, KeepsLogitsOfAnySizeFinite) {
  const Sample sample{.inputs = {{{1, 5000}, DType::f32}, {{1}, DType::i32}},
                      .attrs = {{"classes", 5000}},
                      .integer_limit = {0, 5000}};
  const OneNode one(find_op("softmax_cross_entropy"), sample);
  CpuBackend cpu;
  auto inputs = draw_inputs(sample);
  for (size_t i = 0; i < 5000; ++i) inputs[0][i] = i < 2500 ? -3e4 : 3e4;
  inputs[1] = {4999};
  Launch launch(cpu, one, inputs);
  launch();
  EXPECT_NEAR(launch.numbers(0)[0], std::log(2500.0), 1e-2);
}

TEST(CpuBackend, PassesNotANumberOn) {
  CpuBackend cpu;
  for (const std::string_view op : {"gelu", "attention", "softmax_cross_entropy", "layer_norm"}) {
    const Sample sample = find_op(op).samples()[0];
    const OneNode one(find_op(op), sample);
    auto inputs = draw_inputs(sample);
    inputs[0][0] = std::nan("");
    Launch launch(cpu, one, inputs);
    launch();
    EXPECT_TRUE(std::ranges::any_of(launch.numbers(0), [](double x) { return std::isnan(x); }))
        << op;
  }
}

TEST(CpuBackend, RefusesTokensOutsideOfTheVocabulary) {
  const Sample sample{.inputs = {{{1, 2}, DType::i32}, {{5, 3}, DType::f32}, {{2, 3}, DType::f32}},
                      .integer_limit = {5, 0, 0}};
  const OneNode one(find_op("embedding"), sample);
  CpuBackend cpu;
  auto inputs = draw_inputs(sample);
  inputs[0] = {1, 5};
  Launch launch(cpu, one, inputs);
  EXPECT_THROW(launch(), Error);
}

TEST(CpuBackend, SaysWhatItIsMadeOf) {
  CpuBackend eigen({.threads = 1, .use_onednn = false});
  EXPECT_EQ(eigen.description(), "cpu (Eigen, 1 thread)");
  EXPECT_EQ(eigen.name(), "cpu");
  EXPECT_EQ(eigen.alignment(), 64);
  EXPECT_THROW(CpuBackend({.threads = -1}), Error);
}

TEST(NullBackend, AsksForTheGivenWorkspaceAndWritesNothing) {
  NullBackend backend(4096);
  const Sample sample = find_op("add").samples()[0];
  const OneNode one(find_op("add"), sample);
  EXPECT_EQ(backend.prepare(one.graph, one.get())->workspace_bytes(), 4096);
  Launch launch(backend, one, draw_inputs(sample));
  const std::string before = launch.bits();
  launch();
  EXPECT_EQ(launch.bits(), before);
}

}  // namespace
}  // namespace olm2::testing
