// Pages and traces of plans: whole, self-contained, and saying what the simulation says.
#include <algorithm>
#include <cctype>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/occupancy.h"
#include "tests/runs/real_run.h"
#include "train/compare_report.h"
#include "train/page.h"
#include "train/plan_report.h"
#include "train/report_chart.h"
#include "train/report_decisions.h"
#include "train/svg.h"
#include "train/tensor_class.h"
#include "train/trace_file.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What is wrong with the markup; "" if nothing is: every tag is closed in order, attributes are
// quoted, "<" and "&" stand for nothing else.
std::string complaint(std::string_view html) {
  std::vector<std::string> open;
  for (size_t i = 0; i < html.size(); ++i) {
    const std::string_view rest = html.substr(i);
    if (html[i] == '&') {
      const size_t end = rest.find(';');
      if (end == std::string_view::npos || end > 6)
        return "a bare & at " + std::string(rest.substr(0, 30));
    }
    if (html[i] != '<') continue;
    if (rest.starts_with("<!DOCTYPE")) continue;
    bool quoted = false;
    size_t end = 1;
    for (; end < rest.size() && (quoted || rest[end] != '>'); ++end) {
      if (rest[end] == '"') quoted = !quoted;
      if (rest[end] == '<') return "a < inside of " + std::string(rest.substr(0, 30));
    }
    std::string_view tag = rest.substr(1, end - 1);
    i += end;
    if (tag.ends_with('/')) continue;
    const bool closes = tag.starts_with('/');
    if (closes) tag.remove_prefix(1);
    const std::string name(tag.substr(0, tag.find_first_of(" \n")));
    if (!closes) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "nothing closes " + open.back();
}

TEST(Page, TheCheckOfMarkupFindsWhatIsWrong) {
  EXPECT_EQ(complaint("<!DOCTYPE html>\n<a b=\"1 > 0\"><c/>x &lt; y</a>"), "");
  EXPECT_NE(complaint("<a><b></a></b>"), "");
  EXPECT_NE(complaint("<a>"), "");
  EXPECT_NE(complaint("</a>"), "");
  EXPECT_NE(complaint("<a>x & y</a>"), "");
  EXPECT_NE(complaint("<a <b>"), "");
}

void expect_self_contained(std::string html) {
  EXPECT_EQ(complaint(html), "");
  const std::string svg_name = "http://www.w3.org/2000/svg";
  for (size_t at = html.find(svg_name); at != std::string::npos; at = html.find(svg_name)) {
    html.erase(at, svg_name.size());
  }
  for (const char* outside :
       {"http:", "https:", "<script", "<link", "<img", "src=", "url(", "@import"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, Not(HasSubstr("\"inf")));
}

ReportFacts facts_for(const Config& config) {
  ReportFacts facts;
  facts.title = "a <toy> & more";
  facts.policy = "olm2";
  facts.profile = "estimated";
  facts.grad_accumulation = config.train.grad_accumulation;
  facts.tokens_per_step = 100;
  facts.more = {{.extra_bytes = 1 << 20, .step_s = 1e-3},
                {.extra_bytes = 1 << 24, .step_s = 1e-4, .keeps_everything = true}};
  facts.most_saved_per_byte = 1e-12;
  return facts;
}

TEST(PlanReport, IsWholeAndHasEveryTierAndTheBudgets) {
  const MixedRun run(odd_gpt2());
  ASSERT_GT(run.plan.peak[index_of(Tier::host)], 0);
  const std::string html = plan_report(run.plan, facts_for(run.config));
  expect_self_contained(html);
  EXPECT_THAT(html, HasSubstr("a &lt;toy&gt; &amp; more"));
  EXPECT_THAT(html, HasSubstr("Memory of the device"));
  EXPECT_THAT(html, HasSubstr("Memory of the host"));
  EXPECT_THAT(html, Not(HasSubstr("Memory of the disk")));
  EXPECT_THAT(html, HasSubstr("class=\"budget\""));
  EXPECT_THAT(html, HasSubstr(short_bytes(run.plan.budgets.bytes[0])));
  EXPECT_THAT(html, HasSubstr("h.*.mlp.c_fc"));
  EXPECT_THAT(html, HasSubstr("computed again"));
  EXPECT_THAT(html, HasSubstr("from host"));
  EXPECT_THAT(html, HasSubstr("What more memory would buy"));
  const Certificate& certificate = run.plan.programs.front().planned.certificate;
  EXPECT_THAT(html, HasSubstr("proven for " + escape(certificate.bound_space)));
}

TEST(PlanReport, IsWholeUnderEveryPolicyAndWithManyPrograms) {
  TinyRun run(tiny_mlp());
  const Budgets budgets = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  for (const Policy& policy : all_policies()) {
    const RunPlan plan =
        plan_run(run.programs, run.problems, budgets, {.policy = std::string(policy.name)});
    const std::string html = plan_report(plan, facts_for(run.config));
    expect_self_contained(html);
    EXPECT_THAT(html, HasSubstr("The same for the program"));
    EXPECT_THAT(html, HasSubstr("nothing is computed twice"));
  }
}

// A peak that lasts for a thousandth of a column is drawn all the same.
TEST(PlanReport, DrawsTheLargestUseHoweverShortItIs) {
  MixedRun run(odd_gpt2());
  PlannedProgram& entry = run.plan.programs.front();
  const ProgramStory story = story_of(entry.problem, entry.planned.schedule->schedule());
  int64_t peak = 0;
  for (const OccupancyChange& change : occupancy_over_time(*story.schedule, story.spans)) {
    peak = std::max(peak, change.bytes[0]);
  }
  EXPECT_THAT(memory_chart(story, Tier::device),
              HasSubstr("At most " + short_bytes(peak) + " are in use at once"));
}

TEST(PlanReport, CountsEveryByteOfADecisionOnce) {
  const MixedRun run(odd_gpt2());
  const PlannedProgram& entry = run.plan.programs.front();
  int64_t moved = 0;
  int64_t again = 0;
  for (const ClassDecision& row : decisions_by_class(entry.problem, entry.planned.plan)) {
    EXPECT_EQ(row.kept_bytes + row.again_bytes + row.moved_bytes, row.bytes) << row.name;
    EXPECT_GE(row.kept_bytes, 0) << row.name;
    moved += row.moved_bytes;
    again += row.again_bytes;
  }
  EXPECT_EQ(2 * moved, entry.planned.certificate.copied_bytes) << "there and back";
  EXPECT_GT(again, 0);
}

TEST(TensorClass, StandsForTheSameTensorOfAllLayers) {
  EXPECT_EQ(class_of_name("h.3.mlp.c_fc"), "h.*.mlp.c_fc");
  EXPECT_EQ(class_of_name("h.11.ln_1.2"), "h.*.ln_1.2") << "a further output is no layer";
  EXPECT_EQ(class_of_name("logits"), "logits");
  EXPECT_EQ(class_of_name("7"), "7");
}

TEST(Svg, TicksAreRoundAndReachAllOfTheAxis) {
  EXPECT_EQ(ticks(1, 5), (std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
  EXPECT_EQ(ticks(0, 5), std::vector<double>{0});
  for (const double largest : {1e-6, 3.7, 19.0, 8.1e9}) {
    const std::vector<double> values = ticks(largest, 6);
    EXPECT_GE(values.size(), 3U);
    EXPECT_LE(values.size(), 9U);
    EXPECT_GT(values.back() + (values[1] - values[0]), largest);
  }
}

TEST(PlanTrace, HasTheIntervalsOfTheSimulationAndTheBytesInUse) {
  const MixedRun run(odd_gpt2());
  const PlannedProgram& entry = run.plan.programs.front();
  const Schedule& schedule = entry.planned.schedule->schedule();
  const TracedProgram traced = planned_trace("step", entry.problem, schedule);
  const auto trace = nlohmann::json::parse(trace_text(std::span(&traced, 1)));
  const Simulation simulation = simulate(entry.problem, schedule);
  const std::vector<OccupancyChange> occupancy = occupancy_over_time(
      schedule, buffer_spans(schedule, simulation.start_s, simulation.end_s, simulation.seconds));
  size_t instructions = 0;
  size_t counters = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") {
      const auto i = event.at("args").at("instruction").get<size_t>();
      EXPECT_EQ(event.at("ts").get<double>(), simulation.start_s.at(i) * 1e6);
      EXPECT_EQ(event.at("dur").get<double>(),
                (simulation.end_s.at(i) - simulation.start_s.at(i)) * 1e6);
      EXPECT_EQ(event.at("tid").get<size_t>(), index_of(schedule.instructions.at(i).lane));
      ++instructions;
    } else if (event.at("ph") == "C") {
      const OccupancyChange& change = occupancy.at(counters / 2);  // Two tiers are in use.
      const bool is_host = event.at("name") == "host bytes in use";
      EXPECT_EQ(event.at("args").at("bytes").get<int64_t>(), change.bytes[is_host ? 1 : 0]);
      EXPECT_EQ(event.at("ts").get<double>(), change.time_s * 1e6);
      ++counters;
    }
  }
  EXPECT_EQ(instructions, schedule.instructions.size());
  EXPECT_EQ(counters, 2 * occupancy.size());
}

TEST(CompareReport, HasACurveForEveryPolicyThatHasPlans) {
  std::vector<ComparedPlan> table;
  for (const char* policy : {"none", "recompute", "olm2"}) {
    for (const int64_t percent : {100, 60, 30}) {
      ComparedPlan row{.policy = policy, .budget = std::to_string(percent) + "%"};
      row.budget_bytes = percent << 20;
      row.fits = row.policy != "none" || percent == 100;
      row.overhead = row.fits ? 0.01 * static_cast<double>(100 - percent) : 0;
      row.seconds = 1 + row.overhead;
      if (!row.fits) row.status = Status::unknown;
      table.push_back(row);
    }
  }
  Budgets budgets;
  budgets.state_bytes = 10 << 20;
  budgets.keep_all_bytes = 100 << 20;
  ReportFacts facts;
  facts.title = "toy";
  const std::string html = compare_report(table, budgets, facts);
  expect_self_contained(html);
  const auto count = [&](const std::string& text) {
    size_t found = 0;
    for (size_t at = html.find(text); at != std::string::npos; at = html.find(text, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("<polyline"), 2U) << "none has a point only";
  EXPECT_EQ(count("<circle"), 7U);
  EXPECT_THAT(html, HasSubstr("70.00 %"));
  EXPECT_THAT(compared_csv(table), HasSubstr("none,60%,unknown,,,,,0.000\n"));
}

}  // namespace
}  // namespace olm2
