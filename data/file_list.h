// From the globs of a configuration to files.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace olm2 {

// Every file that matches one of `globs`, once, in order of name.  Relative globs start at `base`.
// Throws Error naming a glob that matches nothing.
std::vector<std::filesystem::path> expand_globs(std::span<const std::string> globs,
                                                const std::filesystem::path& base);

}  // namespace olm2
