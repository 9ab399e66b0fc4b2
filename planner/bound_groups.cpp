#include "planner/bound_groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace olm2 {
namespace {

size_t at(int32_t index) {
  return static_cast<size_t>(index);
}

// What like nodes have in common.
struct Likeness {
  std::string name;  // Within its layer; of a node outside of any, its full name.
  const OpDef* op = nullptr;
  double seconds = 0;
  std::vector<int64_t> uses;  // Per output its bytes and which columns it has.
  auto operator<=>(const Likeness&) const = default;
};

class Grouping {
 public:
  Grouping(const Problem& problem, const TurnModel& model)
      : problem_(problem), graph_(*problem.graph), model_(model) {}

  WholeRuns run(int few_runs) {
    const auto runs = std::ranges::count_if(model_.again, [](int column) { return column >= 0; });
    result_.is_grouped = runs > few_runs;
    find_groups();
    add_columns();
    add_rows();
    return std::move(result_);
  }

 private:
  Likeness likeness_of(size_t n) const {
    const Node& node = graph_.nodes()[n];
    Likeness like{
        .name = node.name, .op = node.op, .seconds = problem_.run_seconds(n, true), .uses = {}};
    if (node.scope >= 0) {
      const std::string& scope = graph_.scopes()[at(node.scope)];
      if (node.name.starts_with(scope)) like.name = node.name.substr(scope.size());
    }
    for (const ValueId output : node.outputs) {
      const size_t v = at(output.index);
      like.uses.push_back(problem_.padded_bytes(output));
      like.uses.push_back(model_.is_needed(v) ? 1 : 0);
      like.uses.push_back(model_.needs.read_by_turn[v] ? 1 : 0);
      like.uses.push_back(model_.held[v] >= 0 ? 1 : 0);
      like.uses.push_back(model_.sent[v] >= 0 ? 1 : 0);
    }
    return like;
  }

  void find_groups() {
    group_of_.assign(model_.again.size(), -1);
    std::map<Likeness, int> numbers;
    for (size_t n = 0; n < model_.again.size(); ++n) {
      if (model_.again[n] < 0) continue;
      Likeness like = likeness_of(n);
      if (!result_.is_grouped) like.name = graph_.nodes()[n].name;
      const auto next = static_cast<int>(numbers.size());
      group_of_[n] = numbers.try_emplace(std::move(like), next).first->second;
    }
    members_.assign(numbers.size(), 0);
    for (const int group : group_of_) {
      if (group >= 0) ++members_[at(group)];
    }
  }

  void add_columns() {
    const LinearModel& from = model_.linear;
    result_.linear.constant = from.constant;
    new_column_.assign(from.columns.size(), -1);
    group_column_.assign(members_.size(), -1);
    column_group_.assign(from.columns.size(), -1);
    for (size_t n = 0; n < model_.again.size(); ++n) {
      if (group_of_[n] < 0) continue;
      const int group = group_of_[n];
      int& column = group_column_[at(group)];
      column_group_[at(model_.again[n])] = group;
      if (column < 0) {
        Column whole = from.columns[at(model_.again[n])];
        whole.upper = members_[at(group)];
        whole.integer = true;
        column = result_.linear.add(whole);
        ++result_.integers;
      }
      new_column_[at(model_.again[n])] = column;
    }
    for (size_t j = 0; j < from.columns.size(); ++j) {
      if (new_column_[j] < 0) new_column_[j] = result_.linear.add(from.columns[j]);
    }
  }

  // Rows of like nodes are added up.
  void add_rows() {
    std::map<std::tuple<int, int>, std::vector<const Row*>> alike;
    for (size_t i = 0; i < model_.linear.rows.size(); ++i) {
      const RowOrigin& origin = model_.origins[i];
      const Row& row = model_.linear.rows[i];
      if (origin.node < 0) {
        add_sum({&row});
      } else {
        alike[{group_of_[at(origin.node)], origin.which}].push_back(&row);
      }
    }
    for (const auto& [key, rows] : alike) add_sum(rows);
  }

  void add_sum(const std::vector<const Row*>& rows) {
    std::map<int, double> single;               // Factors of columns that stay.
    std::map<int, std::map<int, double>> runs;  // Per group, of its members' columns.
    Row sum{.terms = {}, .lower = 0, .upper = 0};
    for (const Row* row : rows) {
      sum.lower += row->lower;
      sum.upper += row->upper;
      for (const Term& term : row->terms) {
        const int group = column_group_[at(term.column)];
        if (group < 0) {
          single[new_column_[at(term.column)]] += term.factor;
        } else {
          runs[group][term.column] += term.factor;
        }
      }
    }
    for (const auto& [group, factors] : runs) add_group(group, factors, sum);
    for (const auto& [column, factor] : single) {
      sum.terms.push_back({.column = column, .factor = factor});
    }
    result_.linear.rows.push_back(std::move(sum));
  }

  // One factor for all members, the one that is furthest from 0.
  void add_group(int group, const std::map<int, double>& factors, Row& sum) const {
    double common = 0;
    for (const auto& [column, factor] : factors) {
      if (std::abs(factor) > std::abs(common)) common = factor;
    }
    double above = 0;
    double below = 0;
    const auto differ = [&](double factor, double members) {
      above += members * std::max(0.0, factor - common);
      below += members * std::max(0.0, common - factor);
    };
    for (const auto& [column, factor] : factors) differ(factor, 1);
    differ(0, members_[at(group)] - static_cast<double>(factors.size()));
    sum.lower -= above;
    sum.upper += below;
    sum.terms.push_back({.column = group_column_[at(group)], .factor = common});
  }

  const Problem& problem_;
  const Graph& graph_;
  const TurnModel& model_;
  std::vector<int> group_of_;      // Per node, -1: it has no column.
  std::vector<int> members_;       // Per group.
  std::vector<int> group_column_;  // Per group.
  std::vector<int> column_group_;  // Per old column, -1: it stays.
  std::vector<int> new_column_;    // Per old column.
  WholeRuns result_;
};

}  // namespace

WholeRuns with_whole_runs(const Problem& problem, const TurnModel& model, int few_runs) {
  return Grouping(problem, model).run(few_runs);
}

}  // namespace olm2
