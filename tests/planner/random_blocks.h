// Training steps of few nodes whose values are whole blocks and whose nodes take whole seconds, as
// the search with copies wants them (copy_oracle.h).
#pragma once

#include <random>
#include <string>
#include <vector>

#include "core/schedule.h"

namespace olm2 {

struct BlockRules {
  int64_t elements = 16;   // f32, of one block; a link moves one block per second.
  bool in_place = true;    // Some outputs may lie on an input.
  bool input = true;       // The first node reads an input, and its backward node does, too.
  int most_blocks = 2;     // Of a value.
  bool workspace = false;  // Some nodes need a block of their own.
  int most_seconds = 3;    // Of a node.
  bool lean = false;       // A backward node reads what its forward node read or made, not both.
};

// Two or three forward nodes of one or two blocks, each reading the one before and the third
// perhaps the first, and as many backward nodes.  Budgets: some blocks above what one node needs;
// one to five on the host.
class RandomBlocks {
 public:
  explicit RandomBlocks(uint64_t seed, const BlockRules& rules = {});
  const Problem& problem() const { return problem_; }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  ValueId add_node(const std::string& name, const std::vector<ValueId>& inputs);

  std::mt19937_64 random_;
  BlockRules rules_;
  Graph graph_;
  Problem problem_;
};

}  // namespace olm2
