// The other side of solver_process.h: a process that solves what its parent sends.
#pragma once

#include <string_view>

namespace olm2 {

// The first argument of a program that is to be a solver process; the second is its parent's id.
inline constexpr std::string_view kServeArgument = "--solve-for-parent";

// Answers the requests that come on standard input, a socket, until the parent closes it or ends.
[[noreturn]] void serve_parent(const char* parent);

}  // namespace olm2
