#include "data/shard_writer.h"

#include <algorithm>

#include "core/error.h"
#include "data/token_shard.h"

namespace olm2 {

std::string six_digits(int64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

ShardWriter::ShardWriter(std::filesystem::path directory, std::string prefix,
                         const TokenizerInfo& tokenizer, int64_t shard_tokens)
    : directory_(std::move(directory)),
      prefix_(std::move(prefix)),
      tokenizer_(tokenizer),
      shard_tokens_(shard_tokens) {
  ensure(shard_tokens > 0, "a shard holds at least one token");
}

void ShardWriter::append(std::span<const uint32_t> ids) {
  while (!ids.empty()) {
    if (!is_open_) open_next();
    const int64_t room = shard_tokens_ - shards_.back().tokens;
    const size_t count = std::min(ids.size(), static_cast<size_t>(room));
    write(ids.first(count));
    ids = ids.subspan(count);
    if (shards_.back().tokens == shard_tokens_) close_current();
  }
}

void ShardWriter::open_next() {
  std::string name = prefix_ + "_" + six_digits(static_cast<int64_t>(shards_.size())) + ".bin";
  files_.emplace_back(directory_ / name);
  shards_.push_back({.file_name = std::move(name), .tokens = 0, .digest = kDigestStart});
  is_open_ = true;
  files_.back().append(shard_header_bytes(tokenizer_, 0));
}

void ShardWriter::write(std::span<const uint32_t> ids) {
  std::string bytes;
  const uint32_t width = token_width_of(tokenizer_);
  bytes.reserve(ids.size() * width);
  for (const uint32_t id : ids) {
    ensure(id < tokenizer_.vocab_size, "writing an id outside of the vocabulary");
    for (uint32_t i = 0; i < width; ++i) bytes.push_back(static_cast<char>(id >> (8 * i)));
  }
  files_.back().append(bytes);
  shards_.back().tokens += static_cast<int64_t>(ids.size());
  shards_.back().digest = digest_of(bytes, shards_.back().digest);
}

void ShardWriter::close_current() {
  files_.back().overwrite(0, shard_header_bytes(tokenizer_, shards_.back().tokens));
  files_.back().finish();
  is_open_ = false;
}

void ShardWriter::finish() {
  if (is_open_) close_current();
}

void ShardWriter::commit() {
  ensure(!is_open_, "committing an open shard");
  for (OutputFile& file : files_) file.commit();
}

}  // namespace olm2
