// FNV-1a, 64 bits: tells vocabularies, documents and files apart.  Not a defence against malice.
// Source: Fowler, Noll, Vo; draft-eastlake-fnv.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace olm2 {

inline constexpr uint64_t kDigestStart = 14695981039346656037ULL;

// Digest of what was digested so far followed by `bytes`.
constexpr uint64_t digest_of(std::string_view bytes, uint64_t so_far = kDigestStart) {
  for (const char c : bytes) so_far = (so_far ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return so_far;
}

// 16 hexadecimal digits.
inline std::string digest_text(uint64_t digest) {
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i) {
    text[text.size() - 1 - i] = "0123456789abcdef"[(digest >> (4 * i)) & 15U];
  }
  return text;
}

}  // namespace olm2
