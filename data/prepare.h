// Texts in, token shards and their manifest out.
//
// The same inputs and options give the same bytes, whatever the number of workers and whatever
// happened to an earlier attempt.  Files get their final names only when all of them are complete;
// the manifest comes last.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/encode_unit.h"
#include "data/shard_writer.h"
#include "data/tokenizer.h"

namespace olm2 {

struct PrepareOptions {
  std::vector<std::filesystem::path> inputs{};  // .txt or .jsonl
  std::filesystem::path out{};                  // A directory, made if need be.
  std::string name{};                           // Of the files; empty: the name of `out`.
  std::string tokenizer = "gpt2";
  double val_fraction = 0.0005;        // In [0, 1).
  int workers = 0;                     // 0: one per thread of the machine.
  int64_t shard_tokens = 100'000'000;  // Tokens per file.
};

struct PreparedSplit {
  SplitCounts counts{};
  std::vector<WrittenShard> shards{};
};

// What manifest.json says.
struct Manifest {
  std::string name{};
  TokenizerInfo tokenizer{};
  std::array<PreparedSplit, kSplitCount> splits{};
  int64_t empty_documents = 0;
  bool is_divided = false;  // A single document, whose end became val.
  double val_fraction = 0;
  // Entropy of the bytes of all texts taken one by one, nats: what a model must beat.
  double unigram_nats_per_byte = 0;
};

struct PrepareProgress {
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
  int64_t tokens = 0;
};

// Throws Error and leaves no file of its own behind: inputs as in Corpus; no text in them;
// `out` already has a dataset of another name; disk full (found before the start where the size is
// known).
Manifest prepare(const PrepareOptions& options,
                 const std::function<void(const PrepareProgress&)>& report);

std::string to_json(const Manifest& manifest);

}  // namespace olm2
