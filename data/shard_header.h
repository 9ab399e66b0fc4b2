// What the first bytes of a token file say, and whether to believe them.
#pragma once

#include <filesystem>
#include <string_view>

#include "data/token_shard.h"

namespace olm2 {

// `bytes` is the whole file; `path` is for messages.  Throws Error unless the file is a whole
// shard of a format we read.
ShardHeader parse_shard_header(const std::filesystem::path& path, std::string_view bytes);

}  // namespace olm2
