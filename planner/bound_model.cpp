#include "planner/bound_model.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "planner/bound_copies.h"

namespace olm2 {
namespace {

size_t at(int32_t index) {
  return static_cast<size_t>(index);
}
size_t at(ValueId value) {
  return static_cast<size_t>(value.index);
}

class TurnBuilder {
 public:
  TurnBuilder(const Problem& problem, const TurnRequest& request)
      : problem_(problem), graph_(*problem.graph), request_(request), turn_(request.turn.index) {}

  TurnModel build() {
    choose_units();
    model_.needs = needs_of(problem_, request_.turn);
    model_.again.assign(graph_.nodes().size(), -1);
    model_.sent.assign(graph_.values().size(), -1);
    model_.kept.assign(graph_.values().size(), -1);
    model_.held.assign(graph_.values().size(), -1);
    copies_ = may_copy(problem_, request_.may_swap);
    add_runs();
    for (size_t v = 0; v < graph_.values().size(); ++v) add_value({static_cast<int32_t>(v)});
    add_memory();
    add_chains();
    if (copies_) {
      add_copies(problem_, request_, model_);
    }
    return std::move(model_);
  }

 private:
  double time_again(size_t node) const { return problem_.run_seconds(node, true) / model_.unit_s; }
  bool is_read_by_turn(ValueId value) const { return model_.needs.read_by_turn[at(value)]; }

  void choose_units() {
    const double total = std::accumulate(problem_.seconds.begin(), problem_.seconds.end(), 0.0);
    const auto count = static_cast<double>(std::max<size_t>(graph_.nodes().size(), 1));
    model_.unit_s = total > 0 ? total / count : 1;
    model_.linear.constant = total / model_.unit_s;
    int64_t largest = 0;
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      largest = std::max(largest, bytes_of(problem_, {static_cast<int32_t>(v)}));
    }
    model_.unit_bytes = static_cast<double>(std::max<int64_t>(largest / 4, 1));
  }

  // The seconds of c are part of those added after T where there are copies.
  void add_runs() {
    if (!request_.may_recompute) return;
    for (size_t n = 0; n < at(turn_); ++n) {
      if (model_.needs.run_deadline[n] == kNoNode) continue;
      model_.again[n] =
          model_.linear.add({.cost = copies_ ? 0.0 : time_again(n), .lower = 0, .upper = 1});
    }
  }

  int run_column(ValueId value) const {
    const int32_t node = graph_.value(value).producer.index;
    return node < 0 ? -1 : model_.again[at(node)];
  }

  void add_value(ValueId value) {
    const size_t v = at(value);
    if (!model_.needs.in_v[v] || model_.needs.deadline[v] == kNoNode) return;
    if (is_read_by_turn(value)) return;  // Surely on the device.
    if (!model_.is_needed(v) && !request_.may_recompute) return;
    if (copies_ && (request_.may_swap || rests_elsewhere(problem_, value))) {
      model_.sent[v] = model_.linear.add({.cost = 0, .lower = 0, .upper = 1});
    }
    if (!model_.is_needed(v)) {
      model_.held[v] = model_.linear.add({.cost = 0, .lower = 0, .upper = 1});
    } else if (model_.sent[v] >= 0) {
      add_parts(value);
    }
  }

  // h + c, and what is kept, are parts of one.
  void add_parts(ValueId value) {
    const size_t v = at(value);
    Row row{.terms = {{.column = model_.sent[v], .factor = 1}}, .upper = 1};
    RowOrigin origin;
    if (run_column(value) >= 0) {
      row.terms.push_back({.column = run_column(value), .factor = 1});
      origin = {.node = graph_.value(value).producer.index, .which = -1 - output_position(value)};
    }
    if (request_.has_later_cuts) {
      model_.kept[v] = model_.linear.add({.cost = 0, .lower = 0, .upper = 1});
      row.terms.push_back({.column = model_.kept[v], .factor = 1});
    }
    if (row.terms.size() > 1) model_.add_row(std::move(row), origin);
  }

  int output_position(ValueId value) const {
    const std::vector<ValueId>& outputs = graph_.node(graph_.value(value).producer).outputs;
    return static_cast<int>(std::ranges::find(outputs, value) - outputs.begin());
  }

  // Row 3, where d of what is needed is 1 - h - c.
  void add_memory() {
    const int64_t budget = problem_.budget[index_of(Tier::device)];
    int64_t fixed =
        padded(problem_.state_bytes, problem_.alignment) + made_bytes(problem_, at(turn_));
    std::map<int, double> freed;  // Several outputs may have one column c.
    Row row{.terms = {}};
    for (size_t v = 0; v < graph_.values().size(); ++v) {
      const ValueId value{static_cast<int32_t>(v)};
      const double bytes = model_.units(bytes_of(problem_, value));
      if (model_.held[v] >= 0) row.terms.push_back({.column = model_.held[v], .factor = bytes});
      if (!model_.is_needed(v)) continue;
      fixed += bytes_of(problem_, value);
      if (is_read_by_turn(value)) continue;
      if (model_.sent[v] >= 0) freed[model_.sent[v]] += bytes;
      if (run_column(value) >= 0) freed[run_column(value)] += bytes;
    }
    for (const auto& [column, bytes] : freed) {
      row.terms.push_back({.column = column, .factor = -bytes});
    }
    row.upper = model_.units(budget - fixed);
    model_.is_impossible = row.terms.empty() && budget < fixed;
    model_.add_memory_row(std::move(row));
  }

  // Rows 2; rows 1 imply them for inputs that are needed later anyway.
  void add_chains() {
    for (size_t n = 0; n < at(turn_); ++n) {
      if (model_.again[n] < 0) continue;
      const std::vector<ValueId>& inputs = graph_.nodes()[n].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const ValueId input = inputs[i];
        const auto here = inputs.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::find(inputs.begin(), here, input) != here) continue;  // Read twice.
        if (model_.held[at(input)] < 0) continue;
        Row row{.terms = {{.column = model_.held[at(input)], .factor = 1},
                          {.column = model_.again[n], .factor = -1}},
                .lower = 0};
        if (model_.sent[at(input)] >= 0) {
          row.terms.push_back({.column = model_.sent[at(input)], .factor = 1});
        }
        if (run_column(input) >= 0) row.terms.push_back({.column = run_column(input), .factor = 1});
        model_.add_row(std::move(row),
                       {.node = static_cast<int32_t>(n), .which = static_cast<int>(i)});
      }
    }
  }

  const Problem& problem_;
  const Graph& graph_;
  const TurnRequest& request_;
  const int32_t turn_;
  bool copies_ = false;
  TurnModel model_;
};

}  // namespace

TurnModel build_turn(const Problem& problem, const TurnRequest& request) {
  return TurnBuilder(problem, request).build();
}

}  // namespace olm2
