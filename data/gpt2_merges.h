// The text of data/gpt2/merges.txt, compiled in so that programs run from anywhere.
#pragma once

#include <string_view>

namespace olm2 {

std::string_view gpt2_merges();

}  // namespace olm2
