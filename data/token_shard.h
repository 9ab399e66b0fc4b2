// Files of token ids: our own format, and two that other projects write.
//
//   olm2     64 bytes of header (ShardHeader in data/README.md), then uint16 or uint32 ids
//   llm.c    256 int32 {20240520, 1, count, 0 ...}, then uint16 ids of GPT-2
//   nanoGPT  uint16 ids and nothing else; see data/README.md for how it is told from other files
//
// All numbers are little-endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "data/mapped_file.h"
#include "data/tokenizer.h"

namespace olm2 {

enum class ShardFormat : uint8_t { olm2, llmc, nanogpt };
std::string_view to_string(ShardFormat format);

struct ShardHeader {
  ShardFormat format = ShardFormat::olm2;
  uint32_t version = 1;
  uint32_t token_width = 2;  // Bytes per id: 2 or 4.
  int64_t count = 0;         // Ids in the file.
  int64_t data_offset = 0;   // Bytes before the first id.
  std::string tokenizer{};   // Empty: the file does not say (nanoGPT).
  uint64_t digest = 0;       // Of the tokenizer; 0: the file does not say (llm.c, nanoGPT).
};

inline constexpr int64_t kShardHeaderBytes = 64;

// The 64 bytes an olm2 shard begins with.
std::string shard_header_bytes(const TokenizerInfo& tokenizer, int64_t count);
// Bytes per id in shards of this tokenizer.
uint32_t token_width_of(const TokenizerInfo& tokenizer);

// A shard, mapped and found to be whole.
class TokenShard {
 public:
  // Reads any of the three formats.  Throws Error that names the file, what was found and what
  // was expected.
  explicit TokenShard(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const ShardHeader& header() const { return header_; }
  int64_t size() const { return header_.count; }

  // Throws Error unless the ids were, or in nanoGPT's format could have been, made by `tokenizer`.
  void require(const TokenizerInfo& tokenizer) const;

  // Ids [begin, begin + out.size()), which must lie inside.
  void read(int64_t begin, std::span<uint32_t> out) const;

 private:
  MappedFile file_;
  ShardHeader header_;
};

}  // namespace olm2
