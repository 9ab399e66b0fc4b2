#include "data/shard_header.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "data/utf8.h"

namespace olm2 {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

// Begins with a byte that no UTF-8 text begins with.
constexpr std::string_view kMagic = "\x8FOLM2TOK";
constexpr uint32_t kVersion = 1;
constexpr size_t kNameBytes = 16;

constexpr int32_t kLlmcMagic = 20240520;
constexpr int32_t kLlmcVersion = 1;
constexpr size_t kLlmcHeaderBytes = 1024;

// The 64 bytes as they lie in the file.
struct RawHeader {
  char magic[8] = {};
  uint32_t version = kVersion;
  uint32_t token_width = 2;
  uint64_t count = 0;
  uint64_t digest = 0;
  char tokenizer[kNameBytes] = {};  // Padded with zeros.
  char reserved[16] = {};           // Zeros.
};
static_assert(sizeof(RawHeader) == kShardHeaderBytes);

template <typename T>
T value_at(std::string_view bytes, size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& path, std::string_view bytes)
      : path_(path), bytes_(bytes) {}

  ShardHeader read() const {
    if (bytes_.empty()) refuse("is empty: neither a header nor a token; prepare it again");
    if (bytes_.starts_with(kMagic)) return read_olm2();
    if (bytes_.size() >= 4 && value_at<int32_t>(bytes_, 0) == kLlmcMagic) return read_llmc();
    return read_nanogpt();
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(path_.string() + ": " + reason);
  }
  std::string size_text() const { return std::to_string(bytes_.size()) + " bytes"; }

  // The file must hold exactly `count` ids of `width` bytes after `offset`.
  void require_size(uint64_t count, uint64_t width, uint64_t offset) const {
    const uint64_t found = bytes_.size() - offset;
    // A count that large would overflow below; no file holds it.
    if (count <= found && count * width == found) return;
    std::string reason =
        "the header promises " + std::to_string(count) + " tokens of " + std::to_string(width) +
        " bytes, " + (count <= (uint64_t{1} << 48U) ? std::to_string(count * width) : "too many") +
        " bytes in all; " + std::to_string(found) + " bytes follow it";
    const uint64_t other = 6 - width;  // 2 <-> 4
    if (count > 0 && found % other == 0 && found / other == count) {
      reason += "; these would be as many tokens of " + std::to_string(other) +
                " bytes: is the token width in the header wrong?";
    } else {
      reason += "; the file was cut or damaged, prepare or copy it again";
    }
    refuse(reason);
  }

  ShardHeader read_olm2() const {
    if (bytes_.size() < sizeof(RawHeader)) {
      refuse("ends inside its header: " + size_text() + " of " + std::to_string(kShardHeaderBytes));
    }
    const auto raw = value_at<RawHeader>(bytes_, 0);
    if (raw.version != kVersion) {
      refuse("has version " + std::to_string(raw.version) + ", expected " +
             std::to_string(kVersion) + "; was it made by a newer olm2-data?");
    }
    if (raw.token_width != 2 && raw.token_width != 4) {
      refuse("has tokens of " + std::to_string(raw.token_width) + " bytes, expected 2 or 4");
    }
    require_size(raw.count, raw.token_width, sizeof(RawHeader));
    return {.format = ShardFormat::olm2,
            .version = raw.version,
            .token_width = raw.token_width,
            .count = static_cast<int64_t>(raw.count),
            .data_offset = kShardHeaderBytes,
            .tokenizer = std::string(raw.tokenizer, strnlen(raw.tokenizer, kNameBytes)),
            .digest = raw.digest};
  }

  ShardHeader read_llmc() const {
    if (bytes_.size() < kLlmcHeaderBytes) {
      refuse("ends inside its llm.c header: " + size_text() + " of " +
             std::to_string(kLlmcHeaderBytes));
    }
    const auto version = value_at<int32_t>(bytes_, 4);
    if (version != kLlmcVersion) {
      refuse("is an llm.c file of version " + std::to_string(version) +
             ", expected 1 (uint16 ids of GPT-2)");
    }
    const auto count = value_at<int32_t>(bytes_, 8);
    if (count < 0) refuse("llm.c header with " + std::to_string(count) + " tokens");
    require_size(static_cast<uint64_t>(count), 2, kLlmcHeaderBytes);
    return {.format = ShardFormat::llmc,
            .version = 1,
            .token_width = 2,
            .count = count,
            .data_offset = kLlmcHeaderBytes,
            .tokenizer = "gpt2",
            .digest = 0};
  }

  // A file without a magic is raw ids unless something speaks against it.
  ShardHeader read_nanogpt() const {
    refuse_damaged_magic();
    if (looks_like_text(bytes_.substr(0, 4096))) {
      refuse("looks like text, not like tokens; make tokens of it with 'olm2-data prepare'");
    }
    if (bytes_.size() % 2 != 0) {
      refuse("has no magic of a token file and " + size_text() +
             ", an odd number, so it is not raw uint16 tokens either");
    }
    return {.format = ShardFormat::nanogpt,
            .version = 0,
            .token_width = 2,
            .count = static_cast<int64_t>(bytes_.size() / 2),
            .data_offset = 0,
            .tokenizer = "",
            .digest = 0};
  }

  void refuse_damaged_magic() const {
    bool ours = false;
    if (bytes_.size() >= kMagic.size()) {
      ours = bytes_.starts_with(kMagic.substr(0, 4)) || bytes_.substr(4, 4) == kMagic.substr(4);
    }
    if (bytes_.size() >= sizeof(RawHeader)) {
      const auto raw = value_at<RawHeader>(bytes_, 0);
      ours = ours || is_count_of(raw.count, raw.token_width, sizeof(RawHeader));
    }
    if (ours) refuse("has the header of a token file with a damaged magic; copy it again");
    if (bytes_.size() >= kLlmcHeaderBytes && value_at<int32_t>(bytes_, 4) == kLlmcVersion &&
        is_count_of(value_at<uint32_t>(bytes_, 8), 2, kLlmcHeaderBytes)) {
      refuse("has the header of an llm.c token file with a damaged magic; copy it again");
    }
  }

  bool is_count_of(uint64_t count, uint64_t width, uint64_t offset) const {
    const uint64_t body = bytes_.size() - offset;
    return (width == 2 || width == 4) && count <= body && count * width == body;
  }

  // Valid UTF-8 without control characters but those of plain text.  Token ids below 256, which
  // every text has, are a byte and a zero.
  static bool looks_like_text(std::string_view bytes) {
    // The sample may end inside a character.
    if (bytes.size() - valid_utf8_prefix(bytes) > 3) return false;
    return std::none_of(bytes.begin(), bytes.end(), [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return (byte < 0x20 && (byte < '\t' || byte > '\r')) || byte == 0x7F;
    });
  }

  const std::filesystem::path& path_;
  std::string_view bytes_;
};

}  // namespace

ShardHeader parse_shard_header(const std::filesystem::path& path, std::string_view bytes) {
  return HeaderReader(path, bytes).read();
}

std::string shard_header_bytes(const TokenizerInfo& tokenizer, int64_t count) {
  RawHeader raw;
  std::memcpy(raw.magic, kMagic.data(), kMagic.size());
  raw.token_width = token_width_of(tokenizer);
  raw.count = static_cast<uint64_t>(count);
  raw.digest = tokenizer.digest;
  ensure(tokenizer.name.size() <= kNameBytes, "the name of a tokenizer has at most 16 bytes");
  std::memcpy(raw.tokenizer, tokenizer.name.data(), tokenizer.name.size());
  return {reinterpret_cast<const char*>(&raw), sizeof(raw)};
}

uint32_t token_width_of(const TokenizerInfo& tokenizer) {
  return tokenizer.vocab_size <= 65536 ? 2 : 4;
}

}  // namespace olm2
