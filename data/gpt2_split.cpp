#include "data/gpt2_split.h"

#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/error.h"
#include "data/utf8.h"

namespace olm2 {
namespace {

// White_Space of Unicode, which is what \s means where GPT-2 was trained; PCRE2's own \s also has
// U+180E.  Inside a character class.
#define OLM2_WHITE_SPACE                                                             \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}" \
  "\\x{202f}\\x{205f}\\x{3000}"

// Source: openai/gpt-2, src/encoder.py.
constexpr char kPattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d"
    "| ?\\p{L}+"
    "| ?\\p{N}+"
    "| ?[^" OLM2_WHITE_SPACE
    "\\p{L}\\p{N}]+"
    "|[" OLM2_WHITE_SPACE "]+(?![^" OLM2_WHITE_SPACE
    "])"
    "|[" OLM2_WHITE_SPACE "]+";

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

bool is_safe_cut(std::string_view text, size_t at) {
  const bool printable = '!' <= text[at - 1] && text[at - 1] <= '~';
  return printable && (text[at] == ' ' || text[at] == '\n');
}

}  // namespace

struct Gpt2Splitter::Pattern {
  Pattern() {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    ensure(code != nullptr, "GPT-2's pattern: " + pcre2_message(error));
    // Where code may not be made at run time, matching is slower and gives the same pieces.
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  }
  ~Pattern() { pcre2_code_free(code); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  pcre2_code* code = nullptr;
};

struct Gpt2Splitter::Match {
  explicit Match(const Pattern& pattern)
      : data(pcre2_match_data_create_from_pattern(pattern.code, nullptr)) {
    ensure(data != nullptr, "no memory for a match");
  }
  ~Match() { pcre2_match_data_free(data); }
  Match(const Match&) = delete;
  Match& operator=(const Match&) = delete;

  pcre2_match_data* data = nullptr;
};

Gpt2Splitter::Gpt2Splitter()
    : pattern_(std::make_shared<const Pattern>()), match_(std::make_unique<Match>(*pattern_)) {}
Gpt2Splitter::Gpt2Splitter(const Gpt2Splitter& other)
    : pattern_(other.pattern_), match_(std::make_unique<Match>(*pattern_)) {}
Gpt2Splitter::~Gpt2Splitter() = default;

void Gpt2Splitter::split(std::string_view text, std::vector<std::string_view>& pieces) {
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    split_valid(text.substr(0, valid), pieces);
    text.remove_prefix(valid);
    const size_t invalid = invalid_utf8_prefix(text);
    if (invalid > 0) pieces.push_back(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

void Gpt2Splitter::split_valid(std::string_view text, std::vector<std::string_view>& pieces) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match_->data);
  for (size_t at = 0; at < text.size();) {
    const int count = pcre2_match(pattern_->code, subject, text.size(), at,
                                  PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, match_->data, nullptr);
    if (count < 0) {
      throw Error("tokenizer gpt2: matching failed at byte " + std::to_string(at) + " of " +
                  std::to_string(text.size()) + ": " + pcre2_message(count));
    }
    ensure(bounds[0] == at && bounds[1] > at, "GPT-2's pattern does not cover the text");
    pieces.push_back(text.substr(at, bounds[1] - at));
    at = bounds[1];
  }
}

size_t last_safe_cut(std::string_view text) {
  for (size_t at = text.size(); at-- > 1;) {
    if (is_safe_cut(text, at)) return at;
  }
  return 0;
}

size_t first_safe_cut(std::string_view text, size_t from) {
  for (size_t at = from == 0 ? 1 : from; at < text.size(); ++at) {
    if (is_safe_cut(text, at)) return at;
  }
  return text.size();
}

}  // namespace olm2
