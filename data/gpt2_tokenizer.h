// GPT-2's tokenizer: split (gpt2_split.h), then join (byte_pair.h), with a cache in between.
#pragma once

#include <memory>

#include "data/tokenizer.h"

namespace olm2 {

std::unique_ptr<Tokenizer> make_gpt2_tokenizer();

}  // namespace olm2
