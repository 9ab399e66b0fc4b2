#include "data/corpus.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "data/digest.h"
#include "data/gpt2_split.h"

namespace olm2 {
namespace {

// Large enough to make the cost of handing over a unit vanish, small enough to share out.
constexpr size_t kUnitBytes = 1 << 20;

bool is_text(const std::filesystem::path& path) {
  return path.extension() == ".txt";
}

}  // namespace

std::string_view to_string(Split split) {
  return split == Split::train ? "train" : "val";
}

Split split_of(std::string_view document, double val_fraction) {
  const double place = std::ldexp(static_cast<double>(mixed(digest_of(document))), -64);
  return place < val_fraction ? Split::val : Split::train;
}

Corpus::Corpus(std::vector<std::filesystem::path> inputs, double val_fraction)
    : inputs_(std::move(inputs)), val_fraction_(val_fraction) {
  if (inputs_.empty()) throw Error("no input; give .txt or .jsonl files");
  for (const std::filesystem::path& path : inputs_) {
    if (!is_text(path) && path.extension() != ".jsonl" && !std::filesystem::is_directory(path)) {
      throw Error(path.string() + ": unknown kind of file '" + path.extension().string() +
                  "'; expected .txt (one document) or .jsonl (one per line, under \"text\")");
    }
    total_bytes_ += static_cast<int64_t>(MappedFile(path).bytes().size());
  }
}

bool Corpus::is_all_text() const {
  return std::all_of(inputs_.begin(), inputs_.end(), is_text);
}

std::optional<WorkUnit> Corpus::next() {
  while (document_.empty() && lines_.empty()) {
    if (!after_.empty()) {
      document_ = std::exchange(after_, {});
      begins_document_ = true;
      split_ = Split::val;
    } else if (next_input_ < inputs_.size()) {
      open_next();
    } else {
      return std::nullopt;
    }
  }
  return lines_.empty() ? next_text() : next_lines();
}

void Corpus::open_next() {
  file_ = std::make_shared<const MappedFile>(inputs_[next_input_++]);
  const std::string_view bytes = file_->bytes();
  begins_document_ = true;
  line_ = 1;
  if (!is_text(file_->path())) {
    lines_ = bytes;
  } else if (bytes.empty()) {
    ++empty_inputs_;
  } else if (is_single_document()) {
    const double kept = (1.0 - val_fraction_) * static_cast<double>(bytes.size());
    const size_t cut = first_safe_cut(bytes, static_cast<size_t>(kept));
    document_ = bytes.substr(0, cut);
    after_ = bytes.substr(cut);
    split_ = Split::train;
  } else {
    document_ = bytes;
    split_ = split_of(bytes, val_fraction_);
  }
}

WorkUnit Corpus::next_text() {
  size_t end = document_.size();
  if (end > kUnitBytes) {
    end = last_safe_cut(document_.substr(0, kUnitBytes));
    if (end == 0) end = first_safe_cut(document_, kUnitBytes);
  }
  WorkUnit unit{.file = file_,
                .kind = WorkUnit::Kind::text,
                .bytes = document_.substr(0, end),
                .split = split_,
                .begins_document = std::exchange(begins_document_, false),
                .ends_document = end == document_.size()};
  document_.remove_prefix(end);
  return unit;
}

WorkUnit Corpus::next_lines() {
  size_t end = lines_.size();
  if (end > kUnitBytes) {
    end = lines_.rfind('\n', kUnitBytes - 1);
    if (end == std::string_view::npos) end = lines_.find('\n', kUnitBytes);
    end = end == std::string_view::npos ? lines_.size() : end + 1;
  }
  WorkUnit unit{.file = file_,
                .kind = WorkUnit::Kind::lines,
                .bytes = lines_.substr(0, end),
                .first_line = line_};
  line_ += std::count(unit.bytes.begin(), unit.bytes.end(), '\n');
  lines_.remove_prefix(end);
  return unit;
}

}  // namespace olm2
