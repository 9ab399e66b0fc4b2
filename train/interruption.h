// Ctrl-C as a wish: while one of these lives, the first SIGINT does not end the program but asks
// for an early end of what goes on.  The second one ends the program, as ever.
#pragma once

#include <string>

namespace olm2 {

class Interruption {
 public:
  // `answer` is said on stderr at once when the wish comes.  At most one lives at a time.  Does
  // nothing where SIGINT is ignored, as it is for jobs in the background.
  explicit Interruption(const std::string& answer);
  ~Interruption();  // SIGINT does again what it did before.
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  bool is_wished() const;
};

}  // namespace olm2
