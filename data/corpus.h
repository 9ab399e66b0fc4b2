// Texts cut into units of work that can be encoded on their own, in any order, with the same
// result: the units, and so the token files, do not depend on how many workers there are.
//
// A .txt file is one document.  A .jsonl file has one document per line, the string under "text".
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "data/mapped_file.h"

namespace olm2 {

enum class Split : uint8_t { train, val };
inline constexpr size_t kSplitCount = 2;
inline constexpr std::array<Split, kSplitCount> kSplits = {Split::train, Split::val};
constexpr size_t index_of(Split split) {
  return static_cast<size_t>(split);
}
std::string_view to_string(Split split);

// A document goes to val if its digest, as a fraction of the largest, is below `val_fraction`:
// the same document always goes to the same side.
Split split_of(std::string_view document, double val_fraction);

struct WorkUnit {
  enum class Kind : uint8_t { text, lines };
  std::shared_ptr<const MappedFile> file{};
  Kind kind = Kind::text;
  std::string_view bytes{};  // Part of the file.
  // text: a part of a document
  Split split = Split::train;
  bool begins_document = false;
  bool ends_document = false;
  // lines: whole lines of a .jsonl
  int64_t first_line = 1;
};

class Corpus {
 public:
  // Throws Error if an input is missing, is no .txt or .jsonl, or is not a regular file.
  Corpus(std::vector<std::filesystem::path> inputs, double val_fraction);

  // The next unit, in the order of the inputs; nothing after the last one.  Throws Error if a file
  // cannot be read.
  std::optional<WorkUnit> next();

  int64_t total_bytes() const { return total_bytes_; }
  bool is_all_text() const;
  int64_t inputs() const { return static_cast<int64_t>(inputs_.size()); }
  // Files without a byte so far: empty documents (.txt).
  int64_t empty_inputs() const { return empty_inputs_; }
  // One .txt and nothing else: its end becomes val, the last val_fraction of its bytes, cut after
  // a word.
  bool is_single_document() const { return inputs_.size() == 1 && is_all_text(); }

 private:
  void open_next();
  WorkUnit next_text();
  WorkUnit next_lines();

  std::vector<std::filesystem::path> inputs_;
  double val_fraction_;
  int64_t total_bytes_ = 0;
  int64_t empty_inputs_ = 0;

  size_t next_input_ = 0;
  std::shared_ptr<const MappedFile> file_;
  std::string_view document_;  // text: what is left of the open document
  std::string_view after_;     // text: the part of the file that becomes val after document_
  std::string_view lines_;     // lines: what is left of the open file
  bool begins_document_ = false;
  Split split_ = Split::train;
  int64_t line_ = 1;
};

}  // namespace olm2
