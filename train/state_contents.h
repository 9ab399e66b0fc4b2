// Which state has content, from program to program: whoever runs programs in another order than
// they were proven for is told so, instead of reading what another program left in those bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/executor.h"

namespace olm2 {

class StateContents {
 public:
  // All state counts as written: it is there to be set before the first program.
  explicit StateContents(std::span<const ExecutableProgram> programs);

  // Throws Error if state that program number `program` needs has no content.
  void begin(size_t program, std::string_view program_name) const;
  void end(size_t program);

 private:
  struct Source {
    std::string name;
    Tier tier = Tier::device;
    int64_t end = 0;  // Of its home.
  };
  struct Effects {
    std::vector<size_t> needs, loses, leaves;  // Sources.
    std::vector<bool> knows;                   // Per source.
  };
  size_t source_of(const Problem& problem, size_t value);
  void visit(const ExecutableProgram& program, size_t i);
  void lose_out_of_sight(const Problem& problem, size_t i);

  std::vector<Source> sources_;
  std::vector<Effects> effects_;   // Per program.
  std::vector<bool> has_content_;  // Per source.
};

}  // namespace olm2
