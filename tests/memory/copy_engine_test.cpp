#include "memory/copy_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace olm2 {
namespace {

using Bytes = std::vector<std::byte>;
using std::chrono::milliseconds;

constexpr Lane kOut = Lane::device_to_host;
constexpr Lane kBack = Lane::host_to_device;

Bytes filled(size_t count, int value) {
  return Bytes(count, static_cast<std::byte>(value));
}

void fill(Bytes& bytes, int value) {
  std::ranges::fill(bytes, static_cast<std::byte>(value));
}

Copy copy_of(Lane lane, const Bytes& source, Bytes& target, std::vector<Event> after = {}) {
  return {.lane = lane,
          .source = source.data(),
          .target = target.data(),
          .bytes = static_cast<int64_t>(source.size()),
          .after = std::move(after),
          .poison_before = {},
          .poison_after = {}};
}

void wait_for(CopyEngine& engine, Lane lane, int32_t count) {
  const Event event{.lane = lane, .count = count};
  engine.wait({&event, 1});
}

TEST(CopyEngine, ReplaysAProgramStepAfterStep) {
  Bytes device = filled(1000, 1);
  Bytes host = filled(1000, 0);
  Bytes again = filled(1000, 0);
  CopyEngine engine({{copy_of(kOut, device, host), copy_of(kBack, host, again, {{kOut, 1}})}});
  for (int step = 1; step <= 200; ++step) {
    fill(device, step);
    engine.begin(0);
    engine.finish();
    ASSERT_EQ(host, device);
    ASSERT_EQ(again, device);
  }
}

TEST(CopyEngine, CopiesNothingBeforeWhatItWaitsFor) {
  Bytes device = filled(64, 1);
  Bytes host = filled(64, 0);
  CopyEngine engine({{copy_of(kOut, device, host, {{Lane::compute, 2}})}});
  for (int step = 2; step < 50; ++step) {
    engine.begin(0);
    engine.announce(1);
    if (step % 10 == 0) std::this_thread::sleep_for(milliseconds(2));  // Lets the lane fall asleep.
    fill(device, step);  // A read too early would be a race, and an old value.
    engine.announce(2);
    wait_for(engine, kOut, 1);
    ASSERT_EQ(host, device);
    fill(device, 0);
    engine.finish();
  }
}

TEST(CopyEngine, KeepsTheOrderOfALane) {
  Bytes source = filled(64, 0);
  std::vector<int> order;
  CopyEngineOptions options;
  options.transfer[index_of(kOut)] = [&](const Copy& copy) {
    order.push_back(static_cast<int>(copy.bytes));
  };
  CopyEngine::Program program;
  for (int i = 0; i < 20; ++i) {
    program.push_back(copy_of(kOut, source, source));
    program.back().bytes = i;
  }
  CopyEngine engine({program, {}}, options);
  engine.begin(0);
  wait_for(engine, kOut, 20);
  std::vector<int> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(i);
  EXPECT_EQ(order, expected);
  engine.finish();
  engine.begin(1);  // A program without copies.
  engine.finish();
  EXPECT_EQ(order.size(), 20U);
}

TEST(CopyEngine, MovesBothDirectionsAtOnce) {
  Bytes bytes = filled(64, 1);
  std::atomic<int> running{0};
  std::atomic<bool> met{false};
  const auto meet = [&](const Copy&) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    if (++running == 2) met = true;
    while (!met && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    --running;
  };
  CopyEngineOptions options;
  for (const Lane lane : {kOut, kBack}) options.transfer[index_of(lane)] = meet;
  CopyEngine engine({{copy_of(kOut, bytes, bytes), copy_of(kBack, bytes, bytes)}}, options);
  engine.begin(0);
  engine.finish();
  EXPECT_TRUE(met);
}

TEST(CopyEngine, CopiesAsSlowlyAsAsked) {
  Bytes source = filled(1000, 1);
  Bytes target = filled(1000, 0);
  CopyEngineOptions options;
  options.throttle[index_of(kOut)] = 50e3;  // 20 ms.
  CopyEngine engine({{copy_of(kOut, source, target)}}, options);
  engine.begin(0);
  engine.finish();
  EXPECT_GE(engine.times(0)[0].end_s - engine.times(0)[0].start_s, 0.02);
  EXPECT_EQ(target, source);
}

// One lane fills a place, the other empties it.  Counts the steps in which it was emptied first.
// The copies move no bytes: without the wait that would be a data race.
int steps_in_wrong_order(std::vector<Event> waits_of_second) {
  Bytes bytes = filled(64, 0);
  std::atomic<bool> is_full{false};
  std::atomic<int> wrong{0};
  CopyEngineOptions options;
  options.max_delay_s = 1e-3;
  options.delay_seed = 7;
  options.transfer[index_of(kOut)] = [&](const Copy&) { is_full = true; };
  options.transfer[index_of(kBack)] = [&](const Copy&) { wrong += is_full ? 0 : 1; };
  CopyEngine engine(
      {{copy_of(kOut, bytes, bytes), copy_of(kBack, bytes, bytes, std::move(waits_of_second))}},
      options);
  for (int step = 0; step < 40; ++step) {
    is_full = false;
    engine.begin(0);
    engine.finish();
  }
  return wrong;
}

TEST(CopyEngine, DelaysShowAMissingWait) {
  EXPECT_EQ(steps_in_wrong_order({{kOut, 1}}), 0);
  EXPECT_GT(steps_in_wrong_order({}), 0);
}

TEST(CopyEngine, PoisonsBeforeAndAfter) {
  Bytes device = filled(64, 1);
  Bytes host = filled(128, 2);
  Copy copy = copy_of(kOut, device, host);
  copy.poison_before = {{host.data(), 128}};
  copy.poison_after = {{device.data(), 64}};
  CopyEngine engine({{copy}});
  engine.begin(0);
  engine.finish();
  EXPECT_EQ(host[63], std::byte{1});
  EXPECT_EQ(host[64], std::byte{0xff});
  EXPECT_EQ(device, filled(64, 0xff));
}

TEST(CopyEngine, PassesOnWhatALaneThrowsAndGoesOnWithTheNextStep) {
  Bytes bytes = filled(64, 1);
  bool is_broken = true;
  CopyEngineOptions options;
  options.transfer[index_of(kOut)] = [&](const Copy&) {
    if (is_broken) throw Error("the disk is full");
  };
  // The other lane, and the computing thread, wait for what never comes.
  CopyEngine engine({{copy_of(kOut, bytes, bytes),
                      copy_of(kBack, bytes, bytes, {{kOut, 1}, {Lane::compute, 1}})}},
                    options);
  engine.begin(0);
  EXPECT_THROW(wait_for(engine, kBack, 1), Error);
  engine.abandon();
  engine.begin(0);
  EXPECT_THROW(engine.finish(), Error);
  is_broken = false;
  engine.begin(0);
  engine.announce(1);
  EXPECT_NO_THROW(engine.finish());
}

TEST(CopyEngine, AbandonsAStepThatCannotGoOn) {
  Bytes bytes = filled(64, 1);
  Bytes host = filled(64, 0);
  CopyEngine engine({{copy_of(kOut, bytes, host, {{Lane::compute, 1}})}});
  engine.abandon();  // Nothing has begun.
  engine.begin(0);
  engine.abandon();
  EXPECT_EQ(host, filled(64, 0));
  engine.begin(0);
  engine.announce(1);
  engine.finish();
  EXPECT_EQ(host, bytes);
  engine.begin(0);  // And the destructor abandons this one.
}

}  // namespace
}  // namespace olm2
