// The planning model on its way to other solvers and back.
#include "planner/model_file.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <glpk.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.h"
#include "planner/glpk_solver.h"
#include "toy_graph.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;

// A tight training step with both ways of making room.
struct Case {
  toy::Training toy = toy::even_training(4);
  Problem problem = toy::problem_of(toy.graph, toy.results);
  PlanOptions options;
  CompleteModel model;

  explicit Case(double share = 0.6, const std::string& policy = "olm2") {
    problem.device_to_host = problem.host_to_device =
        LinkProfile{.bytes_per_s = 1500, .latency_s = 1e-3, .compute_slowdown = 1};
    const int64_t least = find_minimum(problem, {.policy = policy}).bytes;
    const int64_t most = find_minimum(problem, {.policy = "none"}).bytes;
    problem.budget[0] =
        least + static_cast<int64_t>(share * static_cast<double>(most - least)) / 64 * 64;
    options.policy = policy;
    options.gap = 0;
    model = complete_model(problem, options);
  }
  double objective(const std::vector<double>& x) const {
    double sum = model.milp.linear.constant;
    for (size_t j = 0; j < model.milp.linear.columns.size(); ++j) {
      sum += model.milp.linear.columns[j].cost * x[j];
    }
    return sum;
  }
  // By our solver, with memory rows as it needs them.
  Solution solved() const {
    return solve_with_glpk(model.milp.linear, {.gap = 0,
                                               .time_limit_s = 20,
                                               .broken_rows =
                                                   [&](std::span<const double> x) {
                                                     return broken_memory_rows(model.milp, x);
                                                   },
                                               .progress = {}});
  }
};

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("olm2_" + std::to_string(::getpid()) + "_" + name)) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string read() const {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_;
};

// GLPK's own readers and solver: what a stranger makes of the file.
std::string solution_of_file(const std::filesystem::path& file, bool is_lp, double& objective) {
  glp_term_out(GLP_OFF);
  glp_prob* problem = glp_create_prob();
  const int failed = is_lp ? glp_read_lp(problem, nullptr, file.c_str())
                           : glp_read_mps(problem, GLP_MPS_FILE, nullptr, file.c_str());
  std::ostringstream text;
  text.precision(17);
  if (failed == 0) {
    glp_iocp options;
    glp_init_iocp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.presolve = GLP_ON;
    glp_intopt(problem, &options);
    objective = glp_mip_obj_val(problem);
    for (int j = 1; j <= glp_get_num_cols(problem); ++j) {
      text << glp_get_col_name(problem, j) << " " << glp_mip_col_val(problem, j) << "\n";
    }
  }
  glp_delete_prob(problem);
  return text.str();
}

TEST(ModelFile, OfEitherFormatHasTheObjectiveThatOurSolverFinds) {
  for (const char* policy : {"recompute", "swap", "olm2"}) {
    const Case c(0.4, policy);
    const Solution ours = c.solved();
    ASSERT_EQ(ours.verdict, Solution::Verdict::optimal);
    EXPECT_GT(ours.objective, c.model.milp.linear.constant) << "nothing to decide";
    for (const bool is_lp : {false, true}) {
      const TemporaryFile file(is_lp ? "model.lp" : "model.mps");
      file.write(is_lp ? to_lp(c.model) : to_mps(c.model));
      double objective = 0;
      const std::string solution = solution_of_file(file.path(), is_lp, objective);
      ASSERT_NE(solution, "") << "GLPK cannot read the file";
      EXPECT_NEAR(objective, ours.objective, 1e-6 * ours.objective) << policy << is_lp;
      const std::vector<double> x = parse_solution(c.model, solution, "solution");
      EXPECT_NEAR(c.objective(x), objective, 1e-6 * objective) << policy << is_lp;
    }
  }
}

// As the refusal of a plan that exceeds the budget with its addresses asks for it: the model is
// written for less, the solution read with the budget of now.
TEST(ModelFile, BringsBackThePlanThatOurSolverMakes) {
  for (const char* policy : {"recompute", "swap", "olm2"}) {
    const Case c(0.4, policy);
    Problem smaller = c.problem;
    std::optional<Planned> read;
    for (int tries = 0; tries < 8 && !read; ++tries, smaller.budget[0] -= 64) {
      const TemporaryFile file("model.mps");
      file.write(to_mps(complete_model(smaller, c.options)));
      double objective = 0;
      const std::string solution = solution_of_file(file.path(), false, objective);
      try {
        read = plan_of_solution(c.problem, c.options, c.model,
                                parse_solution(c.model, solution, "solution"), "stranger");
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("more than the budget"));
      }
    }
    ASSERT_TRUE(read && read->schedule.has_value()) << policy;
    EXPECT_EQ(read->certificate.solver, "stranger");
    EXPECT_EQ(read->certificate.status, Status::feasible);
    EXPECT_LE(read->certificate.peak[0], c.problem.budget[0]);
    const Planned ours = plan_program(c.problem, c.options);
    EXPECT_NEAR(read->certificate.objective_s, ours.certificate.objective_s,
                0.02 * ours.certificate.objective_s)
        << policy;
  }
}

TEST(ModelFile, IsSolvedByGlpsolWhereThereIsOne) {
  if (std::system("command -v glpsol > /dev/null 2>&1") != 0) GTEST_SKIP() << "no glpsol";
  const Case c;
  const TemporaryFile file("model.mps");
  const TemporaryFile solution("solution.txt");
  file.write(to_mps(c.model));
  const std::string command = "glpsol --freemps " + file.path().string() + " --write " +
                              solution.path().string() + " > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::vector<double> x = parse_solution(c.model, solution.read(), "glpsol");
  const Solution ours = c.solved();
  EXPECT_NEAR(c.objective(x), ours.objective, 1e-6 * ours.objective);
}

TEST(ModelFile, NamesAreUniqueAndReadable) {
  const Case c;
  std::vector<std::string> names = c.model.columns;
  EXPECT_THAT(names, testing::IsSupersetOf({"wait(3)"}));
  EXPECT_TRUE(std::ranges::any_of(names, [](const auto& n) { return n.starts_with("run("); }));
  EXPECT_TRUE(std::ranges::any_of(names, [](const auto& n) { return n.starts_with("keep("); }));
  EXPECT_TRUE(std::ranges::any_of(names, [](const auto& n) { return n.starts_with("send("); }));
  EXPECT_TRUE(std::ranges::none_of(names, [](const auto& n) { return n.starts_with("x"); }))
      << "a column that nobody named";
  for (std::vector<std::string> list : {c.model.columns, c.model.rows}) {
    std::ranges::sort(list);
    EXPECT_EQ(std::ranges::adjacent_find(list), list.end());
  }
}

// The same point in the dialects of several solvers.
TEST(Solution, IsReadInTheWordsOfSeveralSolvers) {
  const Case c;
  const size_t run = static_cast<size_t>(
      std::ranges::find_if(c.model.columns, [](const auto& n) { return n.starts_with("run("); }) -
      c.model.columns.begin());
  const std::string& name = c.model.columns[run];
  const std::string index = std::to_string(run + 1);
  const std::vector<std::string> dialects = {
      name + " 1\n", "Optimal - objective value 12.5\n   " + index + " " + name + "  1  0.25\n",
      "Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective 12\n# Columns 1\n" +
          name + " 1\n# Rows 1\n" + name + " 7\n# Dual solution values\n# Columns 1\n" + name +
          " 0.5\n",
      "c Problem: olm2\ns mip 3 4 o 12.5\ni 1 5\nj " + index + " 1\ne o f\n",
      "s bas 3 4 f f 12.5\ni 1 b 5 0\nj " + index + " b 1 0\ne o f\n"};
  for (const std::string& text : dialects) {
    const std::vector<double> x = parse_solution(c.model, text, "solution");
    ASSERT_EQ(x.size(), c.model.milp.linear.columns.size());
    EXPECT_EQ(x[run], 1) << text;
    EXPECT_EQ(std::ranges::count(x, 0.0), std::ssize(x) - 1) << text;
  }
}

std::string complaint(const Case& c, const std::string& text) {
  try {
    plan_of_solution(c.problem, c.options, c.model, parse_solution(c.model, text, "sol.txt"), "s");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Solution, ThatIsNoneIsRefusedWithTheReason) {
  const Case c;
  const auto run =
      *std::ranges::find_if(c.model.columns, [](const auto& n) { return n.starts_with("run("); });
  EXPECT_THAT(complaint(c, "foreign 1\n"), HasSubstr("sol.txt: no line names a column"));
  EXPECT_THAT(complaint(c, ""), HasSubstr("no line names a column"));
  EXPECT_THAT(complaint(c, run + " much\n"), HasSubstr("line 1: 'much' is no number"));
  EXPECT_THAT(complaint(c, run + " 0.5\n"), HasSubstr("expected 0 or 1"));
  EXPECT_THAT(complaint(c, run + " 2\n"), HasSubstr("expected 0 or 1"));
  EXPECT_THAT(complaint(c, run + " 0\n"), HasSubstr("more than the budget")) << "keeps everything";
}

TEST(ModelFile, IsRefusedForAPolicyWithoutAModel) {
  const Case c;
  EXPECT_THROW(complete_model(c.problem, {.policy = "chen"}), Error);
}

}  // namespace
}  // namespace olm2
