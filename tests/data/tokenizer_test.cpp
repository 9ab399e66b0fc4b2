#include "data/tokenizer.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace olm2 {
namespace {

using Ids = std::vector<uint32_t>;

const std::vector<std::string>& hard_documents() {
  static const std::vector<std::string> documents = {
      "one\r\ntwo\r\n\r\nthree\r",
      std::string("a\0b\0\0c", 6),
      "smile \xF0\x9F\x98\x80\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 done",
      "bad \xFF\xFE bytes \xC3(\xE2\x82 \xED\xA0\x80 \xF4\x90\x80\x80 \xC0\xAF",
      "\x80",
      "caf\xC3",
      " \xC2\xA0\xE2\x80\x83 \xE1\xA0\x8E \xC2\x85\x1C end",
      "<|endoftext|>",
      ""};
  return documents;
}

TEST(Tokenizer, EncodesLikeGpt2AndDecodesToTheSameBytes) {
  const auto tokenizer = make_tokenizer("gpt2");
  std::ifstream vectors(OLM2_SOURCE_DIR "/tests/data/encode_vectors.jsonl");
  int lines = 0;
  for (std::string line; std::getline(vectors, line); ++lines) {
    const auto vector = nlohmann::json::parse(line);
    const auto text = vector.at("text").get<std::string>();
    const auto ids = vector.at("ids").get<Ids>();
    EXPECT_EQ(tokenizer->encode(text), ids) << "line " << lines + 1;
    EXPECT_EQ(tokenizer->decode(ids), text) << "line " << lines + 1;
  }
  EXPECT_EQ(lines, 383);
}

TEST(Tokenizer, GivesBackAnyBytes) {
  for (const char* name : {"gpt2", "bytes"}) {
    const auto tokenizer = make_tokenizer(name);
    for (const std::string& text : hard_documents()) {
      const Ids ids = tokenizer->encode(text);
      EXPECT_EQ(tokenizer->decode(ids), text) << name;
      for (const uint32_t id : ids) EXPECT_LT(id, tokenizer->info().separator);
    }
    for (int byte = 0; byte < 256; ++byte) {
      const std::string text(1, static_cast<char>(byte));
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << name << " byte " << byte;
    }
  }
}

TEST(Tokenizer, KnowsItsSizes) {
  const TokenizerInfo gpt2 = make_tokenizer("gpt2")->info();
  EXPECT_EQ(gpt2.vocab_size, 50257U);
  EXPECT_EQ(gpt2.separator, 50256U);
  const TokenizerInfo bytes = make_tokenizer("bytes")->info();
  EXPECT_EQ(bytes.vocab_size, 257U);
  EXPECT_EQ(bytes.separator, 256U);
  EXPECT_NE(gpt2.digest, bytes.digest);
  EXPECT_EQ(gpt2.digest, tokenizer_info("gpt2").digest);
}

TEST(Tokenizer, EncodesTheSeparatorsTextAsText) {
  const auto tokenizer = make_tokenizer("gpt2");
  const Ids ids = tokenizer->encode("a<|endoftext|>b");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 50256U), 0);
  EXPECT_GT(ids.size(), 3U);
}

TEST(Tokenizer, DecodesTheSeparatorAsText) {
  EXPECT_EQ(make_tokenizer("gpt2")->decode(Ids{64, 50256}), "a<|endoftext|>");
  EXPECT_EQ(make_tokenizer("bytes")->decode(Ids{97, 256}), "a<|endoftext|>");
}

TEST(Tokenizer, KeepsInvalidBytesApartFromTheTextAround) {
  const auto tokenizer = make_tokenizer("gpt2");
  Ids expected = tokenizer->encode("hello");
  for (const char* part : {"\xFF", " world"}) {
    const Ids ids = tokenizer->encode(part);
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(tokenizer->encode("hello\xFF world"), expected);
}

// The white space of GPT-2 is Unicode's: U+0085 is, U+180E is not.
TEST(Tokenizer, TakesWhiteSpaceFromUnicode) {
  const auto tokenizer = make_tokenizer("gpt2");
  const auto together = [&](const std::string& left, const std::string& right) {
    Ids ids = tokenizer->encode(left);
    const Ids more = tokenizer->encode(right);
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  };
  EXPECT_EQ(tokenizer->encode("!\xC2\x85"), together("!", "\xC2\x85"));
  // Were it white space, the space before it would be a piece of its own.
  EXPECT_EQ(tokenizer->encode(" \xE1\xA0\x8E"
                              "a"),
            Ids({28053, 254, 236, 64}));
}

TEST(Tokenizer, TakesAMegabyteOfOneLetterInItsStride) {
  const auto tokenizer = make_tokenizer("gpt2");
  for (const char letter : {'a', ' ', '\xFF'}) {
    const std::string text(1 << 20, letter);
    const auto start = std::chrono::steady_clock::now();
    const Ids ids = tokenizer->encode(text);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(tokenizer->decode(ids), text);
    // A quadratic way takes 10^12 steps; this leaves room for sanitizers on a busy machine.
    EXPECT_LT(seconds.count(), 60) << "letter " << static_cast<int>(letter);
  }
}

TEST(Tokenizer, ClonesEncodeAlikeOnTheirOwnThreads) {
  const auto tokenizer = make_tokenizer("gpt2");
  const std::string text = "In the beginning God created the heaven and the earth.";
  const Ids expected = tokenizer->encode(text);
  std::vector<Ids> found(4);
  std::vector<std::thread> threads;
  for (Ids& ids : found) {
    threads.emplace_back([&ids, &text, clone = std::shared_ptr(tokenizer->clone())] {
      for (int i = 0; i < 10; ++i) ids = clone->encode(text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

TEST(Tokenizer, RefusesIdsAndNamesItDoesNotKnow) {
  EXPECT_THROW(make_tokenizer("gpt2")->decode(Ids{50257}), Error);
  EXPECT_THROW(make_tokenizer("bytes")->decode(Ids{257}), Error);
  EXPECT_THROW(make_tokenizer("gpt3"), Error);
}

}  // namespace
}  // namespace olm2
