// Small integer programs with known answers, and one that takes for ever.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/solver.h"

namespace olm2 {

// Items with weights and prices; at least `load` must be carried, as cheaply as possible.
struct Covering {
  std::vector<double> weights;
  std::vector<double> prices;
  double load = 0;
};

LinearModel model_of(const Covering& covering);
double cheapest_by_trying_all(const Covering& covering);
double price(const Covering& covering, std::span<const double> x);
// Every item: keeps the load, at the highest price.
std::vector<double> all_items(const Covering& covering);
Covering random_covering(uint64_t seed);

// Far too hard to prove: every sum of weights is even, and the load is odd.
LinearModel endless(int items);

// To the end, within a minute.
SolverRequest exact();

}  // namespace olm2
