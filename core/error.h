// The two ways something goes wrong: a request that cannot be met, and our own mistake.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace olm2 {

// A request that cannot be met: bad shapes, an impossible budget, a broken file.
// The message names the thing, what was found, what was expected and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An invariant of our own code.  Active in every build; throws std::logic_error.
// The message is a view, so that a check that holds allocates nothing.
inline void ensure(bool condition, std::string_view message) {
  if (!condition) throw std::logic_error("olm2 bug: " + std::string(message));
}

}  // namespace olm2
