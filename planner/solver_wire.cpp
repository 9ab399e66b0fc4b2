#include "planner/solver_wire.h"

#include <cstring>
#include <span>
#include <type_traits>

namespace olm2 {
namespace {

constexpr size_t kHeader = sizeof(MessageKind) + sizeof(uint64_t);
constexpr uint64_t kLargest = uint64_t{1} << 40U;

class Writer {
 public:
  template <typename T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_all(std::span<const double> numbers) {
    put<uint64_t>(numbers.size());
    bytes_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  }
  void put_text(std::string_view text) {
    put<uint64_t>(text.size());
    bytes_.append(text);
  }
  void put_rows(std::span<const Row> rows) {
    put<uint64_t>(rows.size());
    for (const Row& row : rows) {
      put(row.lower);
      put(row.upper);
      put<uint64_t>(row.terms.size());
      for (const Term& term : row.terms) {
        put(term.column);
        put(term.factor);
      }
    }
  }
  std::string message(MessageKind kind) const { return as_message(kind, bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  bool get_flag() { return get<uint8_t>() != 0; }
  template <typename E>
  E get_enum(E last) {
    const auto number = get<uint8_t>();
    if (number > static_cast<uint8_t>(last)) throw WireError("an unknown choice");
    return static_cast<E>(number);
  }
  // How many things of at least `bytes_each` follow.
  size_t get_count(size_t bytes_each) {
    const auto count = get<uint64_t>();
    if (count > bytes_.size() / bytes_each) throw WireError("a count beyond the message");
    return static_cast<size_t>(count);
  }
  std::vector<double> get_all() {
    std::vector<double> numbers(get_count(sizeof(double)));
    if (numbers.empty()) return numbers;
    std::memcpy(numbers.data(), take(numbers.size() * sizeof(double)).data(),
                numbers.size() * sizeof(double));
    return numbers;
  }
  std::string get_text() { return std::string(take(get_count(1))); }
  std::vector<Row> get_rows() {
    std::vector<Row> rows(get_count(3 * sizeof(uint64_t)));
    for (Row& row : rows) {
      row.lower = get<double>();
      row.upper = get<double>();
      row.terms.resize(get_count(sizeof(Term::column) + sizeof(Term::factor)));
      for (Term& term : row.terms) {
        term.column = get<int>();
        term.factor = get<double>();
      }
    }
    return rows;
  }
  void expect_end() const {
    if (!bytes_.empty()) throw WireError("more than was expected");
  }

 private:
  std::string_view take(size_t count) {
    if (count > bytes_.size()) throw WireError("less than was expected");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view bytes_;
};

void put_columns(Writer& writer, const std::vector<Column>& columns) {
  writer.put<uint64_t>(columns.size());
  for (const Column& column : columns) {
    writer.put(column.cost);
    writer.put(column.lower);
    writer.put(column.upper);
    writer.put<uint8_t>(column.integer ? 1 : 0);
  }
}

std::vector<Column> get_columns(Reader& reader) {
  std::vector<Column> columns(reader.get_count(3 * sizeof(double) + 1));
  for (Column& column : columns) {
    column.cost = reader.get<double>();
    column.lower = reader.get<double>();
    column.upper = reader.get<double>();
    column.integer = reader.get_flag();
  }
  return columns;
}

}  // namespace

std::string as_message(MessageKind kind, std::string_view content) {
  const uint64_t size = content.size();
  std::string bytes(kHeader, '\0');
  std::memcpy(bytes.data(), &kind, sizeof kind);
  std::memcpy(bytes.data() + sizeof kind, &size, sizeof size);
  return bytes.append(content);
}

std::optional<Message> first_message(std::string_view bytes, size_t& taken) {
  if (bytes.size() < kHeader) return std::nullopt;
  MessageKind kind{};
  uint64_t size = 0;
  std::memcpy(&kind, bytes.data(), sizeof kind);
  std::memcpy(&size, bytes.data() + sizeof kind, sizeof size);
  if (kind < MessageKind::solve || kind > MessageKind::lacked_memory || size > kLargest) {
    throw WireError("no message begins like this");
  }
  if (bytes.size() - kHeader < size) return std::nullopt;
  taken = kHeader + static_cast<size_t>(size);
  return Message{.kind = kind, .content = bytes.substr(kHeader, static_cast<size_t>(size))};
}

std::string solve_message(const LinearModel& model, const SolverRequest& request,
                          double time_limit_s) {
  Writer writer;
  writer.put(request.gap);
  writer.put(time_limit_s);
  writer.put(request.step_limit);
  writer.put(request.cutoff);
  writer.put(request.memory_limit_bytes);
  writer.put(request.branching);
  writer.put(request.backtracking);
  for (const bool flag : {request.cuts, request.round_first, static_cast<bool>(request.broken_rows),
                          static_cast<bool>(request.progress)}) {
    writer.put<uint8_t>(flag ? 1 : 0);
  }
  writer.put_all(request.start);
  writer.put(model.constant);
  put_columns(writer, model.columns);
  writer.put_rows(model.rows);
  return writer.message(MessageKind::solve);
}

SolveMessage read_solve(std::string_view content) {
  Reader reader(content);
  SolveMessage message;
  SolverRequest& request = message.request;
  request.gap = reader.get<double>();
  request.time_limit_s = reader.get<double>();
  request.step_limit = reader.get<int64_t>();
  request.cutoff = reader.get<double>();
  request.memory_limit_bytes = reader.get<int64_t>();
  request.branching = reader.get_enum(Branching::pseudo_costs);
  request.backtracking = reader.get_enum(Backtracking::best_projection);
  request.cuts = reader.get_flag();
  request.round_first = reader.get_flag();
  message.has_broken_rows = reader.get_flag();
  message.has_progress = reader.get_flag();
  request.start = reader.get_all();
  message.model.constant = reader.get<double>();
  message.model.columns = get_columns(reader);
  message.model.rows = reader.get_rows();
  reader.expect_end();
  return message;
}

std::string rows_message(const std::vector<Row>& rows) {
  Writer writer;
  writer.put_rows(rows);
  return writer.message(MessageKind::rows);
}

std::vector<Row> read_rows(std::string_view content) {
  Reader reader(content);
  std::vector<Row> rows = reader.get_rows();
  reader.expect_end();
  return rows;
}

std::string numbers_message(MessageKind kind, std::span<const double> numbers) {
  Writer writer;
  writer.put_all(numbers);
  return writer.message(kind);
}

std::vector<double> read_numbers(std::string_view content, size_t count) {
  Reader reader(content);
  std::vector<double> numbers = reader.get_all();
  reader.expect_end();
  if (numbers.size() != count) throw WireError("another number of numbers than was expected");
  return numbers;
}

std::string incumbent_message(double objective, double bound, std::span<const double> x) {
  Writer writer;
  writer.put(objective);
  writer.put(bound);
  writer.put_all(x);
  return writer.message(MessageKind::incumbent);
}

Incumbent read_incumbent(std::string_view content, size_t columns) {
  Reader reader(content);
  Incumbent incumbent;
  incumbent.objective = reader.get<double>();
  incumbent.bound = reader.get<double>();
  incumbent.x = reader.get_all();
  reader.expect_end();
  if (incumbent.x.size() != columns) throw WireError("a solution of another size");
  return incumbent;
}

std::string done_message(const Solution& solution) {
  Writer writer;
  writer.put(solution.verdict);
  writer.put(solution.objective);
  writer.put(solution.bound);
  writer.put_all(solution.x);
  writer.put_all(solution.prices);
  writer.put_text(solution.reason);
  return writer.message(MessageKind::done);
}

Solution read_done(std::string_view content, const LinearModel& model) {
  Reader reader(content);
  Solution solution;
  solution.verdict = reader.get_enum(Solution::Verdict::unknown);
  solution.objective = reader.get<double>();
  solution.bound = reader.get<double>();
  solution.x = reader.get_all();
  solution.prices = reader.get_all();
  solution.reason = reader.get_text();
  reader.expect_end();
  const bool has_solution = solution.verdict == Solution::Verdict::optimal ||
                            solution.verdict == Solution::Verdict::feasible;
  const size_t expected = has_solution ? model.columns.size() : 0;
  if (solution.x.size() != expected || solution.prices.size() != model.rows.size()) {
    throw WireError("a solution of another size");
  }
  return solution;
}

}  // namespace olm2
