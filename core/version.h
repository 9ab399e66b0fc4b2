// What this build is made of.
#pragma once

#include <string>

namespace olm2 {

// "olm2 0.1.0 (commit 0123456789ab, Release, gcc 12.2.0; backends: cpu; oneDNN 2.6.3, OpenMP 4.5,
// GLPK 5.0)"; "unknown commit" outside of a git checkout.  Filled in by cmake/Version.cmake.
std::string version_text();

}  // namespace olm2
