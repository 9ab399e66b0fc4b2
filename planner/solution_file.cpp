// Solutions of other solvers: read, arranged into a plan, certified.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "core/error.h"
#include "planner/model_file.h"
#include "planner/realize.h"

namespace olm2 {
namespace {

constexpr double kRounding = 1e-5;  // What solvers take for an integer, and for a bound kept.

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  constexpr std::string_view kSpaces = " \t\r";
  for (size_t begin = line.find_first_not_of(kSpaces); begin != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kSpaces, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kSpaces, end);
  }
  return words;
}

std::optional<double> number_of(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

class SolutionReader {
 public:
  SolutionReader(const CompleteModel& model, std::string_view origin)
      : model_(model), origin_(origin), x_(model.columns.size(), 0) {
    for (size_t j = 0; j < model.columns.size(); ++j) index_.emplace(model.columns[j], j);
  }

  std::vector<double> read(std::string_view text) {
    int number = 0;
    while (!text.empty() && !is_over_) {
      const size_t end = std::min(text.find('\n'), text.size());
      read_line(text.substr(0, end), ++number);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (named_ == 0) {
      fail("no line names a column of the model, such as \"" + model_.columns.front() +
           " 1\"; is it the solution of another model?");
    }
    check_values();
    x_.resize(model_.milp.linear.columns.size());
    return std::move(x_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(std::string(origin_) + ": " + what);
  }

  void read_line(std::string_view line, int number) {
    is_over_ = line.starts_with("# Dual");  // HiGHS: the same names again.
    // HiGHS: rows, whose names may be columns' names, too.
    if (line.starts_with("# Rows")) is_in_rows_ = true;
    if (line.starts_with("# Columns")) is_in_rows_ = false;
    std::vector<std::string_view> words = words_of(line);
    if (!words.empty() && words[0] == "**") words.erase(words.begin());  // CBC: out of bounds.
    if (words.size() < 2 || is_in_rows_) return;
    if (words[0] == "s") glpk_value_ = words[1] == "bas" ? 3 : 2;
    if (words[0] == "j" && glpk_value_ > 0 && words.size() > glpk_value_) {
      const auto j = static_cast<size_t>(number_of(words[1]).value_or(0)) - 1;
      if (j < x_.size()) return set(j, words[glpk_value_], number);
    }
    for (const size_t name : {size_t{0}, size_t{1}}) {
      const auto found = index_.find(std::string(words[name]));
      if (found == index_.end() || words.size() < name + 2) continue;
      return set(found->second, words[name + 1], number);
    }
  }

  void set(size_t column, std::string_view word, int line) {
    const std::optional<double> value = number_of(word);
    if (!value || !std::isfinite(*value)) {
      fail("line " + std::to_string(line) + ": '" + std::string(word) + "' is no number");
    }
    x_[column] = *value;
    ++named_;
  }

  void check_values() {
    for (size_t j = 0; j < model_.milp.linear.columns.size(); ++j) {
      const Column& column = model_.milp.linear.columns[j];
      const double allowed = kRounding * (1 + std::abs(x_[j]));
      const bool is_whole = std::abs(x_[j] - std::round(x_[j])) <= kRounding;
      if (x_[j] < column.lower - allowed || x_[j] > column.upper + allowed ||
          (column.integer && !is_whole)) {
        std::ostringstream text;
        text << model_.columns[j] << " is " << x_[j] << ", expected "
             << (column.integer ? "0 or 1" : "a value within its bounds");
        fail(text.str());
      }
      x_[j] = std::clamp(x_[j], column.lower, column.upper);
    }
  }

  const CompleteModel& model_;
  std::string_view origin_;
  std::vector<double> x_;
  std::unordered_map<std::string, size_t> index_;
  size_t named_ = 0;
  size_t glpk_value_ = 0;  // Which word of a line "j ..." is the value; 0: none.
  bool is_in_rows_ = false;
  bool is_over_ = false;
};

Error refusal(std::string_view origin, std::string_view what, const BytesPerTier& needs,
              const BytesPerTier& budget) {
  std::string text = std::string(origin) + ": its plan, " + std::string(what) + ", needs";
  for (const Tier tier : {Tier::device, Tier::host}) {
    const int64_t excess = needs[index_of(tier)] - budget[index_of(tier)];
    if (excess <= 0) continue;
    text += " " + std::to_string(needs[index_of(tier)]) + " bytes on the " +
            std::string(to_string(tier)) + ", " + std::to_string(excess) + " more than the budget;";
  }
  return Error(text +
               " write the model for a budget lower by that, solve it, and read the solution with "
               "the budget of now");
}

}  // namespace

std::vector<double> parse_solution(const CompleteModel& model, std::string_view text,
                                   std::string_view origin) {
  return SolutionReader(model, origin).read(text);
}

Planned plan_of_solution(const Problem& problem, const PlanOptions& options,
                         const CompleteModel& model, const std::vector<double>& x,
                         std::string_view origin) {
  const Arrangement arrangement = arrange(problem, decisions_of(problem, model.milp, x));
  if (!arrangement.fits(problem.budget)) {
    throw refusal(origin, "even with copies that take no time", arrangement.least, problem.budget);
  }
  Realized realized = realize(problem, arrangement.plan);
  if (!is_within(realized.schedule.arena, problem.budget)) {
    throw refusal(origin, "with its addresses", realized.schedule.arena, problem.budget);
  }
  return certify(problem, options, std::move(realized.plan), origin);
}

}  // namespace olm2
