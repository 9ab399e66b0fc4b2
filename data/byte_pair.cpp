#include "data/byte_pair.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/error.h"
#include "data/utf8.h"

namespace olm2 {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

constexpr uint64_t pair_key(uint32_t high, uint32_t low) {
  return (uint64_t{high} << 32U) | low;
}

constexpr bool stands_for_itself(int byte) {
  return (33 <= byte && byte <= 126) || (161 <= byte && byte <= 172) || byte >= 174;
}

// GPT-2 writes a byte as the character of that number where it is printable, and the k-th of the
// other bytes as character 256 + k.  The id of a byte follows the same order.
struct ByteAlphabet {
  std::array<uint32_t, 256> id_of_byte{};
  std::array<int, 512> byte_of_character{};

  ByteAlphabet() {
    byte_of_character.fill(-1);
    uint32_t id = 0;
    for (const bool printable : {true, false}) {
      int character = 256;
      for (int byte = 0; byte < 256; ++byte) {
        if (stands_for_itself(byte) != printable) continue;
        id_of_byte[static_cast<size_t>(byte)] = id++;
        byte_of_character[static_cast<size_t>(printable ? byte : character++)] = byte;
      }
    }
  }
};

[[noreturn]] void refuse(size_t line, const std::string& reason) {
  throw Error("merges.txt:" + std::to_string(line) + ": " + reason);
}

// The bytes that `written` stands for.  All its characters are below U+0200: one or two bytes.
std::string read_symbol(const ByteAlphabet& alphabet, std::string_view written, size_t line) {
  std::string bytes;
  while (!written.empty()) {
    const size_t length = utf8_character_bytes(written);
    size_t character = static_cast<unsigned char>(written[0]);
    if (length == 2) {
      character = ((character & 0x1FU) << 6U) | (static_cast<unsigned char>(written[1]) & 0x3FU);
    }
    const bool known = (length == 1 || length == 2) && character < 512 &&
                       alphabet.byte_of_character[character] >= 0;
    if (!known) refuse(line, "a character outside of GPT-2's byte alphabet");
    bytes.push_back(static_cast<char>(alphabet.byte_of_character[character]));
    written.remove_prefix(length);
  }
  return bytes;
}

}  // namespace

BytePairVocabulary parse_gpt2_merges(std::string_view text) {
  const ByteAlphabet alphabet;
  BytePairVocabulary vocabulary{.bytes_of_id = std::vector<std::string>(256),
                                .id_of_byte = alphabet.id_of_byte,
                                .joined = {}};
  std::unordered_map<std::string, uint32_t> id_of;
  for (size_t byte = 0; byte < 256; ++byte) {
    const uint32_t id = alphabet.id_of_byte[byte];
    vocabulary.bytes_of_id[id] = std::string(1, static_cast<char>(byte));
    id_of.emplace(vocabulary.bytes_of_id[id], id);
  }

  size_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;

    const size_t space = line.find(' ');
    if (space == std::string_view::npos) refuse(line_number, "expected two symbols and a space");
    const std::string left = read_symbol(alphabet, line.substr(0, space), line_number);
    const std::string right = read_symbol(alphabet, line.substr(space + 1), line_number);
    const auto left_id = id_of.find(left);
    const auto right_id = id_of.find(right);
    if (left_id == id_of.end() || right_id == id_of.end()) {
      refuse(line_number, "joins a symbol that no earlier line makes");
    }
    const auto id = static_cast<uint32_t>(vocabulary.bytes_of_id.size());
    if (!id_of.emplace(left + right, id).second) refuse(line_number, "makes a symbol twice");
    vocabulary.joined.emplace(pair_key(left_id->second, right_id->second), id);
    vocabulary.bytes_of_id.push_back(left + right);
  }
  return vocabulary;
}

uint32_t BytePairEncoder::joined_or_none(uint32_t left) const {
  const uint32_t right = next_[left];
  if (right == id_.size()) return kNone;
  const auto found = vocabulary_.joined.find(pair_key(id_[left], id_[right]));
  return found == vocabulary_.joined.end() ? kNone : found->second;
}

void BytePairEncoder::offer(uint32_t left) {
  const uint32_t id = joined_or_none(left);
  if (id == kNone) return;
  heap_.push_back(pair_key(id, left));
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void BytePairEncoder::join(uint32_t left, uint32_t id) {
  const uint32_t right = next_[left];
  const uint32_t after = next_[right];
  id_[left] = id;
  id_[right] = kNone;
  next_[left] = after;
  if (after != id_.size()) previous_[after] = left;
}

// Joining the smallest id first and, among equals, the leftmost gives GPT-2's result, which joins
// all places of the earliest learned pair at once: a symbol made by pair k only occurs in pairs
// learned after k.
void BytePairEncoder::encode(std::string_view piece, std::vector<uint32_t>& ids) {
  ensure(piece.size() < kNone, "a piece of text of 4 GiB or more");
  const auto size = static_cast<uint32_t>(piece.size());
  id_.resize(size);
  next_.resize(size);
  previous_.resize(size);
  heap_.clear();
  for (uint32_t i = 0; i < size; ++i) {
    id_[i] = vocabulary_.id_of_byte[static_cast<unsigned char>(piece[i])];
    next_[i] = i + 1;
    previous_[i] = i == 0 ? kNone : i - 1;
  }
  for (uint32_t i = 0; i < size; ++i) offer(i);

  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const uint64_t best = heap_.back();
    heap_.pop_back();
    const auto left = static_cast<uint32_t>(best);
    const auto id = static_cast<uint32_t>(best >> 32U);
    if (id_[left] == kNone || joined_or_none(left) != id) continue;
    join(left, id);
    if (previous_[left] != kNone) offer(previous_[left]);
    offer(left);
  }
  for (uint32_t i = 0; i < size; i = next_[i]) ids.push_back(id_[i]);
}

}  // namespace olm2
