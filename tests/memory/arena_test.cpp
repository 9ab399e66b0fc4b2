#include "memory/arena.h"

#include <cstring>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;

std::string message_of(int64_t bytes) {
  try {
    const Arena arena(bytes);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Arena, IsZeroedAlignedAndWritableToTheLastByte) {
  for (const int64_t bytes : {int64_t{1}, int64_t{4096}, int64_t{5000}, int64_t{5} << 20}) {
    const Arena arena(bytes);
    EXPECT_EQ(arena.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.at(0)) % 4096, 0U);
    for (int64_t i = 0; i < bytes; i += 997) EXPECT_EQ(*arena.at(i), std::byte{0});
    std::memset(arena.at(0), 1, static_cast<size_t>(bytes));
    EXPECT_EQ(*arena.at(bytes - 1), std::byte{1});
  }
}

TEST(Arena, MayBeEmpty) {
  EXPECT_EQ(Arena(0).bytes(), 0);
  EXPECT_EQ(Arena().bytes(), 0);
}

TEST(Arena, MovesItsMemory) {
  Arena a(64);
  *a.at(5) = std::byte{7};
  std::byte* const base = a.at(0);
  Arena b(std::move(a));
  EXPECT_EQ(b.at(0), base);
  Arena c(4096);
  c = std::move(b);
  EXPECT_EQ(c.at(0), base);
  EXPECT_EQ(c.bytes(), 64);
  EXPECT_EQ(*c.at(5), std::byte{7});
}

TEST(Arena, RefusesMoreThanThereIsWithBothNumbers) {
  const int64_t too_much = int64_t{1} << 50;
  EXPECT_THAT(message_of(too_much), HasSubstr("arena: asked for 1125899906842624 bytes, "));
  EXPECT_THAT(message_of(too_much), HasSubstr(" are available (too little memory)"));
  EXPECT_THAT(message_of(-1), HasSubstr("asked for -1 bytes"));
  EXPECT_THAT(message_of(std::numeric_limits<int64_t>::max()), HasSubstr("are available"));
}

using ArenaDeathTest = ::testing::Test;

TEST(ArenaDeathTest, GuardsBothEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Arena arena(4096);
  volatile std::byte* const base = arena.at(0);
  EXPECT_DEATH(base[4096] = std::byte{1}, "");
  EXPECT_DEATH(base[-1] = std::byte{1}, "");
}

}  // namespace
}  // namespace olm2
