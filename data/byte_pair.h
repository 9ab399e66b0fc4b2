// Byte-pair encoding: a piece of text becomes its bytes, then neighbours are joined, the earliest
// learned pair first, until no pair is known.  Source: Sennrich et al. 2016; Radford et al. 2019.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace olm2 {

struct BytePairVocabulary {
  std::vector<std::string> bytes_of_id{};
  std::array<uint32_t, 256> id_of_byte{};
  // (left id << 32 | right id) -> id of the two joined.  Pairs learned earlier have smaller ids.
  std::unordered_map<uint64_t, uint32_t> joined{};
};

// Reads GPT-2's merges.txt: one line "left right" per pair, in the order learned, bytes written
// as printable characters.  Ids 0..255 are the bytes in GPT-2's order, id 256 + k is the k-th pair.
// Throws Error naming the line.
BytePairVocabulary parse_gpt2_merges(std::string_view text);

// Joins one piece at a time, keeping its working memory.
// Time O(n log n) for a piece of n bytes.
class BytePairEncoder {
 public:
  // The vocabulary must outlive the encoder.
  explicit BytePairEncoder(const BytePairVocabulary& vocabulary) : vocabulary_(vocabulary) {}
  // Appends the ids of `piece`.
  void encode(std::string_view piece, std::vector<uint32_t>& ids);

 private:
  // Considers joining the symbol at `left` with the one after it.
  void offer(uint32_t left);
  uint32_t joined_or_none(uint32_t left) const;
  void join(uint32_t left, uint32_t id);

  const BytePairVocabulary& vocabulary_;
  // Symbols as a linked list over the positions where each begins.
  std::vector<uint32_t> id_;        // kNone: swallowed by the symbol before it.
  std::vector<uint32_t> next_;      // id_.size() at the end.
  std::vector<uint32_t> previous_;  // kNone at the beginning.
  // Min-heap of (joined id << 32 | left position).  Entries that no longer hold are skipped.
  std::vector<uint64_t> heap_;
};

}  // namespace olm2
