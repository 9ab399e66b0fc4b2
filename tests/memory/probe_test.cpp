#include "memory/probe.h"

#include <chrono>
#include <iostream>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"

namespace olm2 {
namespace {

TEST(Probe, MeasuresALinkBesideComputing) {
  int runs = 0;
  const auto compute = [&] {
    ++runs;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  const LinkProfile link = probe_link(Lane::device_to_host, compute,
                                      {.bytes = int64_t{1} << 20, .copies = 5, .percentile = 0.1});
  EXPECT_GE(runs, 10);
  EXPECT_GT(link.bytes_per_s, 1e6);
  EXPECT_LT(link.bytes_per_s, 1e13);
  EXPECT_GT(link.latency_s, 0);
  EXPECT_LT(link.latency_s, 1);
  EXPECT_GE(link.compute_slowdown, 1);
}

// For memory/README.md: what this machine gives beside a sum that streams through memory and one
// that stays in registers.
TEST(ProbeSlow, TellsWhatTheHostLinkGives) {
  const std::vector<float> numbers(size_t{16} << 20, 1.0F);
  volatile float sink = 0;
  const auto stream = [&] { sink = std::accumulate(numbers.begin(), numbers.end(), 0.0F); };
  const auto registers = [&] {
    float number = 1;
    for (int i = 0; i < 10'000'000; ++i) number = number * 0.999F + 0.001F;
    sink = number;
  };
  for (const Lane lane : {Lane::device_to_host, Lane::host_to_device}) {
    for (const bool streams : {false, true}) {
      const LinkProfile link = streams ? probe_link(lane, stream) : probe_link(lane, registers);
      std::cout << to_string(lane) << " beside " << (streams ? "memory" : "registers") << ": "
                << link.bytes_per_s / 1e9 << " GB/s, " << link.latency_s * 1e6
                << " us, compute slowdown " << link.compute_slowdown << '\n';
      EXPECT_GT(link.bytes_per_s, 0);
    }
  }
}

TEST(Probe, PassesOnWhatComputingThrows) {
  const auto broken = [] { throw Error("no"); };
  EXPECT_THROW(probe_link(Lane::host_to_device, broken, {.bytes = 64, .copies = 1}), Error);
  EXPECT_THROW(probe_link(Lane::host_to_device, [] {}, {.bytes = 0, .copies = 1}), Error);
}

}  // namespace
}  // namespace olm2
