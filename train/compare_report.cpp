#include "train/compare_report.h"

#include <algorithm>
#include <cmath>

#include "core/version.h"
#include "train/page.h"
#include "train/svg.h"

namespace olm2 {
namespace {

constexpr double kLeft = 64;
constexpr double kWidth = 880;
constexpr double kTop = 16;
constexpr double kPlot = 300;
constexpr int kFirstColor = 3;  // The greys are for other things.

std::vector<std::string> policies_of(const std::vector<ComparedPlan>& table) {
  std::vector<std::string> names;
  for (const ComparedPlan& row : table) {
    if (std::ranges::find(names, row.policy) == names.end()) names.push_back(row.policy);
  }
  return names;
}

int color_of(size_t policy) {
  return kFirstColor + static_cast<int>(policy % (kColors - kFirstColor));
}

class OverheadCurve {
 public:
  OverheadCurve(const std::vector<ComparedPlan>& table, const Budgets& budgets) : table_(table) {
    least_ = most_ = budgets.keep_all_bytes;
    for (const ComparedPlan& row : table) {
      least_ = std::min(least_, row.budget_bytes);
      most_ = std::max(most_, row.budget_bytes);
      if (row.fits) highest_ = std::max(highest_, row.overhead);
    }
    if (most_ == least_) least_ = most_ - 1;
    highest_ = std::max(highest_ * 1.08, 1e-4);
  }

  std::string draw() const {
    Svg svg(960, kTop + kPlot + 44, "overhead of every policy over the device budget");
    draw_axes(svg);
    const std::vector<std::string> names = policies_of(table_);
    std::vector<std::pair<int, std::string>> entries;
    for (size_t p = 0; p < names.size(); ++p) {
      draw_policy(
          svg, names[p], color_of(p),
          2 + 3.0 * static_cast<double>(names.size() - 1 - p) / static_cast<double>(names.size()),
          p >= kColors - kFirstColor);
      entries.emplace_back(color_of(p), names[p]);
    }
    return "<figure>" + svg.finish() + legend(entries) + "</figure>\n";
  }

 private:
  double x(int64_t bytes) const {
    return kLeft + kWidth * 0.03 +
           kWidth * 0.94 * static_cast<double>(bytes - least_) /
               static_cast<double>(most_ - least_);
  }
  double y(double overhead) const { return kTop + kPlot * (1 - overhead / highest_); }

  void draw_axes(Svg& svg) const {
    for (const double value : ticks(100 * highest_, 6)) {
      svg.line({kLeft, y(value / 100)}, {kLeft + kWidth, y(value / 100)}, "grid");
      const bool is_fine = highest_ < 0.005;
      svg.text({kLeft - 6, y(value / 100) + 4}, "small end", percent(value / 100, is_fine ? 2 : 1));
    }
    svg.line({kLeft, kTop + kPlot}, {kLeft + kWidth, kTop + kPlot}, "axis");
    std::vector<int64_t> budgets;
    for (const ComparedPlan& row : table_) budgets.push_back(row.budget_bytes);
    std::ranges::sort(budgets);
    double last = -1e9;
    for (const int64_t bytes : budgets) {
      if (x(bytes) - last < 64) continue;
      last = x(bytes);
      svg.line({last, kTop + kPlot}, {last, kTop + kPlot + 5}, "axis");
      svg.text({last, kTop + kPlot + 18}, "small middle", short_bytes(bytes));
    }
    svg.text({kLeft + kWidth / 2, kTop + kPlot + 38}, "small middle", "device budget");
  }

  // What is drawn first is wider, so that curves on each other can all be seen.
  void draw_policy(Svg& svg, const std::string& policy, int color, double width,
                   bool is_dashed) const {
    std::vector<const ComparedPlan*> rows;
    for (const ComparedPlan& row : table_) {
      if (row.policy == policy && row.fits) rows.push_back(&row);
    }
    std::ranges::sort(rows, {}, &ComparedPlan::budget_bytes);
    std::vector<Point> points;
    for (const ComparedPlan* row : rows) points.push_back({x(row->budget_bytes), y(row->overhead)});
    const std::string number = std::to_string(color);
    if (points.size() > 1)
      svg.polyline(points, width, "curve s" + number + (is_dashed ? " dash" : ""), policy);
    for (size_t k = 0; k < points.size(); ++k) {
      svg.circle(points[k], 2.5 + width / 2, "c" + number,
                 policy + " at " + rows[k]->budget + ": " + percent(rows[k]->overhead) +
                     " longer, " + short_seconds(rows[k]->seconds));
    }
  }

  const std::vector<ComparedPlan>& table_;
  int64_t least_ = 0;
  int64_t most_ = 0;
  double highest_ = 0;
};

// Policies down, budgets across.
std::string overhead_table(const std::vector<ComparedPlan>& all) {
  std::vector<std::string> head = {"longer by"};
  for (const ComparedPlan& row : all) {
    if (std::ranges::find(head, row.budget) == head.end()) head.push_back(row.budget);
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::string& policy : policies_of(all)) {
    rows.emplace_back(head.size(), "-");
    rows.back()[0] = policy;
    for (const ComparedPlan& row : all) {
      if (row.policy != policy || !row.fits) continue;
      const auto column = std::ranges::find(head, row.budget) - head.begin();
      rows.back()[static_cast<size_t>(column)] = percent(row.overhead);
    }
  }
  return table(head, rows);
}

std::string figures_table(const std::vector<ComparedPlan>& all) {
  std::vector<std::vector<std::string>> rows;
  for (const ComparedPlan& row : all) {
    std::vector<std::string> cells = {row.policy, row.budget, short_bytes(row.budget_bytes),
                                      std::string(to_string(row.status))};
    if (row.fits) {
      cells.insert(cells.end(), {short_seconds(row.seconds), percent(row.overhead),
                                 percent(row.gap), short_bytes(row.peak[index_of(Tier::device)]),
                                 row.peak[index_of(Tier::host)] == 0
                                     ? "-"
                                     : short_bytes(row.peak[index_of(Tier::host)])});
    } else {
      cells.insert(cells.end(), 5, "-");
    }
    cells.push_back(short_seconds(row.solve_seconds));
    rows.push_back(std::move(cells));
  }
  return table({"policy", "budget", "in bytes", "status", "step", "overhead", "gap", "device peak",
                "host peak", "planned in"},
               rows);
}

}  // namespace

std::string compare_report(const std::vector<ComparedPlan>& table, const Budgets& budgets,
                           const ReportFacts& facts) {
  std::string body = "<h1>" + escape(facts.title) + "</h1>\n";
  body +=
      "<p class=\"lead\">What each way of saving memory costs: how much longer a training "
      "step takes than with all memory, at several budgets of device memory. Keeping "
      "everything takes <b>" +
      short_bytes(budgets.keep_all_bytes) + "</b>, of which " + short_bytes(budgets.state_bytes) +
      " are parameters, gradients and optimizer moments.</p>\n";
  body += section("Time against memory",
                  paragraph("Lower is better, further left is tighter. A policy has no point where "
                            "it found no plan, and its curve never rises: a plan for less memory "
                            "is one for more, too. All times are predictions from the profile (" +
                            escape(facts.profile) + ").") +
                      OverheadCurve(table, budgets).draw() + overhead_table(table));
  body +=
      section("The figures", details("Every policy at every budget", figures_table(table), true));
  std::string words = "<dl>\n";
  for (const std::string& name : policies_of(table)) {
    const Policy& policy = find_policy(name);
    words += "<dt>" + escape(name) + "</dt><dd>" + escape(policy.summary) +
             ". Source: " + escape(policy.source) + ".</dd>\n";
  }
  words +=
      "<dt>gap</dt><dd>How far the plan may be from the best one of the same kind: its time "
      "against a proven lower bound.</dd>\n</dl>\n";
  body += section("What the words mean", words);
  body += "<p class=\"soft\">" + escape(version_text()) + "</p>\n";
  return page(facts.title + ": policies compared", body);
}

}  // namespace olm2
