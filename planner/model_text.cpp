// CompleteModel as MPS and as LP text.
// Sources: the free MPS format and CPLEX's LP format as GLPK's reference manual, appendices B and
// C, describe them.
#include <array>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "planner/model_file.h"

namespace olm2 {
namespace {

constexpr const char* kConstant = "constant";

std::string number(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

bool has_lower(const Row& row) {
  return row.lower != -kUnbounded;
}
bool has_upper(const Row& row) {
  return row.upper != kUnbounded;
}

// E: equal, L: at most, G: at least; a row with two different sides is G with a range.
char kind_of(const Row& row) {
  ensure(has_lower(row) || has_upper(row), "a row without any bound");
  if (row.lower == row.upper) return 'E';
  return has_lower(row) ? 'G' : 'L';
}

double side_of(const Row& row) {
  return kind_of(row) == 'L' ? row.upper : row.lower;
}

// --- MPS ----------------------------------------------------------------------------------------

void mps_columns(const CompleteModel& model, std::string& text) {
  const LinearModel& linear = model.linear;
  std::vector<std::vector<std::pair<size_t, double>>> entries(linear.columns.size());
  for (size_t i = 0; i < linear.rows.size(); ++i) {
    for (const Term& term : linear.rows[i].terms) {
      entries[static_cast<size_t>(term.column)].emplace_back(i, term.factor);
    }
  }
  text += "COLUMNS\n";
  bool in_integers = false;
  const auto mark = [&](bool integer) {
    if (integer == in_integers) return;
    text += std::string(" marker 'MARKER' '") + (integer ? "INTORG" : "INTEND") + "'\n";
    in_integers = integer;
  };
  for (size_t j = 0; j < linear.columns.size(); ++j) {
    mark(linear.columns[j].integer);
    const std::string& name = model.columns[j];
    text += " " + name + " time " + number(linear.columns[j].cost) + "\n";
    for (const auto& [row, factor] : entries[j]) {
      text += " " + name + " " + model.rows[row] + " " + number(factor) + "\n";
    }
  }
  mark(false);
  text += std::string(" ") + kConstant + " time " + number(linear.constant) + "\n";
}

void mps_sides(const CompleteModel& model, std::string& text) {
  text += "RHS\n";
  for (size_t i = 0; i < model.linear.rows.size(); ++i) {
    const double side = side_of(model.linear.rows[i]);
    if (side != 0) text += " rhs " + model.rows[i] + " " + number(side) + "\n";
  }
  std::string ranges;
  for (size_t i = 0; i < model.linear.rows.size(); ++i) {
    const Row& row = model.linear.rows[i];
    if (kind_of(row) != 'G' || !has_upper(row)) continue;
    ranges += " range " + model.rows[i] + " " + number(row.upper - row.lower) + "\n";
  }
  if (!ranges.empty()) text += "RANGES\n" + ranges;
}

void mps_bounds(const CompleteModel& model, std::string& text) {
  text += "BOUNDS\n";
  for (size_t j = 0; j < model.linear.columns.size(); ++j) {
    const Column& column = model.linear.columns[j];
    const std::string& name = model.columns[j];
    if (column.integer && column.lower == 0 && column.upper == 1) {
      text += " BV bound " + name + "\n";
      continue;
    }
    if (column.lower == -kUnbounded) {
      text += " MI bound " + name + "\n";
    } else if (column.lower != 0) {
      text += " LO bound " + name + " " + number(column.lower) + "\n";
    }
    if (column.upper != kUnbounded) {
      text += " UP bound " + name + " " + number(column.upper) + "\n";
    } else if (column.integer) {
      text += " PL bound " + name + "\n";
    }
  }
  text += std::string(" FX bound ") + kConstant + " 1\n";
}

// --- LP -----------------------------------------------------------------------------------------

// Terms in lines that no reader finds too long.
class Sum {
 public:
  explicit Sum(std::string& text) : text_(text) {}
  void add(double factor, const std::string& name) {
    if (count_ > 0 && count_ % 6 == 0) text_ += "\n  ";
    text_ += factor < 0 ? " - " : " + ";
    text_ += number(std::abs(factor)) + " " + name;
    ++count_;
  }

 private:
  std::string& text_;
  int count_ = 0;
};

void lp_row(const CompleteModel& model, size_t index, std::string& text) {
  const Row& row = model.linear.rows[index];
  const auto add = [&](const std::string& name, const char* relation, double side) {
    text += " " + name + ":";
    Sum sum(text);
    for (const Term& term : row.terms) {
      sum.add(term.factor, model.columns[static_cast<size_t>(term.column)]);
    }
    text += std::string(" ") + relation + " " + number(side) + "\n";
  };
  if (row.lower == row.upper) return add(model.rows[index], "=", row.lower);
  if (has_lower(row)) add(model.rows[index], ">=", row.lower);
  if (has_upper(row)) add(model.rows[index] + (has_lower(row) ? "_too" : ""), "<=", row.upper);
}

void lp_bounds(const CompleteModel& model, std::string& text) {
  text += "Bounds\n";
  for (size_t j = 0; j < model.linear.columns.size(); ++j) {
    const Column& column = model.linear.columns[j];
    const std::string low = column.lower == -kUnbounded ? "-inf" : number(column.lower);
    const std::string high = column.upper == kUnbounded ? "+inf" : number(column.upper);
    text += " " + low + " <= " + model.columns[j] + " <= " + high + "\n";
  }
  text += std::string(" ") + kConstant + " = 1\nGeneral\n";
  for (size_t j = 0; j < model.linear.columns.size(); ++j) {
    if (model.linear.columns[j].integer) text += " " + model.columns[j] + "\n";
  }
}

}  // namespace

std::string to_mps(const CompleteModel& model) {
  std::string text;
  for (const std::string& note : model.notes) text += "* " + note + "\n";
  text += "NAME olm2\nROWS\n N time\n";
  for (size_t i = 0; i < model.linear.rows.size(); ++i) {
    text += std::string(" ") + kind_of(model.linear.rows[i]) + " " + model.rows[i] + "\n";
  }
  mps_columns(model, text);
  mps_sides(model, text);
  mps_bounds(model, text);
  return text + "ENDATA\n";
}

std::string to_lp(const CompleteModel& model) {
  std::string text;
  for (const std::string& note : model.notes) text += "\\ " + note + "\n";
  text += "Minimize\n time:";
  Sum sum(text);
  for (size_t j = 0; j < model.linear.columns.size(); ++j) {
    const double cost = model.linear.columns[j].cost;
    if (cost != 0) sum.add(cost, model.columns[j]);
  }
  sum.add(model.linear.constant, kConstant);
  text += "\nSubject To\n";
  for (size_t i = 0; i < model.linear.rows.size(); ++i) lp_row(model, i, text);
  lp_bounds(model, text);
  return text + "End\n";
}

}  // namespace olm2
