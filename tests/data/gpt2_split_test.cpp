#include "data/gpt2_split.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace olm2 {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces split(std::string_view text) {
  Gpt2Splitter splitter;
  Pieces pieces;
  splitter.split(text, pieces);
  return pieces;
}

TEST(Gpt2Split, KeepsTheSpaceWithTheWordAfterIt) {
  EXPECT_EQ(split("We've  12 apples,\n\n ok?"),
            Pieces({"We", "'ve", " ", " 12", " apples", ",", "\n\n", " ok", "?"}));
}

TEST(Gpt2Split, MakesInvalidBytesTheirOwnPieces) {
  EXPECT_EQ(split("ab\xFF\xFE c\xC3"), Pieces({"ab", "\xFF\xFE", " c", "\xC3"}));
}

// Random text of what is hard to split; halves cut at a safe place split like the whole.
TEST(Gpt2Split, SplitsHalvesOfASafeCutLikeTheWhole) {
  const std::vector<std::string> parts = {" ",   "\n",       "\r\n", "\t", "a",           "Bc",
                                          "'s",  "'",        "12",   "!",  "\xC3\xA9",    "\xFF",
                                          "'re", "\xC2\xA0", "  ",   ".",  "\xE2\x80\x83"};
  std::mt19937 random(3);
  int cuts = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (uint32_t k = random() % 20; k > 0; --k) text += parts[random() % parts.size()];
    const Pieces whole = split(text);
    for (size_t at = first_safe_cut(text, 0); at < text.size();
         at = first_safe_cut(text, at + 1), ++cuts) {
      Pieces halves = split(std::string_view(text).substr(0, at));
      for (const std::string_view piece : split(std::string_view(text).substr(at))) {
        halves.push_back(piece);
      }
      ASSERT_EQ(halves, whole) << text << " cut at " << at;
    }
  }
  EXPECT_GT(cuts, 1000);
}

TEST(Gpt2Split, FindsSafeCuts) {
  EXPECT_EQ(first_safe_cut("ab cd ef", 0), 2U);
  EXPECT_EQ(first_safe_cut("ab cd ef", 3), 5U);
  EXPECT_EQ(first_safe_cut("ab cd ef", 6), 8U);
  EXPECT_EQ(last_safe_cut("ab cd ef"), 5U);
  EXPECT_EQ(last_safe_cut("  abc"), 0U);
  EXPECT_EQ(last_safe_cut(""), 0U);
  EXPECT_EQ(first_safe_cut("", 0), 0U);
}

}  // namespace
}  // namespace olm2
