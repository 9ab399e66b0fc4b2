#include "train/plan_report.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/version.h"
#include "train/page.h"
#include "train/report_chart.h"
#include "train/report_decisions.h"

namespace olm2 {
namespace {

constexpr size_t kDevice = index_of(Tier::device);
constexpr size_t kHost = index_of(Tier::host);

std::string bytes_or_dash(int64_t bytes) {
  return bytes == 0 ? "-" : short_bytes(bytes);
}
std::string seconds_or_dash(double seconds) {
  return seconds == 0 ? "-" : short_seconds(seconds);
}

// Sums over the micro batches of a step.
struct Totals {
  StepTime time;
  double bound_s = 0;
  double stall_s = 0;
  double busy_s = 0;
  int64_t recomputed = 0;
  double again_s = 0;
  int64_t copied_bytes = 0;
  Status status = Status::optimal;
  std::string bound_space;

  bool is_optimal() const { return status == Status::optimal; }
  double gap() const { return time.planned_s > 0 ? 1 - bound_s / time.planned_s : 0; }
};

const PlannedProgram& program_of(const RunPlan& plan, const std::string& name) {
  const auto found = std::ranges::find(plan.programs, name,
                                       [](const PlannedProgram& p) { return p.program->name; });
  ensure(found != plan.programs.end(), "a step's program was not planned");
  return *found;
}

Totals totals_of(const RunPlan& plan, int64_t grad_accumulation) {
  Totals totals;
  totals.time = step_time(plan, grad_accumulation);
  for (int64_t micro = 0; micro < grad_accumulation; ++micro) {
    const PlannedProgram& entry = program_of(plan, program_name(micro, grad_accumulation));
    const Certificate& certificate = entry.planned.certificate;
    totals.bound_s += certificate.bound_s;
    totals.recomputed += certificate.recomputed;
    totals.copied_bytes += certificate.copied_bytes;
    totals.status = std::max(totals.status, certificate.status);
    if (totals.bound_space.empty() || certificate.gap > 0) {
      totals.bound_space = certificate.bound_space;
    }

    for (const ClassDecision& row : decisions_by_class(entry.problem, entry.planned.plan)) {
      totals.again_s += row.again_s;
    }
  }
  return totals;
}

// To a hundredth of a percent, so that what is said to be proven is.
double rounded_up(double share) {
  return std::ceil(share * 1e4 - 1e-9) / 1e4;
}

std::string overhead_text(const Totals& totals) {
  return percent(totals.time.planned_s / totals.time.keep_all_s - 1);
}

// --- headline -----------------------------------------------------------------------------------

std::string what_it_does(const Totals& totals) {
  std::vector<std::string> parts;
  if (totals.recomputed > 0) {
    parts.push_back("computes " + std::to_string(totals.recomputed) +
                    (totals.recomputed == 1 ? " operation" : " operations") + " a second time (" +
                    short_seconds(totals.again_s) + ")");
  }
  if (totals.copied_bytes > 0) {
    parts.push_back("copies " + short_bytes(totals.copied_bytes) +
                    " to and from another memory while it computes");
  }
  if (parts.empty()) return "Everything fits: nothing is computed twice and nothing is moved.";
  return "To stay within the budget, it " + parts[0] +
         (parts.size() > 1 ? " and " + parts[1] : std::string()) + ".";
}

std::string headline(const RunPlan& plan, const ReportFacts& facts, const Totals& totals) {
  const Budgets& budgets = plan.budgets;
  std::string lead = "One training step is predicted to take <b>" +
                     short_seconds(totals.time.planned_s) + "</b>, " + overhead_text(totals) +
                     " longer than if every tensor could stay in memory, and never uses more than "
                     "<b>" +
                     short_bytes(plan.peak[kDevice]) +
                     "</b> of the device. Keeping everything would "
                     "take " +
                     short_bytes(budgets.keep_all_bytes) + ".";
  std::string proof = totals.is_optimal() ? std::string("No plan is faster")
                                          : "No plan can be more than " +
                                                percent(rounded_up(totals.gap())) + " faster";
  proof += "; this is proven for " + escape(totals.bound_space) + ".";

  std::string html = "<h1>" + escape(facts.title) + "</h1>\n";
  html += "<p class=\"lead\">" + lead + " " + escape(what_it_does(totals)) + " " + proof + "</p>\n";
  std::vector<std::string> figures = {
      card(short_bytes(budgets.bytes[kDevice]), "device budget"),
      card(short_bytes(plan.peak[kDevice]), "largest use of the device"),
      card(short_seconds(totals.time.planned_s), "predicted time of a step"),
      card(overhead_text(totals), "longer than keeping everything")};
  if (plan.peak[kHost] > 0) figures.push_back(card(short_bytes(plan.peak[kHost]), "host memory"));
  if (totals.time.planned_s > 0) {
    const double rate = static_cast<double>(facts.tokens_per_step) / totals.time.planned_s;
    figures.push_back(card(std::to_string(static_cast<int64_t>(rate)), "tokens per second"));
  }
  return html + cards(figures);
}

// --- sections -----------------------------------------------------------------------------------

std::string stall_table(const ProgramStory& story) {
  std::array<double, 3> seconds{};
  for (const Stall& stall : story.simulation.stalls) {
    if (stall.lane != Lane::compute) continue;
    seconds[static_cast<size_t>(stall.cause)] += stall.end_s - stall.begin_s;
  }
  const double total = seconds[0] + seconds[1] + seconds[2];
  if (total <= 0) return paragraph("The compute lane never waits.");
  return paragraph("The compute lane waits for " + short_seconds(total) +
                   " in all: " + short_seconds(seconds[0]) + " for data on its way, " +
                   short_seconds(seconds[1]) + " for space that a copy has yet to clear, " +
                   short_seconds(seconds[2]) + " for copies that end after the last operation.");
}

std::string decision_table(const PlannedProgram& entry) {
  std::vector<std::vector<std::string>> rows;
  ClassDecision sum{.name = "all"};
  const auto add_row = [&](const ClassDecision& row) {
    rows.push_back({row.name, std::to_string(row.tensors), short_bytes(row.bytes),
                    bytes_or_dash(row.kept_bytes), bytes_or_dash(row.again_bytes),
                    bytes_or_dash(row.moved_bytes), seconds_or_dash(row.again_s),
                    seconds_or_dash(row.copy_s)});
  };
  for (const ClassDecision& row : decisions_by_class(entry.problem, entry.planned.plan)) {
    add_row(row);
    sum.tensors += row.tensors;
    sum.bytes += row.bytes;
    sum.kept_bytes += row.kept_bytes;
    sum.again_bytes += row.again_bytes;
    sum.moved_bytes += row.moved_bytes;
    sum.again_s += row.again_s;
    sum.copy_s += row.copy_s;
  }
  add_row(sum);
  return table({"tensors", "how many", "bytes", "kept", "computed again", "moved",
                "time of computing again", "time of copying"},
               rows);
}

std::string program_charts(const PlannedProgram& entry) {
  const ProgramStory story = story_of(entry.problem, entry.planned.schedule->schedule());
  std::string html;
  for (const Tier tier : kTiers) {
    if (entry.planned.certificate.peak[index_of(tier)] == 0) continue;
    html += "<h3>Memory of the " + std::string(to_string(tier)) + "</h3>\n";
    html += memory_chart(story, tier);
  }
  html += "<h3>Who works when</h3>\n" + lane_chart(story) + stall_table(story);
  return html;
}

std::string time_section(const RunPlan& plan, const PlannedProgram& main) {
  std::string html = paragraph(
      "Time runs from left to right over one pass of the program <code>" +
      escape(main.program->name) +
      "</code>. Colours are kinds of tensors (a <code>*</code> stands for any layer); the height "
      "is how many bytes of them are in use. Memory fills up during the forward pass and drains "
      "during the backward pass; the dashed line is the budget. Point at a place to see the "
      "largest tensors there. The lanes below share the time axis: copies run beside the "
      "computing, and where the compute lane is red it waits.");
  html += program_charts(main);
  for (const PlannedProgram& entry : plan.programs) {
    if (&entry == &main) continue;
    html +=
        details("The same for the program \"" + entry.program->name + "\"", program_charts(entry));
  }
  return section("What is in memory when", html);
}

std::string decisions_section(const RunPlan& plan, const PlannedProgram& main) {
  std::string html = paragraph(
      "The backward pass needs many results of the forward pass. For each of them the plan "
      "chooses: <b>keep</b> it in device memory, forget it and <b>compute it again</b>, or "
      "<b>move</b> it to another memory and back. Small tensors that only pass through are left "
      "out.");
  html += decision_table(main);
  for (const PlannedProgram& entry : plan.programs) {
    if (&entry == &main || decisions_by_class(entry.problem, entry.planned.plan).empty()) continue;
    html +=
        details("The same for the program \"" + entry.program->name + "\"", decision_table(entry));
  }
  return section("What happens to the tensors", html);
}

std::string certificate_words(const Certificate& certificate) {
  switch (certificate.status) {
    case Status::optimal:
      return "<b>Optimal</b>: the plan is as fast as the bound; nothing is faster.";
    case Status::feasible:
      return "<b>Feasible</b>: a plan, and beside it a proof of how much better any other could "
             "be. That distance is the gap.";
    case Status::infeasible:
    case Status::unknown:
      break;
  }
  return "There is no plan.";
}

std::string certificate_section(const RunPlan& plan, const PlannedProgram& main) {
  std::string html = paragraph(certificate_words(main.planned.certificate));
  std::vector<std::vector<std::string>> rows;
  for (const PlannedProgram& entry : plan.programs) {
    const Certificate& c = entry.planned.certificate;
    rows.push_back({entry.program->name, std::string(to_string(c.status)),
                    short_seconds(c.objective_s), short_seconds(c.bound_s), percent(c.gap),
                    short_seconds(c.baseline_s), c.space, c.solver, short_seconds(c.solve_seconds),
                    bytes_or_dash(c.placement_loss_bytes)});
  }
  html += table({"program", "status", "plan", "bound", "gap", "keeping everything", "searched",
                 "solver", "planned in", "lost to addresses"},
                rows);
  html +=
      "<dl>\n<dt>plan</dt><dd>Time of the finished plan, addresses and all, when every lane runs "
      "its instructions in order.</dd>\n"
      "<dt>bound</dt><dd>No plan for this budget takes less, with the times of the profile: proven "
      "for " +
      escape(main.planned.certificate.bound_space) +
      ". The proof does not come from the search that found the plan, but from a linear program "
      "that every plan obeys.</dd>\n"
      "<dt>gap</dt><dd>The distance between the two, relative to the plan. The search stops when "
      "it is small enough, or out of time; running out of time is never called optimal.</dd>\n"
      "<dt>searched</dt><dd>The set of plans the search chose from; the bound covers more than "
      "that.</dd>\n"
      "<dt>lost to addresses</dt><dd>Bytes of the budget that gaps between tensors cost.</dd>\n"
      "<dt>what is checked</dt><dd>A separate program part proves before every run that no two "
      "tensors in use share a byte, that every read sees finished data and that every byte lies "
      "inside the budget.</dd>\n</dl>\n";
  return section("How good the plan is, and how that is known", html);
}

std::string more_section(const ReportFacts& facts, const Totals& totals) {
  std::string html;
  for (const MoreMemory& more : facts.more) {
    const double saved_s = totals.time.planned_s - more.step_s;
    std::string line = "With <b>" + short_bytes(more.extra_bytes) + " more</b> a step takes " +
                       short_seconds(more.step_s) + ", " +
                       (saved_s > 0 ? percent(saved_s / totals.time.planned_s) + " less"
                                    : std::string("no less")) +
                       (more.keeps_everything ? ": that is enough to keep everything." : ".");
    html += paragraph(line);
  }
  if (facts.most_saved_per_byte >= 0) {
    constexpr double kMiB = 1024.0 * 1024.0;
    html += paragraph("At the margin, each further MiB lowers the bound by at most " +
                      short_seconds(facts.most_saved_per_byte * kMiB) +
                      " per step: the price of memory at this budget, whatever the plan.");
  }
  return html.empty() ? html : section("What more memory would buy", html);
}

const PlannedProgram& main_program(const RunPlan& plan, int64_t grad_accumulation) {
  const PlannedProgram* longest = nullptr;
  for (int64_t micro = 0; micro < grad_accumulation; ++micro) {
    const PlannedProgram& entry = program_of(plan, program_name(micro, grad_accumulation));
    const double seconds = entry.planned.certificate.objective_s;
    if (longest == nullptr || seconds > longest->planned.certificate.objective_s) longest = &entry;
  }
  return *longest;
}

}  // namespace

std::string plan_report(const RunPlan& plan, const ReportFacts& facts) {
  const Totals totals = totals_of(plan, facts.grad_accumulation);
  const PlannedProgram& main = main_program(plan, facts.grad_accumulation);
  std::string body = headline(plan, facts, totals);
  body += "<p class=\"soft\">Policy " + escape(facts.policy) + ". " + escape(plan.budgets.text) +
          ". State: " + escape(facts.state) + ". Times: " + escape(facts.profile) + ".</p>\n";
  body += time_section(plan, main);
  body += decisions_section(plan, main);
  body += certificate_section(plan, main);
  body += more_section(facts, totals);
  body += "<p class=\"soft\">" + escape(version_text()) + "</p>\n";
  return page(facts.title + ": plan", body);
}

}  // namespace olm2
