#include "tests/planner/coverings.h"

#include <algorithm>
#include <cmath>

namespace olm2 {

LinearModel model_of(const Covering& covering) {
  LinearModel model;
  Row row{.terms = {}, .lower = covering.load, .upper = kUnbounded};
  for (size_t i = 0; i < covering.weights.size(); ++i) {
    const int column =
        model.add({.cost = covering.prices[i], .lower = 0, .upper = 1, .integer = true});
    row.terms.push_back({.column = column, .factor = covering.weights[i]});
  }
  model.rows.push_back(row);
  return model;
}

double cheapest_by_trying_all(const Covering& covering) {
  double best = kUnbounded;
  for (uint32_t set = 0; set < (1U << covering.weights.size()); ++set) {
    double weight = 0;
    double price = 0;
    for (size_t i = 0; i < covering.weights.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      weight += covering.weights[i];
      price += covering.prices[i];
    }
    if (weight >= covering.load) best = std::min(best, price);
  }
  return best;
}

Covering random_covering(uint64_t seed) {
  Covering covering;
  uint64_t state = seed;
  const auto next = [&] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(1 + (state >> 33U) % 97);
  };
  for (int i = 0; i < 9; ++i) {
    covering.weights.push_back(next());
    covering.prices.push_back(next());
    covering.load += covering.weights.back() * 0.6;
  }
  return covering;
}

std::vector<double> all_items(const Covering& covering) {
  return std::vector<double>(covering.weights.size(), 1.0);
}

double price(const Covering& covering, std::span<const double> x) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += covering.prices[i] * x[i];
  return sum;
}

LinearModel endless(int items) {
  LinearModel model;
  Row row{.terms = {}, .lower = 0, .upper = kUnbounded};
  double sum = 0;
  for (int i = 0; i < items; ++i) {
    const double weight = 2.0 * (1000 + i * i % 101);
    const int column = model.add({.cost = 0.731 * weight, .lower = 0, .upper = 1, .integer = true});
    row.terms.push_back({column, weight});
    sum += weight;
  }
  row.lower = 2 * std::floor(sum / 4) + 1;
  model.rows.push_back(row);
  return model;
}

SolverRequest exact() {
  return {.gap = 0, .time_limit_s = 60};
}

}  // namespace olm2
