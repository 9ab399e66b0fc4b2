// Buffers that hold parts of one operand must follow each other; everything that hangs together in
// this way is one group with fixed inner offsets.  Groups are packed tier by tier, above the state;
// state that is there for part of the step is a group with a given address.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"
#include "planner/packing.h"
#include "planner/planner.h"

namespace olm2 {
namespace {

size_t as_size(int32_t i) {
  return static_cast<size_t>(i);
}

// Union-find in which every member knows its offset from its root.
class RigidSets {
 public:
  explicit RigidSets(size_t count) : parent_(count), shift_(count, 0) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  // Root, and the offset of `item` from it.
  std::pair<size_t, int64_t> find(size_t item) const {
    int64_t offset = 0;
    while (parent_[item] != item) {
      offset += shift_[item];
      item = parent_[item];
    }
    return {item, offset};
  }
  // `b` lies `distance` above `a`.
  void join(size_t a, size_t b, int64_t distance) {
    const auto [root_a, offset_a] = find(a);
    const auto [root_b, offset_b] = find(b);
    const int64_t shift = offset_a + distance - offset_b;
    ensure(root_a != root_b || shift == 0, "two operands want one buffer at two distances");
    if (root_a == root_b) return;
    parent_[root_b] = root_a;
    shift_[root_b] = shift;
  }

 private:
  std::vector<size_t> parent_;
  std::vector<int64_t> shift_;
};

RigidSets rigid_sets(const Schedule& schedule) {
  RigidSets sets(schedule.buffers.size());
  const auto join = [&](const std::vector<Operand>& operands) {
    for (const Operand& operand : operands) {
      for (size_t p = 1; p < operand.pieces.size(); ++p) {
        const Piece& before = operand.pieces[p - 1];
        const Piece& after = operand.pieces[p];
        sets.join(as_size(before.buffer.index), as_size(after.buffer.index),
                  after.range.begin - before.range.begin);
      }
    }
  };
  for (const Instruction& instruction : schedule.instructions) {
    join(instruction.reads);
    join(instruction.writes);
  }
  join(schedule.at_end);
  return sets;
}

struct Member {
  size_t buffer = 0;
  int64_t offset = 0;
};

// Groups of the buffers of one tier; offsets from the lowest member.
std::vector<std::vector<Member>> groups_of(const Schedule& schedule, const RigidSets& sets,
                                           Tier tier) {
  std::map<size_t, size_t> group_of_root;
  std::vector<std::vector<Member>> groups;
  for (size_t b = 0; b < schedule.buffers.size(); ++b) {
    if (schedule.buffers[b].tier != tier) continue;
    const auto [root, offset] = sets.find(b);
    const auto [found, is_new] = group_of_root.try_emplace(root, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back({b, offset});
  }
  for (std::vector<Member>& group : groups) {
    const int64_t lowest = std::ranges::min_element(group, {}, &Member::offset)->offset;
    for (Member& member : group) member.offset -= lowest;
  }
  return groups;
}

// Per buffer where it must lie: where state rests.
using GivenOffsets = std::vector<std::optional<int64_t>>;

GivenOffsets given_offsets(const Problem& problem, const Schedule& schedule) {
  GivenOffsets given(schedule.buffers.size());
  const auto rest = [&](const std::vector<Operand>& operands, bool is_start) {
    for (const Operand& operand : operands) {
      const ValueId home = problem.graph->value(operand.value).home;
      if (!home.valid()) continue;
      const StateRest there = problem.rest_of(home);
      if (!(is_start ? there.at_start : there.at_end)) continue;
      for (const Piece& piece : operand.pieces) {
        given[as_size(piece.buffer.index)] =
            problem.state_offset.at(as_size(home.index)) + piece.range.begin;
      }
    }
  };
  rest(schedule.at_start, true);
  rest(schedule.at_end, false);
  return given;
}

BoxGroup boxes_of(const Schedule& schedule, const std::vector<Member>& group,
                  const GivenOffsets& given) {
  BoxGroup boxes;
  for (const Member& member : group) {
    const Buffer& buffer = schedule.buffers[member.buffer];
    boxes.boxes.push_back({.offset = member.offset,
                           .bytes = buffer.bytes,
                           .first = buffer.first,
                           .last = buffer.last});
    if (given[member.buffer]) boxes.fixed_at = *given[member.buffer] - member.offset;
  }
  return boxes;
}

// Below every base: anywhere.
int64_t start_of(const std::vector<Member>& group, const std::vector<int64_t>& start) {
  for (const Member& member : group) {
    if (start[member.buffer] >= 0) return start[member.buffer] - member.offset;
  }
  return -1;
}

bool ends_below(const BoxGroup& group, int64_t base) {
  return group.fixed_at && std::ranges::all_of(group.boxes, [&](const Box& box) {
           return *group.fixed_at + box.offset + box.bytes <= base;
         });
}

void place_tier(const Problem& problem, const RigidSets& sets, const GivenOffsets& given, Tier tier,
                const PlaceOptions& options, Schedule& schedule) {
  const int64_t base = padded(problem.state_bytes_in(tier), problem.alignment);
  std::vector<std::vector<Member>> groups;
  std::vector<BoxGroup> boxes;
  const auto settle = [&](const std::vector<Member>& group, int64_t offset) {
    for (const Member& member : group) {
      schedule.buffers[member.buffer].offset = offset + member.offset;
    }
  };
  for (std::vector<Member>& group : groups_of(schedule, sets, tier)) {
    BoxGroup box_group = boxes_of(schedule, group, given);
    if (ends_below(box_group, base)) {  // In nobody's way.
      settle(group, *box_group.fixed_at);
      continue;
    }
    groups.push_back(std::move(group));
    boxes.push_back(std::move(box_group));
  }
  PackOptions pack_options{.effort = options.effort, .enough = options.enough[index_of(tier)]};
  for (size_t g = 0; g < groups.size() && tier == Tier::device && !options.start.empty(); ++g) {
    pack_options.start.push_back(boxes[g].fixed_at.value_or(start_of(groups[g], options.start)));
  }
  const Packing packing = options.random_seed == 0
                              ? pack(boxes, base, pack_options)
                              : pack_at_random(boxes, base, problem.alignment, options.random_seed);
  for (size_t g = 0; g < groups.size(); ++g) settle(groups[g], packing.offset[g]);
  schedule.arena[index_of(tier)] = packing.top;
}

}  // namespace

void place(const Problem& problem, Schedule& schedule, const PlaceOptions& options) {
  const GivenOffsets given = given_offsets(problem, schedule);
  const RigidSets sets = rigid_sets(schedule);
  for (const Tier tier : kTiers) place_tier(problem, sets, given, tier, options, schedule);
}

}  // namespace olm2
