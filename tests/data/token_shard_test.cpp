#include "data/token_shard.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/data/scratch.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<uint32_t>;

template <typename T>
std::string little_endian(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

Ids all_of(const TokenShard& shard) {
  Ids ids(static_cast<size_t>(shard.size()));
  shard.read(0, ids);
  return ids;
}

std::string refusal(const std::filesystem::path& path, const std::string& tokenizer = "gpt2") {
  return message_of<Error>([&] { TokenShard(path).require(tokenizer_info(tokenizer)); });
}

std::string llmc_bytes(int32_t magic, int32_t version, int32_t count,
                       const std::vector<uint16_t>& ids) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return little_endian(header) + little_endian(ids);
}

TEST(TokenShard, ReadsWhatTheWriterWrote) {
  const Scratch scratch;
  const Ids ids = {0, 1, 255, 256, 50255, 50256, 7};
  const TokenShard shard(scratch.write_shard("a", ids));
  EXPECT_EQ(all_of(shard), ids);
  EXPECT_EQ(shard.header().format, ShardFormat::olm2);
  EXPECT_EQ(shard.header().token_width, 2U);
  EXPECT_EQ(shard.header().tokenizer, "gpt2");
  Ids part(3);
  shard.read(3, part);
  EXPECT_EQ(part, Ids({256, 50255, 50256}));
}

TEST(TokenShard, ReadsAShardWithoutTokens) {
  const Scratch scratch;
  const auto path = scratch.write("a.bin", shard_header_bytes(tokenizer_info("gpt2"), 0));
  EXPECT_EQ(TokenShard(path).size(), 0);
}

TEST(TokenShard, ReadsWideTokensOfALargeVocabulary) {
  const Scratch scratch;
  const TokenizerInfo large{.name = "large", .vocab_size = 100000, .separator = 0, .digest = 5};
  const Ids ids = {99999, 65536, 3};
  const auto path = scratch.write("a.bin", shard_header_bytes(large, 3) + little_endian(ids));
  const TokenShard shard(path);
  EXPECT_EQ(shard.header().token_width, 4U);
  EXPECT_EQ(all_of(shard), ids);
}

TEST(TokenShard, ReadsNanoGptsRawTokens) {
  const Scratch scratch;
  const std::vector<uint16_t> ids = {464, 262, 13, 50256, 11};
  const TokenShard shard(scratch.write("train.bin", little_endian(ids)));
  EXPECT_EQ(shard.header().format, ShardFormat::nanogpt);
  EXPECT_EQ(all_of(shard), Ids({464, 262, 13, 50256, 11}));
  EXPECT_NO_THROW(shard.require(tokenizer_info("gpt2")));
}

TEST(TokenShard, ReadsLlmCsTokens) {
  const Scratch scratch;
  const TokenShard shard(
      scratch.write("tiny_val.bin", llmc_bytes(20240520, 1, 3, {50256, 464, 262})));
  EXPECT_EQ(shard.header().format, ShardFormat::llmc);
  EXPECT_EQ(all_of(shard), Ids({50256, 464, 262}));
  EXPECT_THAT(refusal(shard.path(), "bytes"), HasSubstr("expected bytes"));
}

TEST(TokenShard, RefusesADamagedMagic) {
  const Scratch scratch;
  const auto path = scratch.write_shard("a", {1, 2, 3});
  std::string bytes = read_all(path);
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(~bytes[i]);
  EXPECT_THAT(refusal(scratch.write("b.bin", bytes)), HasSubstr("damaged magic"));
  for (size_t i = 0; i < 8; ++i) bytes[i] = 0;
  EXPECT_THAT(refusal(scratch.write("c.bin", bytes)), HasSubstr("damaged magic"));
  EXPECT_THAT(refusal(scratch.write("d.bin", llmc_bytes(20240521, 1, 2, {4, 5}))),
              HasSubstr("llm.c token file with a damaged magic"));
}

TEST(TokenShard, RefusesAnotherVersion) {
  const Scratch scratch;
  std::string bytes = read_all(scratch.write_shard("a", {1, 2, 3}));
  bytes[8] = 99;
  EXPECT_THAT(refusal(scratch.write("b.bin", bytes)),
              AllOf(HasSubstr("b.bin"), HasSubstr("version 99"), HasSubstr("expected 1")));
  EXPECT_THAT(refusal(scratch.write("c.bin", llmc_bytes(20240520, 7, 2, {4, 5}))),
              AllOf(HasSubstr("version 7"), HasSubstr("expected 1")));
}

TEST(TokenShard, RefusesAFileOfSeventeenBytes) {
  const Scratch scratch;
  const std::string whole = read_all(scratch.write_shard("a", {1, 2, 3}));
  EXPECT_THAT(refusal(scratch.write("b.bin", whole.substr(0, 17))),
              AllOf(HasSubstr("ends inside its header"), HasSubstr("17 bytes")));
  EXPECT_THAT(refusal(scratch.write("c.bin", std::string(17, '\x01'))),
              AllOf(HasSubstr("17 bytes"), HasSubstr("odd")));
  EXPECT_THAT(refusal(scratch.write("d.bin", llmc_bytes(20240520, 1, 3, {}).substr(0, 17))),
              AllOf(HasSubstr("ends inside its llm.c header"), HasSubstr("17 bytes")));
}

TEST(TokenShard, RefusesText) {
  const Scratch scratch;
  for (const std::string text : {"In the beginning", "odd", "{\"text\": \"a\"}\r\n",
                                 "\xD0\x9C\xD0\xB8\xD1\x80", "<html>\t</html>"}) {
    EXPECT_THAT(refusal(scratch.write("text.bin", text)),
                AllOf(HasSubstr("text.bin"), HasSubstr("looks like text"), HasSubstr("prepare")))
        << text;
  }
  std::string long_text;
  while (long_text.size() < 100000) long_text += "caf\xC3\xA9 ";
  EXPECT_THAT(refusal(scratch.write("text.bin", long_text)), HasSubstr("looks like text"));
}

TEST(TokenShard, RefusesRawIdsBeyondTheVocabulary) {
  const Scratch scratch;
  std::vector<uint16_t> ids(5000, 10);
  ids[4999] = 50257;
  const auto path = scratch.write("a.bin", little_endian(ids));
  EXPECT_THAT(refusal(path), AllOf(HasSubstr("50257"), HasSubstr("position 4999")));
  EXPECT_THAT(refusal(path, "bytes"), HasSubstr("257"));
}

TEST(TokenShard, RefusesABodyOfAnotherSizeThanTheHeaderPromises) {
  const Scratch scratch;
  const std::string header = shard_header_bytes(tokenizer_info("gpt2"), 1000);
  EXPECT_THAT(refusal(scratch.write("short.bin", header + std::string(1998, '\1'))),
              AllOf(HasSubstr("short.bin"), HasSubstr("2000 bytes"), HasSubstr("1998 bytes")));
  EXPECT_THAT(refusal(scratch.write("long.bin", header + std::string(2002, '\1'))),
              AllOf(HasSubstr("2000 bytes"), HasSubstr("2002 bytes")));
  EXPECT_THAT(refusal(scratch.write("wide.bin", header + std::string(4000, '\1'))),
              AllOf(HasSubstr("4000 bytes"), HasSubstr("tokens of 4 bytes"), HasSubstr("width")));
  EXPECT_THAT(refusal(scratch.write("llmc.bin", llmc_bytes(20240520, 1, 4, {1, 2, 3}))),
              AllOf(HasSubstr("8 bytes"), HasSubstr("6 bytes")));
}

TEST(TokenShard, RefusesACountThatNoFileHolds) {
  const Scratch scratch;
  std::string bytes = read_all(scratch.write_shard("a", {1, 2, 3}));
  bytes[23] = '\x80';  // Twice the count overflows to the right size.
  EXPECT_THAT(refusal(scratch.write("b.bin", bytes)), HasSubstr("too many bytes"));
}

TEST(TokenShard, RefusesTokensOfAnotherTokenizer) {
  const Scratch scratch;
  const auto path = scratch.write_shard("a", {1, 2, 3}, "bytes");
  EXPECT_THAT(refusal(path, "gpt2"),
              AllOf(HasSubstr("tokenizer bytes"), HasSubstr("expected gpt2")));
  std::string bytes = read_all(path);
  bytes[24] = static_cast<char>(bytes[24] ^ 1);
  EXPECT_THAT(refusal(scratch.write("b.bin", bytes), "bytes"), HasSubstr("digest"));
}

TEST(TokenShard, RefusesEmptyAndMissingFilesAndDirectories) {
  const Scratch scratch;
  EXPECT_THAT(refusal(scratch.write("a.bin", "")), HasSubstr("empty"));
  EXPECT_THAT(refusal(scratch.path() / "none.bin"), HasSubstr("none.bin: No such file"));
  EXPECT_THAT(refusal(scratch.path()), HasSubstr("is a directory"));
}

}  // namespace
}  // namespace olm2
