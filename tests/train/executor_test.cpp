#include "train/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/null_backend.h"
#include "kernels/reference_backend.h"
#include "ops/ops.h"
#include "planner/occupancy.h"
#include "planner/planner.h"
#include "tests/train/allocation_watch.h"
#include "tests/train/tiny_training.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;

// --- the promises ------------------------------------------------------------------------------

TEST(Executor, GivesTheSameBitsUnderAnyPlanPlacePoisonAndDelay) {
  const TinyTraining tiny;
  const std::vector<std::byte> expected = train(tiny, schedule_of(tiny.problem, 0), {});
  EXPECT_TRUE(first_float(expected) > 0.1F && first_float(expected) < 10.0F);
  for (uint32_t seed = 0; seed < 12; ++seed) {
    CheckedSchedule schedule = schedule_of(tiny.problem, seed, seed % 3);
    EXPECT_EQ(train(tiny, schedule, {}), expected) << seed;
    EXPECT_EQ(train(tiny, schedule, {.poison = true}), expected) << seed << " poisoned";
    EXPECT_EQ(train(tiny, schedule, {.max_copy_delay_s = 3e-4, .delay_seed = seed}), expected)
        << seed << " delayed";
    EXPECT_EQ(train(tiny, std::move(schedule), {.poison = true, .max_copy_delay_s = 1e-4}),
              expected)
        << seed << " poisoned and delayed";
  }
}

TEST(Executor, MeasuresThePlannedPeakInEveryTier) {
  TinyTraining tiny;
  std::ranges::fill(tiny.problem.workspace, 100);
  NullBackend backend(100);
  std::set<BytesPerTier> peaks;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    CheckedSchedule schedule = schedule_of(tiny.problem, seed, seed % 3);
    const BytesPerTier planned = schedule.schedule().arena;
    Executor executor(one_program(tiny.problem, std::move(schedule)), backend);
    EXPECT_EQ(executor.arena_bytes(), planned);
    EXPECT_EQ(executor.run(0).peak, planned) << seed;
    peaks.insert(planned);
  }
  EXPECT_GT(peaks.size(), 3U);
}

TEST(Executor, CountsInputsThatNoKernelReads) {
  Graph graph;
  const ValueId x = graph.add_source("x", {.shape = {64}}, Role::input);
  graph.add_source("unread", {.shape = {3}}, Role::input);
  const ValueId y = gelu(graph, "y", x);
  const Problem problem{.graph = &graph,
                        .results = {y},
                        .seconds = {1},
                        .workspace = {0},
                        .state_offset = {-1, -1, -1},
                        .device_to_host = {},
                        .host_to_device = {},
                        .budget = {1 << 20, 0, 0}};
  Schedule schedule;
  schedule.arena = {576, 0, 0};
  schedule.buffers = {{.name = "x", .bytes = 256},
                      {.name = "y", .offset = 256, .bytes = 256},
                      {.name = "unread", .offset = 512, .bytes = 64}};
  schedule.at_start = {{x, {{{0}, {0, 256}}}}, {{1}, {{{2}, {0, 12}}}}};
  schedule.at_end = {{y, {{{1}, {0, 256}}}}};
  Instruction run;
  run.node = {0};
  run.reads = {schedule.at_start[0]};
  run.writes = schedule.at_end;
  schedule.instructions = {run};
  NullBackend backend;
  Executor executor(one_program(problem, check(problem, schedule)), backend);
  EXPECT_EQ(executor.run(0).peak, (BytesPerTier{576, 0, 0}));
}

// Computes nothing, and takes a while for one op.
class SleepingBackend : public Backend {
 public:
  SleepingBackend(std::string op, std::chrono::milliseconds time)
      : op_(std::move(op)), time_(time) {}
  std::string_view name() const override { return "sleeping"; }
  std::string description() const override { return "sleeping"; }
  int64_t alignment() const override { return 64; }
  std::unique_ptr<Kernel> prepare(const Graph&, const Node& node) override {
    struct Sleep : Kernel {
      std::chrono::milliseconds time{};
      void run(std::span<const Tensor>, std::span<const Tensor>, void*) override {
        if (time.count() > 0) std::this_thread::sleep_for(time);
      }
    };
    auto kernel = std::make_unique<Sleep>();
    if (node.op->name == op_) kernel->time = time_;
    ++prepared;
    return kernel;
  }
  int prepared = 0;

 private:
  std::string op_;
  std::chrono::milliseconds time_;
};

TEST(Executor, CopiesWhileItComputes) {
  Graph graph;
  const ValueId x = graph.add_source("x", {.shape = {1000}}, Role::input);
  const ValueId a = add(graph, "a", x, x);
  const ValueId slow = gelu(graph, "slow", x);
  const ValueId result = add(graph, "result", a, slow);
  const Problem problem{.graph = &graph,
                        .results = {result},
                        .seconds = {0, 0.1, 0},
                        .workspace = {0, 0, 0},
                        .state_offset = {-1, -1, -1, -1},
                        .device_to_host = {.bytes_per_s = 40e3},
                        .host_to_device = {.bytes_per_s = 40e3},
                        .budget = {1 << 20, 1 << 20, 0}};
  Plan plan;
  for (const int32_t node : {0, 1, 2}) {
    plan.steps.push_back({.kind = Step::Kind::compute, .node = {node}, .value = {}, .range = {}});
  }
  plan.steps.insert(plan.steps.begin() + 1, {.kind = Step::Kind::copy,
                                             .node = {},
                                             .value = a,
                                             .range = {0, 4000},
                                             .from = Tier::device,
                                             .to = Tier::host});
  Schedule schedule = lower(problem, with_earliest_drops(problem, plan));
  place(problem, schedule);
  add_waits(problem, schedule);
  SleepingBackend backend("gelu", std::chrono::milliseconds(100));
  Executor executor(one_program(problem, check(problem, schedule)), backend,
                    {.device_to_host_bytes_per_s = 40e3, .trace = true});
  // The machine may be busy with something else: one of a few steps must show it.
  double best = 1;
  for (int i = 0; i < 8 && best >= 0.15; ++i) best = std::min(best, executor.run(0).seconds);
  EXPECT_GE(best, 0.1);
  EXPECT_LT(best, 0.15);
}

TEST(Executor, AllocatesNothingWhileAStepRuns) {
  if (!testing::kCanWatch) GTEST_SKIP() << "sanitizers replace malloc";
  const TinyTraining tiny;
  NullBackend backend;
  Executor executor(one_program(tiny.problem, schedule_of(tiny.problem, 3)), backend,
                    {.poison = true, .max_copy_delay_s = 1e-5, .trace = true});
  executor.run(0);
  size_t small = 0;
  {
    const testing::AllocationWatch watch(0);
    executor.run(0);
    small = watch.count();
  }
  EXPECT_EQ(small, 0U);
  const testing::AllocationWatch watch(4096);
  const std::vector<std::byte> large(5000);
  EXPECT_EQ(watch.largest(), large.size()) << "the watch itself sees allocations";
}

// --- errors ------------------------------------------------------------------------------------

// Fails at the chosen call, counted over all kernels.
class FailingBackend : public ReferenceBackend {
 public:
  std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) override {
    struct Failing : Kernel {
      std::unique_ptr<Kernel> real;
      int* calls_left = nullptr;
      void run(std::span<const Tensor> in, std::span<const Tensor> out, void* scratch) override {
        if ((*calls_left)-- == 0) throw Error("the kernel broke");
        real->run(in, out, scratch);
      }
    };
    auto kernel = std::make_unique<Failing>();
    kernel->real = ReferenceBackend::prepare(graph, node);
    kernel->calls_left = &calls_left;
    return kernel;
  }
  int calls_left = 1 << 30;
};

TEST(Executor, SurvivesAKernelThatThrowsAtAnyPoint) {
  const TinyTraining tiny;
  FailingBackend backend;
  Executor executor(one_program(tiny.problem, schedule_of(tiny.problem, 5)), backend);
  const std::vector<std::byte> expected = train(executor, tiny.graph);
  for (int call = 0; call < static_cast<int>(tiny.graph.nodes().size()); ++call) {
    write_inputs(executor, 0, 0);
    backend.calls_left = call;
    EXPECT_THROW(executor.run(0), Error);
  }
  backend.calls_left = 1 << 30;
  for (const Value& value : tiny.graph.values()) {
    if (!is_state(value.role) || value.producer.valid()) continue;
    std::ranges::fill(executor.state(value.name), std::byte{0});
  }
  EXPECT_EQ(train(executor, tiny.graph), expected);
}

template <typename Call>
std::string message_of(Call call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Executor, NamesWhatItDoesNotKnow) {
  const TinyTraining tiny;
  NullBackend backend;
  Executor executor(one_program(tiny.problem, schedule_of(tiny.problem, 0)), backend);
  EXPECT_EQ(executor.program_index("step"), 0U);
  EXPECT_THAT(message_of([&] { (void)executor.program_index("stop"); }),
              HasSubstr("no program is named 'stop'; there are: step"));
  EXPECT_THAT(message_of([&] { executor.state("w9"); }), HasSubstr("no state is named 'w9'"));
  EXPECT_THAT(message_of([&] { executor.input(0, "w1"); }), HasSubstr("step has no input 'w1'"));
  EXPECT_THAT(message_of([&] { (void)executor.result(0, "x"); }), HasSubstr("no result 'x'"));
  EXPECT_EQ(executor.input(0, "x").size(), 6U * 19U * 4U);
  EXPECT_EQ(executor.result(0, "loss").size(), 4U);
}

TEST(Executor, RefusesAProfileWithTooLittleScratch) {
  const TinyTraining tiny;
  NullBackend backend(1000);
  EXPECT_THAT(message_of([&] {
                Executor(one_program(tiny.problem, schedule_of(tiny.problem, 0)), backend);
              }),
              HasSubstr("wants 1000 bytes of scratch, the plan has 0"));
}

// y = x + w at the given state address.
struct OneAdd {
  Graph graph;
  Problem problem;
  OneAdd(std::string state, int64_t offset, int64_t state_bytes, int64_t elements = 16) {
    const ValueId x = graph.add_source("x", {.shape = {elements}}, Role::input);
    const ValueId w = graph.add_source(std::move(state), {.shape = {elements}}, Role::parameter);
    const ValueId y = add(graph, "y", x, w);
    problem = {.graph = &graph,
               .results = {y},
               .seconds = {1},
               .workspace = {0},
               .state_offset = {-1, offset, -1},
               .state_bytes = state_bytes,
               .device_to_host = {},
               .host_to_device = {},
               .budget = {1 << 20, 0, 0}};
  }
  ExecutableProgram program(std::string name) const {
    return {.name = std::move(name), .problem = problem, .schedule = schedule_of(problem, 0)};
  }
};

std::string refusal_of_pair(const OneAdd& a, const OneAdd& b) {
  ReferenceBackend backend;
  return message_of([&] { Executor({a.program("one"), b.program("two")}, backend); });
}

TEST(Executor, RefusesProgramsThatDisagreeAboutState) {
  EXPECT_EQ(refusal_of_pair({"w", 64, 128}, {"w", 64, 192}), "");
  EXPECT_THAT(refusal_of_pair({"w", 0, 128}, {"w", 64, 128}),
              HasSubstr("state w is f32(16) at offset 0 of the device in program one, and f32(16) "
                        "at offset 64 of the device in program two"));
  EXPECT_THAT(refusal_of_pair({"w", 0, 64, 16}, {"w", 0, 64, 8}), HasSubstr("f32(8) at offset 0"));
  EXPECT_THAT(refusal_of_pair({"w", 0, 128}, {"v", 0, 128}), HasSubstr("state w overlaps v"));
  EXPECT_THAT(refusal_of_pair({"w", 64, 128}, {"v", 0, 64}),
              HasSubstr("program one needs state w, whose bytes program two before it uses"));
}

TEST(Executor, RunsSeveralProgramsOverOneState) {
  const OneAdd one("w", 0, 64);
  const OneAdd two("w", 0, 64);
  ReferenceBackend backend;
  Executor executor({one.program("one"), two.program("two")}, backend);
  const float weight = 3;
  std::memcpy(executor.state("w").data(), &weight, 4);
  for (const char* name : {"one", "two"}) {
    const size_t program = executor.program_index(name);
    const float x = 4;
    std::memcpy(executor.input(program, "x").data(), &x, 4);
    EXPECT_EQ(executor.run(program).computed, 1);
    EXPECT_EQ(first_float(executor.result(program, "y")), 7);
  }
}

// --- what it tells -----------------------------------------------------------------------------

TEST(Executor, PoisonsInputsAfterTheirLastUse) {
  const OneAdd one("w", 0, 64);
  ReferenceBackend backend;
  Executor executor({one.program("one")}, backend, {.poison = true});
  std::ranges::fill(executor.input(0, "x"), std::byte{0});
  executor.run(0);
  EXPECT_EQ(first_float(executor.state("w")), 0);
  const auto x = executor.input(0, "x");
  const auto y = executor.result(0, "y");
  EXPECT_EQ(first_float(y), 0);
  // The result may lie on the input; then its bytes live on.
  EXPECT_EQ(x[0], x.data() == y.data() ? y[0] : std::byte{0xff});
}

TEST(Executor, PreparesEqualNodesOnce) {
  Graph graph;
  ValueId value = graph.add_source("x", {.shape = {16}}, Role::input);
  const ValueId key = graph.add_source("key", {.shape = {4}, .dtype = DType::i32}, Role::input);
  for (int i = 0; i < 5; ++i) value = gelu(graph, "g" + std::to_string(i), value);
  // These draw different random numbers.
  for (int i = 0; i < 2; ++i) value = dropout(graph, "d" + std::to_string(i), value, key, 0.5);
  const Problem problem{.graph = &graph,
                        .results = {value},
                        .seconds = std::vector<double>(7, 1),
                        .workspace = std::vector<int64_t>(7, 0),
                        .state_offset = std::vector<int64_t>(9, -1),
                        .device_to_host = {},
                        .host_to_device = {},
                        .budget = {1 << 20, 0, 0}};
  SleepingBackend backend("none", {});
  Executor executor(one_program(problem, schedule_of(problem, 0)), backend);
  EXPECT_EQ(backend.prepared, 3);
  EXPECT_EQ(executor.run(0).computed, 7);
}

TEST(Executor, TracesEveryInstructionInTheOrderOfItsLane) {
  const TinyTraining tiny;
  CheckedSchedule checked = schedule_of(tiny.problem, 4);
  const Schedule schedule = checked.schedule();
  ReferenceBackend backend;
  Executor executor(one_program(tiny.problem, std::move(checked)), backend, {.trace = true});
  for (int step = 0; step < 2; ++step) {
    write_inputs(executor, 0, step);
    const StepReport report = executor.run(0);
    ASSERT_EQ(executor.trace().size(), schedule.instructions.size());
    std::array<double, kLaneCount> busy_until{};
    for (size_t i = 0; i < executor.trace().size(); ++i) {
      const TraceEvent& event = executor.trace()[i];
      const Instruction& instruction = schedule.instructions[i];
      ASSERT_EQ(event.instruction, static_cast<int32_t>(i));
      EXPECT_LE(event.start_s, event.end_s);
      EXPECT_LE(event.end_s, report.seconds);
      double& busy = busy_until[index_of(instruction.lane)];
      EXPECT_GE(event.start_s, busy);
      busy = event.end_s;
      for (const int32_t wait : instruction.waits) {
        EXPECT_GE(event.start_s, executor.trace()[static_cast<size_t>(wait)].end_s);
      }
    }
    EXPECT_LE(report.stall_seconds, report.seconds);
    EXPECT_GT(report.copied_bytes, 0);
  }
}

// Also where copies come late: what is in use follows from the schedule, not from luck.
TEST(Executor, MeasuresTheOccupancyThatWasPlannedInEveryTier) {
  int64_t most_host = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const TinyTraining tiny;
    CheckedSchedule checked = schedule_of(tiny.problem, seed);
    const Schedule schedule = checked.schedule();
    ReferenceBackend backend;
    Executor executor(one_program(tiny.problem, std::move(checked)), backend,
                      {.max_copy_delay_s = seed % 2 == 0 ? 0 : 1e-4, .trace = true});
    write_inputs(executor, 0, 0);
    const StepReport report = executor.run(0);
    const std::vector<BytesPerTier> planned = occupancy_per_instruction(schedule);
    EXPECT_EQ(executor.occupancy(), planned) << seed;
    for (const BytesPerTier& bytes : planned) {
      for (size_t t = 0; t < kTierCount; ++t) EXPECT_LE(bytes[t], report.peak[t]) << seed;
      most_host = std::max(most_host, bytes[index_of(Tier::host)]);
    }
  }
  EXPECT_GT(most_host, 0);
}

// By the measured clock, too, buffers that share bytes are never in use at the same time.
TEST(Executor, MeasuredTimesKeepWithinTheArenas) {
  const TinyTraining tiny;
  CheckedSchedule checked = schedule_of(tiny.problem, 4);
  const Schedule schedule = checked.schedule();
  ReferenceBackend backend;
  Executor executor(one_program(tiny.problem, std::move(checked)), backend, {.trace = true});
  write_inputs(executor, 0, 0);
  const StepReport report = executor.run(0);
  std::vector<double> start;
  std::vector<double> end;
  for (const TraceEvent& event : executor.trace()) {
    start.push_back(event.start_s);
    end.push_back(event.end_s);
  }
  const std::vector<BufferSpan> spans = buffer_spans(schedule, start, end, report.seconds);
  for (const OccupancyChange& change : occupancy_over_time(schedule, spans)) {
    for (size_t t = 0; t < kTierCount; ++t) EXPECT_LE(change.bytes[t], schedule.arena[t]);
  }
}

}  // namespace
}  // namespace olm2
