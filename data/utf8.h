// Where text is valid UTF-8 and where it is not.
#pragma once

#include <cstddef>
#include <string_view>

namespace olm2 {

// Bytes of the character `text` begins with; 0 if it does not begin with a whole, valid one.
// Overlong forms, surrogates and anything beyond U+10FFFF are invalid.  Source: RFC 3629.
size_t utf8_character_bytes(std::string_view text);

// Bytes of the longest prefix that is valid UTF-8.
size_t valid_utf8_prefix(std::string_view text);

// Bytes of the longest prefix in which no valid character begins.
size_t invalid_utf8_prefix(std::string_view text);

}  // namespace olm2
