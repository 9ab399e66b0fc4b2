#include "data/utf8.h"

#include <gtest/gtest.h>

namespace olm2 {
namespace {

TEST(Utf8, KnowsTheFirstAndLastCharacterOfEachLength) {
  EXPECT_EQ(utf8_character_bytes(std::string_view("\0", 1)), 1U);
  EXPECT_EQ(utf8_character_bytes("\x7F"), 1U);
  EXPECT_EQ(utf8_character_bytes("\xC2\x80"), 2U);
  EXPECT_EQ(utf8_character_bytes("\xDF\xBF"), 2U);
  EXPECT_EQ(utf8_character_bytes("\xE0\xA0\x80"), 3U);
  EXPECT_EQ(utf8_character_bytes("\xED\x9F\xBF"), 3U);
  EXPECT_EQ(utf8_character_bytes("\xEE\x80\x80"), 3U);
  EXPECT_EQ(utf8_character_bytes("\xEF\xBF\xBF"), 3U);
  EXPECT_EQ(utf8_character_bytes("\xF0\x90\x80\x80"), 4U);
  EXPECT_EQ(utf8_character_bytes("\xF4\x8F\xBF\xBF"), 4U);
}

TEST(Utf8, RefusesOverlongSurrogateTooLargeAndCut) {
  for (const char* bytes :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC2", "\xE2\x82",
        "\xF0\x9F\x98", "\xC2\x41", "\xE2\x82\x41", "\xF0\x9F\x98\x41"}) {
    EXPECT_EQ(utf8_character_bytes(bytes), 0U) << bytes;
  }
  EXPECT_EQ(utf8_character_bytes(""), 0U);
}

TEST(Utf8, PartsValidFromInvalid) {
  const std::string_view text = "a\xC3\xA9\xFF\x80z";
  EXPECT_EQ(valid_utf8_prefix(text), 3U);
  EXPECT_EQ(invalid_utf8_prefix(text.substr(3)), 2U);
  EXPECT_EQ(invalid_utf8_prefix(text), 0U);
  EXPECT_EQ(valid_utf8_prefix(""), 0U);
}

}  // namespace
}  // namespace olm2
