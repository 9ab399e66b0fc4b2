#include "data/byte_pair.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/gpt2_merges.h"
#include "tests/data/scratch.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<uint32_t>;

// The definition, in time n^2: find the earliest learned pair anywhere, join it everywhere.
Ids encode_slowly(const BytePairVocabulary& vocabulary, std::string_view piece) {
  Ids ids;
  for (const char c : piece) {
    ids.push_back(vocabulary.id_of_byte[static_cast<unsigned char>(c)]);
  }
  for (;;) {
    uint32_t best = 0xFFFFFFFFU;
    const auto joined = [&](size_t i) {
      const auto found = vocabulary.joined.find((uint64_t{ids[i]} << 32U) | ids[i + 1]);
      return found == vocabulary.joined.end() ? 0xFFFFFFFFU : found->second;
    };
    for (size_t i = 0; i + 1 < ids.size(); ++i) best = std::min(best, joined(i));
    if (best == 0xFFFFFFFFU) return ids;
    Ids next;
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool join = i + 1 < ids.size() && joined(i) == best;
      next.push_back(join ? best : ids[i]);
      if (join) ++i;
    }
    ids = next;
  }
}

TEST(BytePair, JoinsLikeItsDefinition) {
  const BytePairVocabulary vocabulary = parse_gpt2_merges(gpt2_merges());
  BytePairEncoder encoder(vocabulary);
  std::mt19937 random(7);
  for (const std::string letters : {"a", "ab", "=-", "etaoin", " thern", "\xE2\x80\x99\x9C"}) {
    for (int i = 0; i < 300; ++i) {
      std::string piece(random() % 40, '?');
      for (char& c : piece) c = letters[random() % letters.size()];
      Ids ids;
      encoder.encode(piece, ids);
      ASSERT_EQ(ids, encode_slowly(vocabulary, piece)) << piece;
    }
  }
}

TEST(BytePair, ReadsTheWholeVocabulary) {
  const BytePairVocabulary vocabulary = parse_gpt2_merges(gpt2_merges());
  EXPECT_EQ(vocabulary.bytes_of_id.size(), 50256U);
  EXPECT_EQ(vocabulary.joined.size(), 50000U);
  EXPECT_EQ(vocabulary.bytes_of_id[0], "!");
  EXPECT_EQ(vocabulary.bytes_of_id[220], " ");
  EXPECT_EQ(vocabulary.bytes_of_id[256], " t");
  EXPECT_EQ(vocabulary.bytes_of_id[50255], " gazed");
  Ids bytes(vocabulary.id_of_byte.begin(), vocabulary.id_of_byte.end());
  std::sort(bytes.begin(), bytes.end());
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(bytes[i], i);
}

TEST(BytePair, NamesTheLineOfABrokenVocabulary) {
  const auto refusal = [](std::string_view text) {
    return message_of<Error>([&] { parse_gpt2_merges(text); });
  };
  EXPECT_EQ(refusal("#version: 0.2\na b\nab c\n"), "");
  EXPECT_THAT(refusal("#version: 0.2\na b\nabc\n"), HasSubstr("merges.txt:3: expected two"));
  EXPECT_THAT(refusal("a b\nax b\n"), HasSubstr("merges.txt:2: joins a symbol that no earlier"));
  EXPECT_THAT(refusal("a b\na b\n"), HasSubstr("merges.txt:2: makes a symbol twice"));
  EXPECT_THAT(refusal("a \xE2\x82\xAC\n"), HasSubstr("merges.txt:1: a character outside"));
}

}  // namespace
}  // namespace olm2
