#include "planner/model_file.h"

#include <unordered_map>

#include "core/error.h"
#include "planner/milp_slots.h"

namespace olm2 {
namespace {

size_t at(int index) {
  return static_cast<size_t>(index);
}

// Adds the memory constraints: a running sum per slot instead of dense rows.
class MemoryRows {
 public:
  explicit MemoryRows(CompleteModel& model) : model_(model) {}

  void add() {
    const int slots = static_cast<int>(model_.milp.slots.size()) + 1;  // The end counts, too.
    begins_.resize(at(slots) + 1);
    for (const Span& span : model_.milp.spans) {
      begins_[at(span.first)].push_back({span.column, span.factor});
      begins_[at(span.last) + 1].push_back({span.column, -span.factor});
    }
    std::vector<std::vector<Part>> outward = parts_per_slot(model_.milp.outward, slots);
    std::vector<std::vector<Part>> homeward = parts_per_slot(model_.milp.homeward, slots);
    int before = -1;
    for (int s = 0; s < slots; ++s) {
      const int device = add_level(s, before);
      Row memory{.terms = {{device, 1.0}},
                 .lower = -kUnbounded,
                 .upper = model_.milp.budget_units,
                 .label = {"memory", -1, s}};
      add_surplus("outward", outward[at(s)], s, memory);
      add_surplus("homeward", homeward[at(s)], s, memory);
      model_.linear.rows.push_back(std::move(memory));
      before = device;
    }
  }

 private:
  struct Part {
    int column = -1;  // -1: the constant 1.
    double factor = 0;
  };

  static std::vector<std::vector<Part>> parts_per_slot(const std::vector<Span>& spans, int slots) {
    std::vector<std::vector<Part>> parts(at(slots));
    for (const Span& span : spans) {
      for (int s = span.first; s <= span.last; ++s) {
        parts[at(s)].push_back({span.column, span.factor});
      }
    }
    return parts;
  }

  int add_column(const char* what, int slot) {
    return model_.linear.add(
        {.cost = 0, .lower = 0, .upper = kUnbounded, .integer = false, .label = {what, -1, slot}});
  }

  // `parts` summed up, each column once; the constant ones go to the right-hand side.
  static void add_parts(const std::vector<Part>& parts, double sign, Row& row) {
    std::unordered_map<int, size_t> known;
    for (const Part& part : parts) {
      if (part.column < 0) {
        row.lower -= sign * part.factor;
        row.upper -= sign * part.factor;
        continue;
      }
      const auto [place, is_new] = known.emplace(part.column, row.terms.size());
      if (is_new) row.terms.push_back({part.column, 0});
      row.terms[place->second].factor += sign * part.factor;
    }
    std::erase_if(row.terms, [](const Term& term) { return term.factor == 0; });
  }

  // device(s) = device(s-1) + what begins - what has ended.
  int add_level(int slot, int before) {
    const int level = add_column("device", slot);
    Row row{.terms = {{level, 1.0}}, .lower = 0, .upper = 0, .label = {"device", -1, slot}};
    if (before >= 0) row.terms.push_back({before, -1.0});
    add_parts(begins_[at(slot)], -1, row);
    model_.linear.rows.push_back(std::move(row));
    return level;
  }

  // max(0, parts), as far as the budget makes it small.
  void add_surplus(const char* what, const std::vector<Part>& parts, int slot, Row& memory) {
    if (parts.empty()) return;
    const int surplus = add_column(what, slot);
    Row row{.terms = {{surplus, 1.0}}, .lower = 0, .upper = kUnbounded, .label = {what, -1, slot}};
    add_parts(parts, -1, row);
    model_.linear.rows.push_back(std::move(row));
    memory.terms.push_back({surplus, 1.0});
  }

  CompleteModel& model_;
  std::vector<std::vector<Part>> begins_;
};

class Namer {
 public:
  explicit Namer(const Graph& graph) : graph_(graph) {}

  std::string name(const Label& label) {
    std::string text = *label.what == '\0' ? "x" : label.what;
    std::string inside;
    if (label.of >= 0) {
      const bool is_node = text == "run";
      inside = is_node ? graph_.node({label.of}).name : graph_.value({label.of}).name;
    }
    if (label.at >= 0) inside += (inside.empty() ? "" : ",") + std::to_string(label.at);
    if (!inside.empty()) text += "(" + inside + ")";
    const int count = ++count_[text];
    return count == 1 ? text : text + "#" + std::to_string(count);
  }

 private:
  const Graph& graph_;
  std::unordered_map<std::string, int> count_;
};

void add_names(const Problem& problem, const PlanOptions& options, CompleteModel& model) {
  const Graph& graph = *problem.graph;
  Namer columns(graph);
  for (const Column& column : model.linear.columns) {
    model.columns.push_back(columns.name(column.label));
  }
  Namer rows(graph);
  for (const Row& row : model.linear.rows) model.rows.push_back(rows.name(row.label));
  model.notes.push_back(
      "policy " + options.policy + "; time in ms; bytes in units of " +
      std::to_string(static_cast<int64_t>(model.milp.unit_bytes)) + "; device budget " +
      std::to_string(problem.budget[index_of(Tier::device)]) + " bytes, host budget " +
      std::to_string(problem.budget[index_of(Tier::host)]) + " bytes");
  for (size_t s = 0; s < model.milp.slots.size(); ++s) {
    const Slot& slot = model.milp.slots[s];
    model.notes.push_back("slot " + std::to_string(s) + ": " + graph.node(slot.node).name +
                          (slot.optional ? ", optional" : ""));
  }
}

}  // namespace

CompleteModel complete_model(const Problem& problem, const PlanOptions& options) {
  const bool is_olm2 = options.policy == "olm2";
  const bool may_recompute = is_olm2 || options.policy == "recompute";
  const bool may_swap = is_olm2 || options.policy == "swap";
  if (!may_recompute && !may_swap) {
    throw Error("policy " + options.policy +
                " is no mixed-integer program; recompute, swap and olm2 are");
  }
  CompleteModel model;
  model.milp = build_model(problem, slots_of(problem, options.space, may_recompute),
                           {.may_swap = may_swap,
                            .partial_swap = options.partial_swap,
                            .minimise_budget = false,
                            .budget = problem.budget});
  model.linear = model.milp.linear;
  MemoryRows(model).add();
  add_names(problem, options, model);
  return model;
}

}  // namespace olm2
