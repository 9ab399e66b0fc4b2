// From text to ids and back.
//
// Two tokenizers: `gpt2`, GPT-2's byte-level byte-pair encoding with its own vocabulary, and
// `bytes`, one id per byte.  Both encode any bytes, valid UTF-8 or not, and decode(encode(text))
// is `text` byte for byte.  Neither looks for special tokens in text: "<|endoftext|>" is encoded
// like any other text.  The separator stands between documents and is appended by whoever has
// documents.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace olm2 {

// What token files and models must agree on.
struct TokenizerInfo {
  std::string name{};
  uint32_t vocab_size = 0;
  uint32_t separator = 0;
  uint64_t digest = 0;  // Of everything that decides the ids.
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual const TokenizerInfo& info() const = 0;
  // Not const: encoding remembers pieces it has seen.  One Tokenizer per thread.
  virtual std::vector<uint32_t> encode(std::string_view text) = 0;
  // The separator decodes to "<|endoftext|>".  Throws Error for an id outside the vocabulary.
  virtual std::string decode(std::span<const uint32_t> ids) const = 0;
  // The same tokenizer for another thread; tables are shared, so it is cheap.
  virtual std::unique_ptr<Tokenizer> clone() const = 0;
};

// "gpt2" (50257 ids, separator 50256) or "bytes" (257 ids, separator 256).
// Throws Error that lists them for any other name.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name);

// The same without building tables.
TokenizerInfo tokenizer_info(std::string_view name);

inline constexpr std::string_view kSeparatorText = "<|endoftext|>";

}  // namespace olm2
