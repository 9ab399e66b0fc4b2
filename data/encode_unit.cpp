#include "data/encode_unit.h"

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace olm2 {
namespace {

class UnitEncoder {
 public:
  UnitEncoder(const WorkUnit& unit, double val_fraction, Tokenizer& tokenizer)
      : unit_(unit), val_fraction_(val_fraction), tokenizer_(tokenizer) {
    encoded_.input_bytes = static_cast<int64_t>(unit.bytes.size());
  }

  EncodedUnit encode() {
    if (unit_.kind == WorkUnit::Kind::text) {
      add(unit_.bytes, unit_.split, unit_.begins_document, unit_.ends_document);
    } else {
      encode_lines();
    }
    return std::move(encoded_);
  }

 private:
  void add(std::string_view text, Split split, bool begins, bool ends) {
    std::vector<uint32_t>& ids = encoded_.ids[index_of(split)];
    SplitCounts& counts = encoded_.counts[index_of(split)];
    const std::vector<uint32_t> more = tokenizer_.encode(text);
    ids.insert(ids.end(), more.begin(), more.end());
    if (ends) ids.push_back(tokenizer_.info().separator);
    counts.documents += begins ? 1 : 0;
    counts.bytes += static_cast<int64_t>(text.size());
    counts.tokens = static_cast<int64_t>(ids.size());
    for (const char c : text) ++encoded_.byte_counts[static_cast<unsigned char>(c)];
  }

  void encode_lines() {
    std::string_view rest = unit_.bytes;
    for (int64_t number = unit_.first_line; !rest.empty(); ++number) {
      const size_t length = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, length);
      rest.remove_prefix(std::min(length + 1, rest.size()));
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const std::string text = text_of(line, number);
      if (text.empty()) {
        ++encoded_.empty_documents;
      } else {
        add(text, split_of(text, val_fraction_), true, true);
      }
    }
  }

  std::string text_of(std::string_view line, int64_t number) const {
    nlohmann::json object;
    try {
      object = nlohmann::json::parse(line);
    } catch (const nlohmann::json::exception& error) {
      refuse(number, error.what());
    }
    if (!object.is_object()) refuse(number, std::string("a JSON ") + object.type_name());
    const auto text = object.find("text");
    if (text == object.end()) refuse(number, "an object without \"text\"");
    if (!text->is_string()) refuse(number, std::string("\"text\" is a ") + text->type_name());
    return text->get<std::string>();
  }

  [[noreturn]] void refuse(int64_t line, const std::string& found) const {
    throw Error(unit_.file->path().string() + ":" + std::to_string(line) +
                ": expected a JSON object with a string under \"text\", found: " + found);
  }

  const WorkUnit& unit_;
  double val_fraction_;
  Tokenizer& tokenizer_;
  EncodedUnit encoded_;
};

}  // namespace

EncodedUnit encode_unit(const WorkUnit& unit, double val_fraction, Tokenizer& tokenizer) {
  return UnitEncoder(unit, val_fraction, tokenizer).encode();
}

}  // namespace olm2
