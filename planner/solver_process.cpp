#include "planner/solver_process.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/error.h"
#include "planner/child_process.h"
#include "planner/glpk_solver.h"
#include "planner/solver_server.h"
#include "planner/solver_wire.h"

namespace olm2 {
namespace {

using Clock = std::chrono::steady_clock;

// What a solver gets to say good-bye: it ends by itself where it can.
constexpr auto kGrace = std::chrono::milliseconds(80);

std::atomic<bool> may_start{false};  // This program's main serves.
std::string program_path;            // NOLINT: see set_solver_program.

thread_local std::unique_ptr<ChildProcess> child;   // NOLINT: one per thread.
thread_local std::vector<SolverSession*> sessions;  // NOLINT: the innermost last.
thread_local bool is_solving = false;               // NOLINT

// The child of this thread, started if need be; null, and errno, if that is impossible.
ChildProcess* running_child() {
  if (child && (!child->is_ours() || child->has_ended())) child.reset();
  if (!child) {
    child = ChildProcess::start(program_path.empty() ? "/proc/self/exe" : program_path,
                                std::string(kServeArgument));
  }
  return child.get();
}

void say_that_there_is_no_process(int failure) {
  static std::once_flag once;
  std::call_once(once, [&] {
    std::fprintf(stderr,
                 "planner: cannot start a solver process (%s); solving in this one, which a crash "
                 "of the solver would end\n",
                 std::strerror(failure));
  });
}

// One solve, seen from here.
class Conversation {
 public:
  Conversation(const LinearModel& model, const SolverRequest& request, ChildProcess& solver)
      : model_(model), request_(request), solver_(solver), limit_s_(limit_of(request)) {
    patience_.deadline =
        start_ + kGrace +
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s_));
    patience_.should_stop = request.should_stop;
    solution_.prices.resize(model.rows.size());
  }

  Solution run() {
    try {
      const double passed_s = std::chrono::duration<double>(Clock::now() - start_).count();
      if (send(solve_message(model_, request_, std::max(0.0, limit_s_ - passed_s)))) listen();
    } catch (const WireError& error) {
      give_up("the solver process sent " + std::string(error.what()));
    } catch (...) {
      child.reset();
      throw;
    }
    return std::move(solution_);
  }

  // Whether the solver ended without a word: if it was an old one, it had ended before.
  bool is_unheard() const { return is_gone_ && heard_.empty() && answers_ == 0; }

 private:
  static double limit_of(const SolverRequest& request) {
    return std::clamp(request.time_limit_s, 0.0, 1e6);
  }

  // False if the conversation is over, with the verdict of what was heard so far.
  bool go_on(Exchange exchange) {
    if (exchange == Exchange::done) return true;
    if (exchange == Exchange::gone) {
      is_gone_ = true;
      give_up("the solver process " + solver_.end());
    } else {
      give_up(exchange == Exchange::stopped ? "it was stopped" : "time is up");
    }
    return false;
  }

  bool send(const std::string& message) { return go_on(solver_.send(message, patience_)); }

  void listen() {
    while (true) {
      size_t taken = 0;
      const std::optional<Message> message = first_message(heard_, taken);
      if (message) {
        ++answers_;
        if (!answer(*message)) return;
        heard_.erase(0, taken);
      } else if (!go_on(solver_.receive(heard_, patience_))) {
        return;
      }
    }
  }

  // False at the end.
  bool answer(const Message& message) {
    switch (message.kind) {
      case MessageKind::ask_rows:
        return send(rows_message(
            request_.broken_rows(read_numbers(message.content, model_.columns.size()))));
      case MessageKind::progress:
        if (request_.progress) request_.progress(read_numbers(message.content, 1).front());
        return true;
      case MessageKind::bound:
        hear_bound(read_numbers(message.content, 1).front());
        return true;
      case MessageKind::incumbent:
        hear_incumbent(read_incumbent(message.content, model_.columns.size()));
        return true;
      case MessageKind::done:
        solution_ = read_done(message.content, model_);
        return false;
      case MessageKind::lacked_memory:
        give_up(std::string(message.content));
        return false;
      case MessageKind::refused:
        throw Error(std::string(message.content));
      default:
        throw WireError("a message that is not a solver's");
    }
  }

  void hear_bound(double bound) {
    solution_.bound = std::max(solution_.bound, bound);
    if (request_.on_bound) request_.on_bound(bound);
  }

  void hear_incumbent(Incumbent incumbent) {
    if (!(incumbent.objective < solution_.objective))
      throw WireError("a solution that is no better");
    solution_.objective = incumbent.objective;
    solution_.x = std::move(incumbent.x);
    if (!request_.on_incumbent) return;
    request_.on_incumbent(incumbent.objective, solution_.x, incumbent.bound);
  }

  // The verdict of what was heard so far; the child, which may be busy, is ended.
  void give_up(std::string why) {
    solution_.verdict =
        solution_.x.empty() ? Solution::Verdict::unknown : Solution::Verdict::feasible;
    solution_.bound = std::min(solution_.bound, solution_.objective);
    solution_.reason = std::move(why);
    child.reset();
  }

  const LinearModel& model_;
  const SolverRequest& request_;
  ChildProcess& solver_;
  Clock::time_point start_ = Clock::now();
  double limit_s_ = 0;
  Patience patience_;
  Solution solution_;  // So far.
  std::string heard_;
  bool is_gone_ = false;
  int answers_ = 0;
};

// The functions of a request may solve something, too: not in the same process.
class Solving {
 public:
  Solving() { is_solving = true; }
  ~Solving() { is_solving = false; }
  Solving(const Solving&) = delete;
  Solving& operator=(const Solving&) = delete;
};

// With what the sessions say.
SolverRequest complete(SolverRequest request) {
  std::vector<std::function<bool()>> stops;
  if (request.should_stop) stops.push_back(std::move(request.should_stop));
  for (const SolverSession* session : sessions) {
    const SolverLimits& limits = session->limits();
    if (limits.should_stop) stops.push_back(limits.should_stop);
  }
  for (auto session = sessions.rbegin(); session != sessions.rend(); ++session) {
    if (request.memory_limit_bytes > 0) break;
    request.memory_limit_bytes = (*session)->limits().memory_limit_bytes;
  }
  request.should_stop = {};
  if (!stops.empty()) {
    request.should_stop = [stops = std::move(stops)] {
      return std::ranges::any_of(stops, [](const auto& should_stop) { return should_stop(); });
    };
  }
  return request;
}

bool is_worth_a_process(const SolverRequest& request) {
  return may_start && !is_solving && request.time_limit_s > 0 &&
         !(request.should_stop && request.should_stop());
}

Solution solve_by_child(const LinearModel& model, const SolverRequest& request) {
  while (true) {
    const bool is_old = child != nullptr;
    ChildProcess* solver = running_child();
    if (solver == nullptr) {
      say_that_there_is_no_process(errno);
      return solve_with_glpk(model, request);
    }
    const Solving solving;
    Conversation conversation(model, request, *solver);
    Solution solution = conversation.run();
    if (!is_old || !conversation.is_unheard()) return solution;
  }
}

}  // namespace

Solution solve(const LinearModel& model, const SolverRequest& asked) {
  ensure(asked.start.empty() || asked.start.size() == model.columns.size(),
         "a start has another number of columns than the model");
  const SolverSession own;
  const SolverRequest request = complete(asked);
  Solution solution = is_worth_a_process(request) ? solve_by_child(model, request)
                                                  : solve_with_glpk(model, request);
  if (!solution.reason.empty()) {
    for (SolverSession* session : sessions) session->note(solution.reason);
  }
  return solution;
}

SolverSession::SolverSession(SolverLimits limits) : limits_(std::move(limits)) {
  sessions.push_back(this);
}

SolverSession::~SolverSession() {
  sessions.pop_back();
  if (sessions.empty()) child.reset();
}

pid_t SolverSession::process() {
  return child && child->is_ours() ? child->process() : 0;
}

void set_solver_program(const std::string& path) {
  child.reset();
  program_path = path;
}

void serve_solver(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == kServeArgument) serve_parent(argv[2]);
  may_start = true;
}

}  // namespace olm2
