// One unit of work, encoded.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/corpus.h"
#include "data/tokenizer.h"

namespace olm2 {

struct SplitCounts {
  int64_t documents = 0;
  int64_t bytes = 0;   // Of text.
  int64_t tokens = 0;  // Separators included.
};

struct EncodedUnit {
  // Per split: ids in the order of the text, each finished document followed by the separator.
  std::array<std::vector<uint32_t>, kSplitCount> ids{};
  std::array<SplitCounts, kSplitCount> counts{};
  int64_t empty_documents = 0;  // They yield nothing, not even a separator.
  std::array<int64_t, 256> byte_counts{};
  int64_t input_bytes = 0;
};

// Throws Error naming file and line of a line that is no JSON object with a string under "text".
EncodedUnit encode_unit(const WorkUnit& unit, double val_fraction, Tokenizer& tokenizer);

}  // namespace olm2
