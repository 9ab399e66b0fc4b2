// The promises with state that rests elsewhere, or nowhere, between programs.
#include <random>

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/promises/tiny_run.h"
#include "train/state_choice.h"

namespace olm2 {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 30;

Config with_evaluation(Config config, int64_t grad_accumulation) {
  config.train.grad_accumulation = grad_accumulation;
  config.output.eval_every = 1;
  return config;
}

Config with_accumulation(Config config, int64_t grad_accumulation) {
  config.train.grad_accumulation = grad_accumulation;
  return config;
}

// More state than anything else.
Config small_mlp() {
  return tiny_config({.type = "mlp",
                      .n_layer = 2,
                      .n_head = 1,
                      .n_embd = 83,
                      .vocab_size = 29,
                      .context_length = 3,
                      .tie_embeddings = false},
                     1, 3, 2);
}

Outcome resident_outcome(TinyRun& run, int64_t steps) {
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  const RunPlan keep = plan_run(run.programs, run.problems, all, options_for("none"));
  return run_steps(run, executable(keep), steps);
}

// The first `count` sources of leaving_order.
SourceNames leaving(const TinyRun& run, size_t count) {
  const std::vector<StateSource> order = leaving_order(run.programs);
  SourceNames names;
  for (size_t i = 0; i < std::min(count, order.size()); ++i) names.insert(order[i].name);
  return names;
}

int64_t minimum_of(const std::vector<Problem>& problems, const PlanOptions& options) {
  int64_t bytes = 0;
  for (Problem problem : problems) {
    problem.budget = {0, kPlenty, 0};
    bytes = std::max(bytes, find_minimum(problem, options).bytes);
  }
  return bytes;
}

// Plans and runs with a given layout; every promise but the bits is checked here.
Outcome outcome_with(TinyRun& run, const StateLayout& layout, const BytesPerTier& budget,
                     const PlanOptions& options, const ExecutorOptions& how = {}) {
  const std::vector<Problem> problems = with_layout(run.programs, run.problems, layout);
  Budgets budgets;
  budgets.bytes = budget;
  const RunPlan plan = plan_run(run.programs, problems, budgets, options);
  const Outcome outcome = run_steps(run, executable(plan), 2, how);
  BytesPerTier planned{};  // Of the programs of a step: evaluation is not measured.
  for (const PlannedProgram& entry : plan.programs) {
    if (entry.program->name == "evaluation") continue;
    for (size_t t = 0; t < kTierCount; ++t) {
      planned[t] = std::max(planned[t], entry.planned.certificate.peak[t]);
    }
  }
  EXPECT_EQ(outcome.peak, planned) << "measured peak differs from the planned one";
  for (size_t t = 0; t < kTierCount; ++t) EXPECT_LE(outcome.peak[t], budget[t]);
  return outcome;
}

// Symptom a bug would have: other bits, a peak that is not the planned one, or a refused schedule.
TEST(MovingState, KeepsEveryPromiseWithAllOfItOnTheHost) {
  for (const int64_t accumulation : {1, 2, 3}) {
    TinyRun run(with_evaluation(small_mlp(), accumulation));
    const Outcome expected = resident_outcome(run, 2);
    const StateLayout layout = planned_layout(run.programs, leaving(run, 1000));
    EXPECT_EQ(layout.kept[0], 0);
    const std::vector<Problem> problems = with_layout(run.programs, run.problems, layout);
    const PlanOptions options = options_for("chen");
    const int64_t least = minimum_of(problems, options);
    EXPECT_LT(2 * least, run.programs.state_bytes) << "far below what the state takes";
    const int64_t budget = accumulation == 2 ? least * 3 / 2 : least;
    const Outcome outcome = outcome_with(run, layout, {budget, kPlenty, 0}, options);
    EXPECT_TRUE(outcome == expected) << budget << " with " << accumulation << " micro batches";
  }
}

TEST(MovingState, OnlyGradientsAreFreedWithoutAHost) {
  for (const int64_t accumulation : {1, 2, 3}) {
    TinyRun run(with_evaluation(small_mlp(), accumulation));
    const Outcome expected = resident_outcome(run, 2);
    const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
    const RunPlan plan = choose_state(run.programs, run.problems, all, options_for("none"), true);
    EXPECT_TRUE(plan.state.planned);
    EXPECT_EQ(plan.peak[1], 0);
    EXPECT_LT(plan.peak[0], all.keep_all_bytes + (accumulation == 1 ? 0 : 1));
    const Outcome outcome = run_steps(run, executable(plan), 2, {.poison = true});
    EXPECT_TRUE(outcome == expected) << accumulation;
  }
}

TEST(MovingState, SurvivesPoisonDelaysAndOtherAddresses) {
  TinyRun run(with_evaluation(small_mlp(), 2));
  const Outcome expected = resident_outcome(run, 2);
  for (const size_t count : {7U, 1000U}) {
    const StateLayout layout = planned_layout(run.programs, leaving(run, count));
    const std::vector<Problem> problems = with_layout(run.programs, run.problems, layout);
    const PlanOptions options = options_for("chen");
    const BytesPerTier budget = {minimum_of(problems, options) * 5 / 4, kPlenty, 0};
    EXPECT_TRUE(outcome_with(run, layout, budget, options,
                             {.poison = true, .max_copy_delay_s = 0.001}) == expected)
        << count;
    std::vector<ExecutableProgram> moved;
    for (size_t i = 0; i < problems.size(); ++i) {
      Problem problem = problems[i];
      problem.budget = budget;
      const Planned planned = plan_program(problem, options);
      Schedule schedule = lower(problem, planned.plan);
      place(problem, schedule, {.random_seed = 7 + i});
      add_waits(problem, schedule);
      problem.budget = {int64_t{1} << 40, int64_t{1} << 40, 0};
      moved.push_back(
          {run.programs.programs[i].name, problem, check(problem, std::move(schedule))});
    }
    EXPECT_TRUE(run_steps(run, std::move(moved), 2, {.poison = true}) == expected) << count;
  }
}

TEST(MovingState, OfGradientsIsLostWhenEvaluationComesTooEarly) {
  TinyRun run(with_evaluation(small_mlp(), 2));
  const Budgets all = resolve_budgets({.bytes = 0, .percent = 100}, {}, run.problems);
  const RunPlan plan = choose_state(run.programs, run.problems, all, options_for("none"), true);
  Executor executor(executable(plan), run.backend);
  const size_t first = executor.program_index("first");
  const size_t last = executor.program_index("last");
  const size_t evaluation = executor.program_index("evaluation");
  const auto run_program = [&](size_t program) {
    fill_tokens(0, run.config.model.vocab_size, view_as<int32_t>(executor.input(program, "tokens")),
                view_as<int32_t>(executor.input(program, "targets")));
    executor.run(program);
  };
  run_program(first);
  run_program(evaluation);
  try {
    run_program(last);
    ADD_FAILURE() << "gradients that evaluation overwrote were read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("program last needs state"), std::string::npos)
        << error.what();
  }
  run_program(first);
  run_program(last);
  run_program(evaluation);
}

class StatePromisesSlow : public testing::TestWithParam<std::tuple<std::string, int>> {};

// All moments, or all there is; at the minimum of each and a little above.
TEST_P(StatePromisesSlow, SameBitsAndSamePeakBelowTheState) {
  const auto& [policy, accumulation] = GetParam();
  TinyRun run(with_evaluation(tiny_gpt2(), accumulation));
  const Outcome expected = resident_outcome(run, 2);
  const PlanOptions options = options_for(policy);
  size_t moments = 0;
  for (const StateSource& source : run.programs.sources) moments += source.role == Role::moment;
  for (const size_t count : {moments, size_t{1000}}) {
    const StateLayout layout = planned_layout(run.programs, leaving(run, count));
    const std::vector<Problem> problems = with_layout(run.programs, run.problems, layout);
    const int64_t least = minimum_of(problems, options);
    for (const int64_t budget : {least, least + least / 8}) {
      const Outcome outcome = outcome_with(run, layout, {budget, kPlenty, 0}, options);
      EXPECT_TRUE(outcome == expected) << policy << ", " << count << " on the host, " << budget;
    }
  }
}

std::string case_name(const testing::TestParamInfo<StatePromisesSlow::ParamType>& info) {
  return std::get<0>(info.param) + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(EveryPolicy, StatePromisesSlow,
                         testing::Values(std::tuple("none", 2), std::tuple("chen", 3),
                                         std::tuple("recompute", 1), std::tuple("swap", 2),
                                         std::tuple("olm2", 1), std::tuple("olm2", 3)),
                         case_name);

// --- the choice ----------------------------------------------------------------------------------

TEST(StateChoice, TrainsAToyFarBelowItsState) {
  TinyRun run(with_evaluation(small_mlp(), 2));
  const Outcome expected = resident_outcome(run, 2);
  Budgets budgets =
      resolve_budgets({.bytes = run.programs.state_bytes / 2}, {.bytes = kPlenty}, run.problems);
  const RunPlan plan = choose_state(run.programs, run.problems, budgets, options_for("chen"), true);
  EXPECT_LE(plan.peak[0], run.programs.state_bytes / 2);
  EXPECT_GT(plan.state.host_bytes(), 0);
  EXPECT_TRUE(run_steps(run, executable(plan), 2) == expected);
  EXPECT_THROW(choose_state(run.programs, run.problems, budgets, options_for("chen"), false),
               Error);
}

// Predicted; negative: no plan.
double step_seconds(const TinyRun& run, const Budgets& budgets, const PlanOptions& options,
                    bool planned_state) {
  const StateSearch found =
      search_state(run.programs, run.problems, budgets, options, planned_state);
  return found.plan ? step_time(*found.plan, run.programs.grad_accumulation).planned_s : -1;
}

// Some of these are faster, or have a plan at all, with resident state only: what a rule does with
// more room may be worse, and with scratch of any size so may the addresses be.
TEST(StateChoice, IsNeverSlowerThanResident) {
  int compared = 0;
  for (const uint32_t seed : {4U, 5U, 9U, 46U, 56U}) {
    const Config model = seed % 3 == 0 ? small_mlp() : (seed % 3 == 1 ? tiny_mlp() : tiny_gpt2());
    TinyRun run(with_accumulation(model, 1 + seed % 2));
    std::mt19937 random(seed);
    for (Problem& problem : run.problems) {
      for (int64_t& bytes : problem.workspace) bytes = random() % (1U << (random() % 17));
    }
    for (const auto& [policy, percent] :
         {std::pair("lru", 50.0), std::pair("lru", 60.0), std::pair("lru", 70.0),
          std::pair("lru", 80.0), std::pair("chen", 100.0)}) {
      const Budgets budgets = resolve_budgets({.bytes = 0, .percent = percent}, {}, run.problems);
      const double resident_s = step_seconds(run, budgets, options_for(policy), false);
      if (resident_s < 0) continue;
      const double planned_s = step_seconds(run, budgets, options_for(policy), true);
      EXPECT_GT(planned_s, 0) << policy << ", seed " << seed << ", " << percent << " %";
      EXPECT_LE(planned_s, resident_s * (1 + 1e-9))
          << policy << ", seed " << seed << ", " << percent << " %";
      ++compared;
    }
  }
  EXPECT_GT(compared, 10);
}

}  // namespace
}  // namespace olm2
