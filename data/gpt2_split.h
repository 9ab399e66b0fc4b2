// GPT-2's rule for cutting text into pieces: contractions, words, numbers, signs, each with the
// space before it, and white space.  Byte-pair encoding never joins across pieces.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace olm2 {

// Cuts text that need not be valid UTF-8: a run of bytes that belong to no valid character is a
// piece of its own.  The pieces, in order, make up the text.
class Gpt2Splitter {
 public:
  Gpt2Splitter();
  // The copy shares the compiled pattern and may be used on another thread.
  Gpt2Splitter(const Gpt2Splitter& other);
  Gpt2Splitter& operator=(const Gpt2Splitter&) = delete;
  ~Gpt2Splitter();

  // Appends the pieces of `text`; they point into it.
  void split(std::string_view text, std::vector<std::string_view>& pieces);

 private:
  struct Pattern;
  struct Match;
  void split_valid(std::string_view text, std::vector<std::string_view>& pieces);

  std::shared_ptr<const Pattern> pattern_;
  std::unique_ptr<Match> match_;
};

// The last place in (0, text.size()) where text may be cut in two so that the pieces of both
// halves are the pieces of the whole; 0 if there is none.  It is a place where a printable ASCII
// character is followed by a space or a line feed: no piece has white space after something else,
// and the rule never looks back.
size_t last_safe_cut(std::string_view text);
// The same for the first such place at or after `from`; text.size() if there is none.
size_t first_safe_cut(std::string_view text, size_t from);

}  // namespace olm2
