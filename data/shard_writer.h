// Token shards on their way to the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/digest.h"
#include "data/output_file.h"
#include "data/tokenizer.h"

namespace olm2 {

struct WrittenShard {
  std::string file_name{};
  int64_t tokens = 0;
  uint64_t digest = kDigestStart;  // Of the ids as they lie in the file.
};

// Writes the tokens of one split to "<prefix>_000000.bin", "<prefix>_000001.bin", ... of
// `shard_tokens` each, the last one shorter.  No file has its final name before commit(); without
// it none is left.
class ShardWriter {
 public:
  ShardWriter(std::filesystem::path directory, std::string prefix, const TokenizerInfo& tokenizer,
              int64_t shard_tokens);
  void append(std::span<const uint32_t> ids);
  // Ends the last shard and puts everything on the disk.
  void finish();
  // Gives the files their names.
  void commit();
  std::span<const WrittenShard> shards() const { return shards_; }

 private:
  void open_next();
  void close_current();
  void write(std::span<const uint32_t> ids);

  std::filesystem::path directory_;
  std::string prefix_;
  TokenizerInfo tokenizer_;
  int64_t shard_tokens_;
  std::vector<WrittenShard> shards_;  // Parallel to files_.
  std::vector<OutputFile> files_;
  bool is_open_ = false;
};

// "000042"
std::string six_digits(int64_t number);

}  // namespace olm2
