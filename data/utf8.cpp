#include "data/utf8.h"

#include <cstdint>

namespace olm2 {
namespace {

bool is_between(unsigned char byte, unsigned char low, unsigned char high) {
  return low <= byte && byte <= high;
}

}  // namespace

size_t utf8_character_bytes(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;

  // The first byte says how many follow and narrows the range of the second.
  size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (is_between(first, 0xC2, 0xDF)) {
    length = 2;
  } else if (is_between(first, 0xE0, 0xEF)) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (is_between(first, 0xF0, 0xF4)) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (length == 0 || text.size() < length || !is_between(byte(1), low, high)) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (!is_between(byte(i), 0x80, 0xBF)) return 0;
  }
  return length;
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const size_t bytes = utf8_character_bytes(text.substr(end));
    if (bytes == 0) break;
    end += bytes;
  }
  return end;
}

size_t invalid_utf8_prefix(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && utf8_character_bytes(text.substr(end)) == 0) ++end;
  return end;
}

}  // namespace olm2
