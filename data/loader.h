// From token files to batches.
//
// The files, in the order given, are cut into windows: window w of a file holds its tokens
// [w * T, w * T + T], the last of which is also the first of the next window.  Windows never cross
// files; what is left at the end of a file is the remainder.  The windows of all files, one file
// after the other, are an epoch; epochs follow each other without end.  Row b of batch i is number
//     ((i * ranks + rank) * batch_size + b)
// of that sequence.  So a batch is a function of its index alone (resuming is a jump), and how the
// sequence is cut into batches and ranks does not change it.  A batch may span two epochs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/token_shard.h"

namespace olm2 {

struct LoaderOptions {
  int64_t batch_size = 1;       // B, rows of one batch on one rank.
  int64_t sequence_length = 1;  // T
  bool shuffle = false;         // Each epoch in its own order, chosen by the seed.
  uint64_t seed = 0;
  int64_t rank = 0;
  int64_t ranks = 1;
  std::string tokenizer = "gpt2";
  int64_t vocab_size = 0;  // Ids must be below; 0: the tokenizer's.
};

// Where a row comes from.
struct WindowPlace {
  int64_t epoch = 0;
  size_t file = 0;    // Index into files().
  int64_t begin = 0;  // Position of its first token in that file.
};

class Loader {
 public:
  // Throws Error if a file is no token file of this tokenizer, or if an epoch is shorter than a
  // batch (the message says how many tokens are needed).
  Loader(std::span<const std::filesystem::path> files, const LoaderOptions& options);

  // Fills tokens and targets, (B, T) each, targets being the tokens one later.  Thread-safe.
  // Throws Error naming file and position of an id outside the vocabulary.
  void batch(int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const;
  WindowPlace place(int64_t index, int64_t row) const;

  int64_t windows() const { return first_window_.back(); }  // Of an epoch, all ranks together.
  int64_t tokens_per_epoch() const { return windows() * options_.sequence_length; }
  // Whole batches an epoch has for each rank.
  int64_t batches_per_epoch() const { return windows() / (options_.batch_size * options_.ranks); }
  int64_t tokens() const { return tokens_; }                          // In all files.
  int64_t remainder() const { return tokens_ - tokens_per_epoch(); }  // Never an input.
  std::span<const TokenShard> files() const { return files_; }

 private:
  void refuse_short_data() const;
  void read_window(const WindowPlace& place, std::span<int32_t> tokens,
                   std::span<int32_t> targets) const;

  LoaderOptions options_;
  std::vector<TokenShard> files_;
  std::vector<int64_t> first_window_;  // Per file, and at the end the number of all windows.
  int64_t tokens_ = 0;
};

}  // namespace olm2
