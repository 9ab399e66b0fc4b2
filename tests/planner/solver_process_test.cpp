// What solve() answers when its solver process is well, slow, killed, short of memory or mad.
#include "planner/solver_process.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "planner/glpk_solver.h"
#include "tests/planner/coverings.h"

namespace olm2 {
namespace {

using Clock = std::chrono::steady_clock;
using Verdict = Solution::Verdict;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void expect_same(const Solution& a, const Solution& b) {
  EXPECT_EQ(a.verdict, b.verdict);
  EXPECT_EQ(a.objective, b.objective);
  EXPECT_EQ(a.bound, b.bound);
  EXPECT_EQ(a.x, b.x);
  EXPECT_EQ(a.prices, b.prices);
  EXPECT_EQ(a.reason, b.reason);
}

// Lists files by number, the one used for listing included.
size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

bool has_children() {
  return waitpid(-1, nullptr, WNOHANG) >= 0;
}

TEST(SolverProcess, AnswersTheSameBitsAsThisProcess) {
  const SolverSession session;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Covering covering = random_covering(seed);
    LinearModel model = model_of(covering);
    SolverRequest request = exact();
    if (seed % 2 == 0) request.start = all_items(covering);
    if (seed % 3 == 0) request.cutoff = cheapest_by_trying_all(covering) - 0.5;
    if (seed % 5 == 0) request.gap = 0.2;
    const Row late = model.rows.front();
    if (seed % 4 == 0) {
      model.rows.clear();
      request.broken_rows = [&](std::span<const double> x) -> std::vector<Row> {
        double load = 0;
        for (const Term& term : late.terms) {
          load += term.factor * x[static_cast<size_t>(term.column)];
        }
        if (load >= late.lower - 1e-6) return {};
        return {late};
      };
    }
    expect_same(solve(model, request), solve_with_glpk(model, request));
    EXPECT_NE(SolverSession::process(), 0);
  }
}

TEST(SolverProcess, TellsOfTheSameSolutionsAndBounds) {
  using Heard = std::vector<std::vector<double>>;
  const auto listen = [](Solution (*solver)(const LinearModel&, const SolverRequest&)) {
    Heard heard;
    SolverRequest request = exact();
    const Covering covering = random_covering(5);
    request.start = all_items(covering);
    request.on_incumbent = [&](double objective, std::span<const double> x, double bound) {
      heard.push_back({objective, bound});
      heard.emplace_back(x.begin(), x.end());
    };
    request.on_bound = [&](double bound) { heard.push_back({bound}); };
    request.progress = [&](double gap) { heard.push_back({gap}); };
    solver(model_of(covering), request);
    return heard;
  };
  const Heard here = listen(&solve_with_glpk);
  EXPECT_GT(here.size(), 3U);
  EXPECT_EQ(listen(&solve), here);
}

TEST(SolverProcess, IsSharedWithinASessionAndGoneAfterIt) {
  pid_t first = 0;
  {
    const SolverSession session;
    solve(model_of(random_covering(1)), exact());
    first = SolverSession::process();
    EXPECT_GT(first, 0);
    {
      const SolverSession nested;
      solve(model_of(random_covering(2)), exact());
    }
    EXPECT_EQ(SolverSession::process(), first);
    pid_t other = 0;
    std::thread([&] {
      const SolverSession own;
      solve(model_of(random_covering(2)), exact());
      other = SolverSession::process();
    }).join();
    EXPECT_GT(other, 0);
    EXPECT_NE(other, first);
  }
  EXPECT_EQ(SolverSession::process(), 0);
  EXPECT_NE(kill(first, 0), 0);
  EXPECT_FALSE(has_children());
}

TEST(SolverProcess, LeavesNoFilesAndNoChildrenAfter200Solves) {
  const LinearModel model = model_of(random_covering(1));
  solve(model, exact());
  const size_t before = open_files();
  for (int i = 0; i < 20; ++i) {
    const SolverSession session;
    for (int j = 0; j < 10; ++j) {
      if (j == 7) kill(SolverSession::process(), SIGKILL);
      ASSERT_EQ(solve(model, exact()).verdict, Verdict::optimal);
    }
  }
  EXPECT_EQ(open_files(), before);
  EXPECT_FALSE(has_children());
}

TEST(SolverProcess, KeepsTheBestSolutionWhereItIsKilled) {
  for (const int signal : {SIGKILL, SIGABRT, SIGTERM}) {
    const SolverSession session;
    SolverRequest request = exact();
    double told = kUnbounded;
    double told_bound = -kUnbounded;
    bool is_killed = false;
    request.on_incumbent = [&](double objective, std::span<const double>, double) {
      told = objective;
    };
    request.on_bound = [&](double bound) {
      told_bound = bound;
      if (told < kUnbounded && !is_killed) is_killed = kill(SolverSession::process(), signal) == 0;
    };
    const LinearModel model = endless(60);
    const Solution solution = solve(model, request);
    EXPECT_TRUE(is_killed);
    EXPECT_EQ(solution.verdict, Verdict::feasible);
    EXPECT_EQ(solution.objective, told);
    EXPECT_EQ(solution.bound, told_bound);
    EXPECT_EQ(solution.x.size(), model.columns.size());
    EXPECT_NE(solution.reason.find("signal " + std::to_string(signal)), std::string::npos)
        << solution.reason;
    EXPECT_EQ(solve(model_of(random_covering(1)), exact()).verdict, Verdict::optimal);
  }
}

TEST(SolverProcess, KnowsNothingWhereItIsKilledAtOnce) {
  SolverRequest request = exact();
  request.broken_rows = [](std::span<const double>) -> std::vector<Row> {
    kill(SolverSession::process(), SIGKILL);
    return {};
  };
  const Solution solution = solve(endless(60), request);
  EXPECT_EQ(solution.verdict, Verdict::unknown);
  EXPECT_TRUE(solution.x.empty());
  EXPECT_EQ(solution.prices.size(), 1U);
  EXPECT_FALSE(solution.reason.empty());
}

TEST(SolverProcess, IsEndedWhereItDoesNotEndInTime) {
  SolverRequest request = exact();
  request.time_limit_s = 0.2;
  bool is_stopped = false;
  request.on_bound = [&](double) {  // It will not even hear of its limit.
    if (!is_stopped) is_stopped = kill(SolverSession::process(), SIGSTOP) == 0;
  };
  const Clock::time_point start = Clock::now();
  const Solution solution = solve(endless(60), request);
  EXPECT_GE(seconds_since(start), 0.2);
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_TRUE(is_stopped);
  EXPECT_NE(solution.verdict, Verdict::optimal);
  EXPECT_NE(solution.verdict, Verdict::infeasible);
  EXPECT_GT(solution.bound, 0);
  EXPECT_EQ(solution.reason, "time is up");
  EXPECT_FALSE(has_children());
}

TEST(SolverProcess, ClaimsNothingInNoTime) {
  for (const double limit_s : {0.0, 1e-6, 0.001}) {
    SolverRequest request = exact();
    request.time_limit_s = limit_s;
    const Solution solution = solve(endless(60), request);
    EXPECT_TRUE(solution.verdict == Verdict::unknown || solution.verdict == Verdict::feasible);
    EXPECT_EQ(solution.reason, "time is up");
    EXPECT_LE(solution.bound, solution.objective);
  }
}

TEST(SolverProcess, StopsWhenItIsTold) {
  const Clock::time_point start = Clock::now();
  SolverRequest request = exact();
  request.should_stop = [&] { return seconds_since(start) > 0.1; };
  const Solution solution = solve(endless(60), request);
  EXPECT_EQ(solution.verdict, Verdict::feasible);
  EXPECT_LT(solution.bound, solution.objective);
  EXPECT_EQ(solution.reason, "it was stopped");
  EXPECT_LT(seconds_since(start), 10);
}

TEST(SolverProcess, SaysThatMemoryIsShort) {
  const SolverSession session;
  LinearModel model = endless(60);
  for (int i = 0; i < 20000; ++i) model.rows.push_back(model.rows.front());
  SolverRequest request = exact();
  request.memory_limit_bytes = 4 << 20;
  const Solution solution = solve(model, request);
  EXPECT_EQ(solution.verdict, Verdict::unknown);
  EXPECT_NE(solution.reason.find("memory"), std::string::npos) << solution.reason;
  // The next one may have more again.
  EXPECT_EQ(solve(model_of(random_covering(1)), exact()).verdict, Verdict::optimal);
}

TEST(SolverProcess, LetsExceptionsOfItsCallerThrough) {
  const auto mine = [] { throw std::runtime_error("mine"); };
  const LinearModel model = endless(60);
  SolverRequest request = exact();
  request.broken_rows = [&](std::span<const double>) -> std::vector<Row> {
    mine();
    return {};
  };
  EXPECT_THROW(solve(model, request), std::runtime_error);
  request = exact();
  request.progress = [&](double) { mine(); };
  EXPECT_THROW(solve(model, request), std::runtime_error);
  request = exact();
  request.on_incumbent = [&](double, std::span<const double>, double) { mine(); };
  EXPECT_THROW(solve(model, request), std::runtime_error);
  request = exact();
  request.should_stop = [&]() -> bool {
    mine();
    return false;
  };
  EXPECT_THROW(solve(model, request), std::runtime_error);
  EXPECT_EQ(solve(model_of(random_covering(1)), exact()).verdict, Verdict::optimal);
  EXPECT_FALSE(has_children());
}

TEST(SolverProcess, TurnsErrorsOfTheLibraryIntoOurs) {
  LinearModel broken = model_of(random_covering(3));
  broken.rows.front().terms[1].column = 0;  // Twice the same column.
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  try {
    solve(broken, exact());
    ADD_FAILURE() << "a repeated column was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("glp_set_mat_row"), std::string::npos) << error.what();
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(SolverProcess, SolvesHereWhatItsOwnFunctionsAsk) {
  SolverRequest request = exact();
  int asked = 0;
  request.on_incumbent = [&](double, std::span<const double>, double) {
    ++asked;
    EXPECT_EQ(solve(model_of(random_covering(2)), exact()).verdict, Verdict::optimal);
  };
  EXPECT_EQ(solve(model_of(random_covering(1)), request).verdict, Verdict::optimal);
  EXPECT_GT(asked, 0);
}

// A program in place of ours, for as long as this lives.
class OtherProgram {
 public:
  explicit OtherProgram(const std::string& script)
      : path_(std::filesystem::temp_directory_path() /
              ("olm2_solver_" + std::to_string(getpid()))) {
    std::ofstream(path_) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    set_solver_program(path_);
  }
  ~OtherProgram() {
    set_solver_program("");
    std::filesystem::remove(path_);
  }
  OtherProgram(const OtherProgram&) = delete;
  OtherProgram& operator=(const OtherProgram&) = delete;

 private:
  std::filesystem::path path_;
};

TEST(SolverProcess, BelievesNoneThatIsMad) {
  for (const char* script : {
           "exit 3",                                          // Ends.
           "kill -SEGV $$",                                   // Crashes.
           "head -c 100000 /dev/urandom >&0; exec sleep 60",  // Says what means nothing, or only
                                                              // half.
           "head -c 100000 /dev/zero >&0; exec sleep 60",
           "printf '\\007\\0\\0\\0\\001\\0\\0\\0\\0\\0\\0\\0\\0' >&0; exec sleep 60",
           "printf '\\007\\0\\0\\0' >&0",
       }) {
    const OtherProgram program(script);
    const Clock::time_point start = Clock::now();
    const Solution solution = solve(model_of(random_covering(1)), exact());
    EXPECT_EQ(solution.verdict, Verdict::unknown) << script;
    EXPECT_EQ(solution.bound, -kUnbounded) << script;
    EXPECT_NE(solution.reason.find("the solver process"), std::string::npos) << solution.reason;
    EXPECT_LT(seconds_since(start), 30) << script;
  }
  EXPECT_FALSE(has_children());
}

TEST(SolverProcess, IsReplacedByThisProcessWhereItCannotStart) {
  set_solver_program("/nowhere/solver");
  testing::internal::CaptureStderr();
  const Covering covering = random_covering(1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(solve(model_of(covering), exact()).objective, cheapest_by_trying_all(covering),
                1e-6);
  }
  set_solver_program("");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("cannot start a solver process"), std::string::npos) << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

}  // namespace
}  // namespace olm2
