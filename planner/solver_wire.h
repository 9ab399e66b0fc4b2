// What a planning process and its solver process say to each other, as bytes.
//
//   message = kind (4 bytes), size of the content (8 bytes), content
//
// Numbers are in the machine's own order: both ends are the same program on the same machine.
//   to the solver    solve, and rows in answer to each ask_rows
//   from the solver  any of ask_rows, progress, bound, incumbent; at last done, refused or
//   lacked_memory
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "planner/solver.h"

namespace olm2 {

enum class MessageKind : uint32_t {
  solve = 1,
  rows,
  ask_rows,
  progress,
  bound,
  incumbent,
  done,
  refused,
  lacked_memory
};

struct Message {
  MessageKind kind = MessageKind::solve;
  std::string_view content;  // Of the bytes it was cut from.
};

// The other end does not speak as it should.
class WireError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string as_message(MessageKind kind, std::string_view content);
// The first message of `bytes`, and how many bytes it takes; nothing if more must come first.
// Throws WireError if no message begins like this.
std::optional<Message> first_message(std::string_view bytes, size_t& taken);

struct Incumbent {
  double objective = kUnbounded;
  double bound = -kUnbounded;
  std::vector<double> x = {};
};

// What the functions of a request do is left to the receiver; which of them there are is told.
struct SolveMessage {
  LinearModel model = {};  // Without labels.
  SolverRequest request = {};
  bool has_broken_rows = false;
  bool has_progress = false;
};

std::string solve_message(const LinearModel& model, const SolverRequest& request,
                          double time_limit_s);
std::string rows_message(const std::vector<Row>& rows);
std::string numbers_message(MessageKind kind, std::span<const double> numbers);
std::string incumbent_message(double objective, double bound, std::span<const double> x);
std::string done_message(const Solution& solution);

// Each throws WireError if `content` is not what it should be.
SolveMessage read_solve(std::string_view content);
std::vector<Row> read_rows(std::string_view content);
std::vector<double> read_numbers(std::string_view content, size_t count);
Incumbent read_incumbent(std::string_view content, size_t columns);
Solution read_done(std::string_view content, const LinearModel& model);

}  // namespace olm2
