#include "data/gpt2_tokenizer.h"

#include <unordered_map>

#include "core/error.h"
#include "data/byte_pair.h"
#include "data/gpt2_merges.h"
#include "data/gpt2_split.h"

namespace olm2 {
namespace {

// Text repeats itself: most pieces are words seen before.  Remembers the ids of short pieces, up
// to a fixed number of them, so that memory stays bounded on any input.
class PieceCache {
 public:
  static constexpr size_t kMaxPieceBytes = 32;

  // Null if the piece is not known.
  const std::vector<uint32_t>* find(std::string_view piece) const {
    const auto found = ids_of_.find(piece);
    return found == ids_of_.end() ? nullptr : &found->second;
  }
  void remember(std::string_view piece, std::span<const uint32_t> ids) {
    if (piece.size() > kMaxPieceBytes || ids_of_.size() >= kMaxPieces) return;
    ids_of_.emplace(piece, std::vector<uint32_t>(ids.begin(), ids.end()));
  }

 private:
  static constexpr size_t kMaxPieces = 200000;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, std::vector<uint32_t>, Hash, std::equal_to<>> ids_of_;
};

class Gpt2Tokenizer : public Tokenizer {
 public:
  Gpt2Tokenizer(std::shared_ptr<const BytePairVocabulary> vocabulary, const TokenizerInfo& info,
                const Gpt2Splitter& splitter)
      : vocabulary_(std::move(vocabulary)),
        info_(info),
        splitter_(splitter),
        encoder_(*vocabulary_) {}

  const TokenizerInfo& info() const override { return info_; }

  std::vector<uint32_t> encode(std::string_view text) override {
    pieces_.clear();
    splitter_.split(text, pieces_);
    std::vector<uint32_t> ids;
    ids.reserve(text.size() / 4 + 1);
    for (const std::string_view piece : pieces_) {
      if (const auto* known = cache_.find(piece)) {
        ids.insert(ids.end(), known->begin(), known->end());
        continue;
      }
      const size_t before = ids.size();
      encoder_.encode(piece, ids);
      cache_.remember(piece, std::span(ids).subspan(before));
    }
    return ids;
  }

  std::string decode(std::span<const uint32_t> ids) const override {
    std::string text;
    for (const uint32_t id : ids) {
      if (id < vocabulary_->bytes_of_id.size()) {
        text += vocabulary_->bytes_of_id[id];
      } else if (id == info_.separator) {
        text += kSeparatorText;
      } else {
        throw Error("tokenizer gpt2: id " + std::to_string(id) +
                    " is outside the vocabulary of 50257; are these tokens of another tokenizer?");
      }
    }
    return text;
  }

  std::unique_ptr<Tokenizer> clone() const override {
    return std::make_unique<Gpt2Tokenizer>(vocabulary_, info_, splitter_);
  }

 private:
  std::shared_ptr<const BytePairVocabulary> vocabulary_;
  TokenizerInfo info_;
  Gpt2Splitter splitter_;
  BytePairEncoder encoder_;
  PieceCache cache_;
  std::vector<std::string_view> pieces_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_gpt2_tokenizer() {
  auto vocabulary = std::make_shared<BytePairVocabulary>(parse_gpt2_merges(gpt2_merges()));
  const TokenizerInfo info = tokenizer_info("gpt2");
  ensure(vocabulary->bytes_of_id.size() == info.separator, "GPT-2 has 256 bytes and 50000 pairs");
  return std::make_unique<Gpt2Tokenizer>(std::move(vocabulary), info, Gpt2Splitter());
}

}  // namespace olm2
