// A discrete-event simulation: from event to event, where an event is the end of an instruction.
#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "core/error.h"
#include "planner/planner.h"
#include "planner/run_seconds.h"

namespace olm2 {
namespace {

const LinkProfile& link_of(const Problem& problem, Lane lane) {
  const LinkProfile& link =
      lane == Lane::device_to_host ? problem.device_to_host : problem.host_to_device;
  const bool exists = lane == Lane::device_to_host || lane == Lane::host_to_device;
  if (!exists || link.bytes_per_s <= 0) {
    throw Error("simulate: a plan copies over the link " + std::string(to_string(lane)) +
                ", which the profile does not have");
  }
  return link;
}

// Seconds an instruction takes when nothing slows it down.
double work_seconds(const Problem& problem, const Instruction& instruction, RunSeconds& runs) {
  if (instruction.kind == Instruction::Kind::compute) return runs.next(instruction.node);
  const LinkProfile& link = link_of(problem, instruction.lane);
  const int64_t bytes = instruction.reads.at(0).pieces.at(0).range.bytes();
  return link.latency_s + static_cast<double>(bytes) / link.bytes_per_s;
}

// Some buffer is in both.
bool touches(const std::vector<Operand>& a, const std::vector<Operand>& b) {
  const auto has = [](const std::vector<Operand>& operands, BufferId id) {
    return std::ranges::any_of(operands, [&](const Operand& operand) {
      return std::ranges::any_of(operand.pieces, [&](const Piece& p) { return p.buffer == id; });
    });
  };
  return std::ranges::any_of(a, [&](const Operand& operand) {
    return std::ranges::any_of(operand.pieces, [&](const Piece& p) { return has(b, p.buffer); });
  });
}

class Simulator {
 public:
  Simulator(const Problem& problem, const Schedule& schedule)
      : problem_(problem),
        schedule_(schedule),
        runs_(problem),
        is_done_(schedule.instructions.size(), false) {
    for (size_t i = 0; i < schedule.instructions.size(); ++i) {
      lanes_[index_of(schedule.instructions[i].lane)].queue.push_back(i);
    }
    result_.start_s.resize(schedule.instructions.size(), 0);
    result_.end_s.resize(schedule.instructions.size(), 0);
  }

  Simulation run() {
    while (start_ready()) advance();
    for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
      const Lane lane = schedule_.instructions[i].lane;
      result_.busy_s[index_of(lane)] += result_.end_s[i] - result_.start_s[i];
    }
    result_.seconds = now_;
    const double computed_s = lane(Lane::compute).last_end_s;
    result_.stall_s = std::max(0.0, computed_s - result_.busy_s[index_of(Lane::compute)]);
    if (now_ > computed_s) {
      result_.stalls.push_back({.lane = Lane::compute,
                                .begin_s = computed_s,
                                .end_s = now_,
                                .instruction = -1,
                                .blocker = last_ended_,
                                .cause = StallCause::end});
    }
    return std::move(result_);
  }

 private:
  struct LaneState {
    std::vector<size_t> queue;
    size_t next = 0;  // In the queue; the one running, if any runs.
    bool runs = false;
    double work_left_s = 0;
    double last_end_s = 0;
  };

  LaneState& lane(Lane which) { return lanes_[index_of(which)]; }

  // Starts what can start; false once everything has finished.
  bool start_ready() {
    bool any_runs = false;
    bool any_left = false;
    for (LaneState& lane : lanes_) {
      if (!lane.runs && lane.next < lane.queue.size()) {
        const size_t i = lane.queue[lane.next];
        const Instruction& instruction = schedule_.instructions[i];
        lane.runs = std::ranges::all_of(
            instruction.waits, [&](int32_t w) { return is_done_[static_cast<size_t>(w)]; });
        if (lane.runs) {
          lane.work_left_s = work_seconds(problem_, instruction, runs_);
          result_.start_s[i] = now_;
          if (now_ > lane.last_end_s) note_stall(i, lane.last_end_s);
        }
      }
      any_runs = any_runs || lane.runs;
      any_left = any_left || lane.next < lane.queue.size();
    }
    ensure(any_runs || !any_left, "a schedule waits for itself");
    return any_left;
  }

  // The lane of instruction `i` had nothing to do from `begin_s` until now.
  void note_stall(size_t i, double begin_s) {
    const Instruction& instruction = schedule_.instructions[i];
    const auto last = std::ranges::max_element(instruction.waits, {}, [&](int32_t wait) {
      return result_.end_s[static_cast<size_t>(wait)];
    });
    ensure(last != instruction.waits.end(), "a lane waits for nothing");
    const bool makes_data =
        touches(instruction.reads, schedule_.instructions[static_cast<size_t>(*last)].writes);
    result_.stalls.push_back({.lane = instruction.lane,
                              .begin_s = begin_s,
                              .end_s = now_,
                              .instruction = static_cast<int32_t>(i),
                              .blocker = *last,
                              .cause = makes_data ? StallCause::data : StallCause::space});
  }

  // How many seconds pass per second of work.
  double slowdown(Lane which) {
    double factor = 1;
    if (which != Lane::compute) return factor;
    if (lane(Lane::device_to_host).runs) factor *= problem_.device_to_host.compute_slowdown;
    if (lane(Lane::host_to_device).runs) factor *= problem_.host_to_device.compute_slowdown;
    return factor;
  }

  // On to the next end of an instruction.
  void advance() {
    double passed = std::numeric_limits<double>::infinity();
    std::array<double, kLaneCount> factors{};
    for (size_t k = 0; k < kLaneCount; ++k) {
      factors[k] = slowdown(static_cast<Lane>(k));
      if (lanes_[k].runs) passed = std::min(passed, lanes_[k].work_left_s * factors[k]);
    }
    now_ += passed;
    for (size_t k = 0; k < kLaneCount; ++k) {
      LaneState& lane = lanes_[k];
      if (!lane.runs) continue;
      const bool ends = lane.work_left_s * factors[k] <= passed;
      lane.work_left_s -= passed / factors[k];
      if (!ends) continue;
      const size_t i = lane.queue[lane.next];
      result_.end_s[i] = now_;
      is_done_[i] = true;
      last_ended_ = static_cast<int32_t>(i);
      lane.last_end_s = now_;
      lane.runs = false;
      ++lane.next;
    }
  }

  const Problem& problem_;
  const Schedule& schedule_;
  RunSeconds runs_;
  std::array<LaneState, kLaneCount> lanes_;
  std::vector<bool> is_done_;
  double now_ = 0;
  int32_t last_ended_ = -1;
  Simulation result_;
};

}  // namespace

std::string_view to_string(StallCause cause) {
  constexpr std::array<std::string_view, 3> kNames = {"data", "space", "end"};
  return kNames.at(static_cast<size_t>(cause));
}

Simulation simulate(const Problem& problem, const Schedule& schedule) {
  return Simulator(problem, schedule).run();
}

}  // namespace olm2
