#include "data/token_shard.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "data/digest.h"
#include "data/shard_header.h"

namespace olm2 {

std::string_view to_string(ShardFormat format) {
  switch (format) {
    case ShardFormat::olm2:
      return "olm2";
    case ShardFormat::llmc:
      return "llm.c";
    case ShardFormat::nanogpt:
      return "nanoGPT";
  }
  ensure(false, "unknown ShardFormat");
  return "";
}

TokenShard::TokenShard(const std::filesystem::path& path)
    : file_(path), header_(parse_shard_header(path, file_.bytes())) {}

void TokenShard::require(const TokenizerInfo& tokenizer) const {
  const std::string file = path().string();
  if (!header_.tokenizer.empty() && header_.tokenizer != tokenizer.name) {
    throw Error(file + ": tokens of tokenizer " + header_.tokenizer + ", expected " +
                tokenizer.name + "; set data.tokenizer = \"" + header_.tokenizer +
                "\" or prepare the text again");
  }
  if (header_.digest != 0 && header_.digest != tokenizer.digest) {
    throw Error(file + ": tokenizer " + tokenizer.name + " with digest " +
                digest_text(header_.digest) + ", expected " + digest_text(tokenizer.digest) +
                "; the vocabulary has changed, prepare the text again");
  }
  if (header_.format != ShardFormat::nanogpt) return;

  // Nothing says whose ids these are: look at the first, the middle and the last ones.
  constexpr int64_t kSample = 1024;
  std::vector<uint32_t> ids(static_cast<size_t>(std::min(kSample, size())));
  const auto length = static_cast<int64_t>(ids.size());
  for (const int64_t begin : {int64_t{0}, (size() - length) / 2, size() - length}) {
    read(begin, ids);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < tokenizer.vocab_size) continue;
      throw Error(file + ": is not raw uint16 tokens of " + tokenizer.name + ": token " +
                  std::to_string(ids[i]) + " at position " +
                  std::to_string(begin + static_cast<int64_t>(i)) +
                  " is not below the vocabulary's size " + std::to_string(tokenizer.vocab_size) +
                  "; is it another kind of file?");
    }
  }
}

void TokenShard::read(int64_t begin, std::span<uint32_t> out) const {
  ensure(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= size(),
         "reading beyond a token shard");
  const char* from = file_.bytes().data() + header_.data_offset + begin * header_.token_width;
  if (header_.token_width == 4) {
    std::memcpy(out.data(), from, out.size() * sizeof(uint32_t));
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t id = 0;
    std::memcpy(&id, from + 2 * i, sizeof(id));
    out[i] = id;
  }
}

}  // namespace olm2
