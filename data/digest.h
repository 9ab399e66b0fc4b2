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

// Makes every bit of the result depend on every bit of x.
// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
constexpr uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
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
