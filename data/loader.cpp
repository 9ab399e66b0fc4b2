#include "data/loader.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "data/permutation.h"

namespace olm2 {

Loader::Loader(std::span<const std::filesystem::path> files, const LoaderOptions& options)
    : options_(options), first_window_{0} {
  ensure(options.batch_size > 0 && options.sequence_length > 0, "a loader of empty batches");
  ensure(0 <= options.rank && options.rank < options.ranks, "a loader's rank is one of its ranks");
  const TokenizerInfo tokenizer = tokenizer_info(options.tokenizer);
  if (options_.vocab_size == 0) options_.vocab_size = tokenizer.vocab_size;
  files_.reserve(files.size());
  for (const std::filesystem::path& path : files) {
    const TokenShard& shard = files_.emplace_back(path);
    shard.require(tokenizer);
    const int64_t windows = shard.size() > 0 ? (shard.size() - 1) / options.sequence_length : 0;
    first_window_.push_back(first_window_.back() + windows);
    tokens_ += shard.size();
  }
  if (windows() < options_.batch_size) refuse_short_data();
}

void Loader::refuse_short_data() const {
  const int64_t needed = options_.batch_size * options_.sequence_length + 1;
  const std::string names = files_.empty() ? "no files" : files_.front().path().string();
  throw Error(names + (files_.size() > 1 ? " and the files after it hold " : ": ") +
              std::to_string(tokens_) + " tokens, of which " + std::to_string(windows()) +
              " windows of " + std::to_string(options_.sequence_length) +
              " + 1 can be cut; one batch of " + std::to_string(options_.batch_size) +
              " needs at least " + std::to_string(needed) +
              " tokens in one file; give more text, or a smaller batch_size or sequence_length");
}

WindowPlace Loader::place(int64_t index, int64_t row) const {
  ensure(index >= 0 && 0 <= row && row < options_.batch_size, "a row outside of a batch");
  const int64_t number = (index * options_.ranks + options_.rank) * options_.batch_size + row;
  const int64_t epoch = number / windows();
  int64_t window = number % windows();
  if (options_.shuffle) window = permuted(window, windows(), epoch_key(options_.seed, epoch));
  // The last file whose first window is not behind this one; files without windows are passed by.
  const auto after = std::upper_bound(first_window_.begin(), first_window_.end(), window);
  const auto file = static_cast<size_t>(after - first_window_.begin() - 1);
  return {.epoch = epoch,
          .file = file,
          .begin = (window - first_window_[file]) * options_.sequence_length};
}

void Loader::batch(int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  const auto length = static_cast<size_t>(options_.sequence_length);
  const auto rows = static_cast<size_t>(options_.batch_size);
  ensure(tokens.size() == rows * length && targets.size() == rows * length,
         "a batch is batch_size x sequence_length");
  for (size_t row = 0; row < rows; ++row) {
    read_window(place(index, static_cast<int64_t>(row)), tokens.subspan(row * length, length),
                targets.subspan(row * length, length));
  }
}

void Loader::read_window(const WindowPlace& place, std::span<int32_t> tokens,
                         std::span<int32_t> targets) const {
  const TokenShard& shard = files_[place.file];
  std::array<uint32_t, 512> piece{};  // A step takes no memory from the heap.
  for (size_t done = 0; done <= tokens.size(); done += piece.size()) {
    const auto ids = std::span(piece).first(std::min(piece.size(), tokens.size() + 1 - done));
    shard.read(place.begin + static_cast<int64_t>(done), ids);
    for (size_t k = 0; k < ids.size(); ++k) {
      const size_t i = done + k;
      if (ids[k] >= static_cast<uint64_t>(options_.vocab_size)) {
        throw Error(shard.path().string() + ": token " + std::to_string(ids[k]) + " at position " +
                    std::to_string(place.begin + static_cast<int64_t>(i)) +
                    " is not below the vocabulary's size " + std::to_string(options_.vocab_size) +
                    "; is model.vocab_size right for these files?");
      }
      const auto id = static_cast<int32_t>(ids[k]);
      if (i < tokens.size()) tokens[i] = id;
      if (i > 0) targets[i - 1] = id;
    }
  }
}

}  // namespace olm2
