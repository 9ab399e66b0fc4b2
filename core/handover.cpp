// Between the programs of a run: what one needs was left by another.  Every check is one of places
// and of two flags per program and source; `check` proves that a schedule keeps to them.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/schedule.h"

namespace olm2 {
namespace {

// A state source as one program knows it.
struct Known {
  ValueId id;
  StateRest rest;
  int64_t offset = 0;
  int64_t bytes = 0;  // Padded.
  const ValueType* type = nullptr;
  bool has_home() const { return rest.at_start || rest.at_end; }
};

using Sources = std::map<std::string_view, Known>;

Sources sources_of(const Problem& problem) {
  Sources sources;
  for (size_t i = 0; i < problem.graph->values().size(); ++i) {
    const Value& value = problem.graph->values()[i];
    if (!is_state(value.role) || value.producer.valid()) continue;
    const ValueId id{static_cast<int32_t>(i)};
    sources[value.name] = {.id = id,
                           .rest = problem.rest_of(id),
                           .offset = problem.state_offset.at(i),
                           .bytes = problem.padded_bytes(id),
                           .type = &value.type};
  }
  return sources;
}

// A home that one program named first, and everyone agrees on.
struct Home {
  Known known;
  std::string_view program;
};

std::string describe(const Known& known) {
  return to_string(*known.type) + " at offset " + std::to_string(known.offset) + " of the " +
         std::string(to_string(known.rest.tier));
}

class Handover {
 public:
  explicit Handover(std::span<const ProgramInTurn> turns) : turns_(turns) {
    for (const ProgramInTurn& turn : turns) sources_.push_back(sources_of(*turn.problem));
  }

  void run() {
    agree_on_homes();
    keep_homes_apart();
    for (size_t i = 0; i < turns_.size(); ++i) {
      for (const auto& [name, known] : sources_[i]) {
        if (known.rest.at_start) find_giver(i, name, known);
      }
    }
  }

 private:
  void agree_on_homes() {
    for (size_t i = 0; i < turns_.size(); ++i) {
      for (const auto& [name, known] : sources_[i]) {
        if (!known.has_home()) continue;
        const auto [found, is_new] = homes_.try_emplace(name, Home{known, turns_[i].name});
        const Known& other = found->second.known;
        if (is_new || (other.offset == known.offset && other.rest.tier == known.rest.tier &&
                       *other.type == *known.type)) {
          continue;
        }
        throw Error("handover: state " + std::string(name) + " is " + describe(other) +
                    " in program " + std::string(found->second.program) + ", and " +
                    describe(known) + " in program " + std::string(turns_[i].name));
      }
    }
  }

  void keep_homes_apart() const {
    std::vector<std::pair<std::string_view, Known>> by_place;
    for (const auto& [name, home] : homes_) by_place.emplace_back(name, home.known);
    std::ranges::sort(by_place, {}, [](const auto& entry) {
      return std::pair(entry.second.rest.tier, entry.second.offset);
    });
    for (size_t i = 1; i < by_place.size(); ++i) {
      const auto& [below, a] = by_place[i - 1];
      const auto& [above, b] = by_place[i];
      if (a.rest.tier != b.rest.tier || a.offset + a.bytes <= b.offset) continue;
      throw Error("handover: state " + std::string(above) + " overlaps " + std::string(below));
    }
  }

  // Goes back from turn `i` to the one that left `name` behind.
  void find_giver(size_t i, std::string_view name, const Known& needed) const {
    for (size_t back = 1; back <= turns_.size(); ++back) {
      const size_t j = (i + turns_.size() - back) % turns_.size();
      const auto found = sources_[j].find(name);
      if (found != sources_[j].end() && found->second.rest.at_end) return;
      const bool is_out_of_reach =
          found == sources_[j].end() &&
          needed.offset + needed.bytes <= turns_[j].problem->state_bytes_in(needed.rest.tier);
      if (is_out_of_reach) continue;
      throw Error("handover: program " + std::string(turns_[i].name) + " needs state " +
                  std::string(name) + ", whose bytes program " + std::string(turns_[j].name) +
                  " before it uses for something else");
    }
    ensure(false, "a program that needs state does not know it");
  }

  std::span<const ProgramInTurn> turns_;
  std::vector<Sources> sources_;  // Per turn.
  std::map<std::string_view, Home> homes_;
};

}  // namespace

void check_handover(std::span<const ProgramInTurn> turns) {
  Handover(turns).run();
}

}  // namespace olm2
