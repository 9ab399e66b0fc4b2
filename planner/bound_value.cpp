#include "planner/bound_value.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace olm2 {
namespace {

constexpr double kRounding = 1e-12;  // Relative to what is added up.

// Adds numbers and remembers how large they were.
class Sum {
 public:
  void add(double number) {
    total_ += number;
    magnitude_ += std::abs(number);
  }
  void add_doubt(double magnitude) { magnitude_ += magnitude; }
  double lower() const { return total_ - kRounding * magnitude_; }

 private:
  double total_ = 0;
  double magnitude_ = 0;
};

bool proves_something(const Row& row, double price) {
  return price > 0 ? row.lower > -kUnbounded : (price < 0 && row.upper < kUnbounded);
}

}  // namespace

double proven_value(const LinearModel& model, std::span<const double> prices) {
  ensure(prices.size() == model.rows.size(), "one multiplier per row");
  std::vector<double> paid(model.columns.size(), 0);  // y A
  std::vector<double> magnitude(model.columns.size(), 0);
  for (size_t i = 0; i < model.rows.size(); ++i) {
    if (!proves_something(model.rows[i], prices[i])) continue;
    for (const Term& term : model.rows[i].terms) {
      const auto j = static_cast<size_t>(term.column);
      paid[j] += prices[i] * term.factor;
      magnitude[j] += std::abs(prices[i] * term.factor);
    }
  }
  double scale = 1;
  for (size_t j = 0; j < paid.size(); ++j) {
    const Column& column = model.columns[j];
    ensure(column.lower > -kUnbounded && column.cost >= 0, "a column may lower the cost for ever");
    if (column.upper < kUnbounded || paid[j] <= column.cost) continue;
    scale = std::min(scale, (1 - kRounding) * column.cost / paid[j]);
  }
  Sum sum;
  sum.add(model.constant);
  for (size_t i = 0; i < model.rows.size(); ++i) {
    const Row& row = model.rows[i];
    if (!proves_something(row, prices[i])) continue;
    sum.add(scale * prices[i] * (prices[i] > 0 ? row.lower : row.upper));
  }
  for (size_t j = 0; j < paid.size(); ++j) {
    const Column& column = model.columns[j];
    const double rest = column.cost - scale * paid[j];
    if (rest >= 0) {
      sum.add(rest * column.lower);
    } else if (column.upper < kUnbounded) {
      sum.add(rest * column.upper);
    }
    const double furthest = std::max(std::abs(column.lower), std::abs(column.upper));
    if (furthest < kUnbounded) sum.add_doubt(magnitude[j] * furthest);
  }
  return sum.lower();
}

}  // namespace olm2
