#include "memory/probe.h"

#include <chrono>
#include <thread>

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

TEST(Probe, PassesOnWhatComputingThrows) {
  const auto broken = [] { throw Error("no"); };
  EXPECT_THROW(probe_link(Lane::host_to_device, broken, {.bytes = 64, .copies = 1}), Error);
  EXPECT_THROW(probe_link(Lane::host_to_device, [] {}, {.bytes = 0, .copies = 1}), Error);
}

}  // namespace
}  // namespace olm2
