// The memory constraints of the planning model, made only where a point breaks them: of a thousand
// slots a dozen bind.
#include <algorithm>
#include <cmath>

#include "planner/milp_model.h"

namespace olm2 {
namespace {

size_t at(int32_t index) {
  return static_cast<size_t>(index);
}

std::vector<double> levels_of(const std::vector<Span>& spans, size_t slot_count,
                              std::span<const double> x) {
  std::vector<double> change(slot_count + 2, 0);
  for (const Span& span : spans) {
    const double value = span.column < 0 ? 1.0 : x[at(span.column)];
    change[at(span.first)] += span.factor * value;
    change[at(span.last) + 1] -= span.factor * value;
  }
  for (size_t s = 1; s < change.size(); ++s) change[s] += change[s - 1];
  change.pop_back();
  return change;
}

Row memory_row(const MilpModel& model, int slot, bool with_outward, bool with_homeward) {
  std::vector<double> factors(model.linear.columns.size(), 0);
  Row row{.terms = {}, .lower = -kUnbounded, .upper = model.budget_units};
  if (model.budget_column >= 0) {
    row.upper = 0;
    factors[at(model.budget_column)] = -1;
  }
  const auto add = [&](const std::vector<Span>& spans) {
    for (const Span& span : spans) {
      if (slot < span.first || slot > span.last) continue;
      if (span.column < 0) {
        row.upper -= span.factor;
      } else {
        factors[at(span.column)] += span.factor;
      }
    }
  };
  add(model.spans);
  if (with_outward) add(model.outward);
  if (with_homeward) add(model.homeward);
  for (size_t j = 0; j < factors.size(); ++j) {
    if (factors[j] == 0) continue;
    row.terms.push_back({.column = static_cast<int>(j), .factor = factors[j]});
  }
  return row;
}

std::vector<double> keep_all(const MilpModel& model) {
  std::vector<double> x(model.linear.columns.size(), 0);
  for (const int column : model.holds) x[at(column)] = 1;
  return x;
}

}  // namespace

std::vector<Row> likely_memory_rows(const MilpModel& model) {
  return broken_memory_rows(model, keep_all(model));
}

int fullest_slot(const MilpModel& model) {
  const std::vector<double> levels = levels_of(model.spans, model.slots.size(), keep_all(model));
  return static_cast<int>(std::ranges::max_element(levels) - levels.begin());
}

std::vector<Row> broken_memory_rows(const MilpModel& model, std::span<const double> x) {
  const double budget = model.budget_column >= 0 ? x[at(model.budget_column)] : model.budget_units;
  const double tolerance = 1e-7 * (1.0 + std::abs(budget));
  std::vector<double> levels = levels_of(model.spans, model.slots.size(), x);
  const std::vector<double> outward = levels_of(model.outward, model.slots.size(), x);
  const std::vector<double> homeward = levels_of(model.homeward, model.slots.size(), x);
  for (size_t s = 0; s < levels.size(); ++s) {
    levels[s] += std::max(0.0, outward[s]) + std::max(0.0, homeward[s]);
  }
  std::vector<Row> rows;
  int worst = -1;
  for (size_t s = 0; s <= levels.size(); ++s) {
    const bool breaks = s < levels.size() && levels[s] > budget + tolerance;
    if (breaks && (worst < 0 || levels[s] > levels[at(worst)])) worst = static_cast<int>(s);
    if (breaks || worst < 0) continue;
    rows.push_back(memory_row(model, worst, outward[at(worst)] > 0, homeward[at(worst)] > 0));
    worst = -1;
  }
  return rows;
}

}  // namespace olm2
