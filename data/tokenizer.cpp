#include "data/tokenizer.h"

#include "core/error.h"
#include "data/digest.h"
#include "data/gpt2_merges.h"
#include "data/gpt2_tokenizer.h"

namespace olm2 {
namespace {

class BytesTokenizer : public Tokenizer {
 public:
  const TokenizerInfo& info() const override { return info_; }

  std::vector<uint32_t> encode(std::string_view text) override {
    std::vector<uint32_t> ids;
    ids.reserve(text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }

  std::string decode(std::span<const uint32_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const uint32_t id : ids) {
      if (id < info_.separator) {
        text.push_back(static_cast<char>(id));
      } else if (id == info_.separator) {
        text += kSeparatorText;
      } else {
        throw Error("tokenizer bytes: id " + std::to_string(id) +
                    " is outside the vocabulary of 257; were these tokens made by gpt2?");
      }
    }
    return text;
  }

  std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<BytesTokenizer>(); }

 private:
  TokenizerInfo info_ = tokenizer_info("bytes");
};

}  // namespace

TokenizerInfo tokenizer_info(std::string_view name) {
  if (name == "gpt2") {
    return {.name = "gpt2",
            .vocab_size = 50257,
            .separator = 50256,
            .digest = digest_of(gpt2_merges(), digest_of("gpt2"))};
  }
  if (name == "bytes") {
    return {.name = "bytes", .vocab_size = 257, .separator = 256, .digest = digest_of("bytes")};
  }
  throw Error("tokenizer: '" + std::string(name) + "' is unknown; expected gpt2 or bytes");
}

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name) {
  if (tokenizer_info(name).name == "gpt2") return make_gpt2_tokenizer();
  return std::make_unique<BytesTokenizer>();
}

}  // namespace olm2
