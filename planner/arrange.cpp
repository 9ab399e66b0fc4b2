#include "planner/arrange.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "planner/in_place.h"
#include "planner/milp_slots.h"
#include "planner/run_seconds.h"
#include "planner/sending.h"

namespace olm2 {
namespace {

constexpr int64_t kSmallestChunk = int64_t{1} << 20;
constexpr double kLatencies = 20;  // A chunk takes at least as many times what its copy costs.
constexpr int64_t kFinest = 32;    // A chunk is at least this share of the live bytes.
constexpr int64_t kMostChunks = 8;

// A stay of one value on the device.  Positions count the nodes of Decisions::order; -1 is before
// the step, order.size() after it.
struct Life {
  ValueId value;
  int64_t bytes = 0;  // Padded.
  int first = -1;     // Made here.
  int last = -1;      // Read for the last time.
  int leave = -1;     // Last use up to the turn.
  int back = -1;      // First use after the turn; -1: none.
  int64_t away = 0;   // Bytes in the host tier between leave and back.
};

struct Story {
  const Problem& problem;
  const Decisions& decisions;
  int end = 0;   // order.size().
  int turn = 0;  // Position of the last forward node.
  std::vector<Life> lives = {};
  std::vector<std::vector<int>> made = {};   // Per position: lives that begin.
  std::vector<std::vector<int>> ended = {};  // Per position, and one more: lives that end.
  std::vector<int64_t> bytes = {};           // Per position: what must be on the device.
};

size_t at(ValueId value) {
  return static_cast<size_t>(value.index);
}
size_t at(int position) {
  return static_cast<size_t>(position);
}

const Node& node_at(const Story& story, int position) {
  return story.problem.graph->node(story.decisions.order[at(position)]);
}

void read(Story& story, int life_index, int position) {
  Life& life = story.lives[at(life_index)];
  life.last = position;
  if (position <= story.turn) {
    life.leave = position;
  } else if (life.back < 0) {
    life.back = position;
  }
}

int begin_life(Story& story, ValueId value, int position) {
  story.lives.push_back({.value = value,
                         .bytes = story.problem.padded_bytes(value),
                         .first = position,
                         .last = position,
                         .leave = position});
  return static_cast<int>(story.lives.size()) - 1;
}

void find_lives(Story& story) {
  const Graph& graph = *story.problem.graph;
  std::vector<int> current(graph.values().size(), -1);
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    const ValueId id{static_cast<int32_t>(v)};
    if (!value.producer.valid() && !story.problem.lives_at_home(id)) {
      current[v] = begin_life(story, id, -1);
    }
  }
  for (int e = 0; e < story.end; ++e) {
    const Node& node = node_at(story, e);
    for (const ValueId input : node.inputs) {
      if (story.problem.lives_at_home(input)) continue;
      ensure(current[at(input)] >= 0, "an order reads a value before it is made");
      read(story, current[at(input)], e);
    }
    for (const ValueId output : node.outputs) {
      if (story.problem.lives_at_home(output)) continue;
      current[at(output)] = begin_life(story, output, e);
      story.made[at(e)].push_back(current[at(output)]);
    }
  }
  for (const ValueId result : story.problem.results) {
    if (!story.problem.lives_at_home(result)) read(story, current[at(result)], story.end);
  }
}

void decide_absences(Story& story) {
  for (size_t k = 0; k < story.lives.size(); ++k) {
    Life& life = story.lives[k];
    const int64_t swapped = story.decisions.swapped[at(life.value)];
    if (swapped > 0 && life.first <= story.turn && life.back > story.turn) {
      const int64_t aligned = padded(swapped, story.problem.alignment);
      life.away = std::min(aligned, life.bytes);
    }
    if (life.last >= 0) story.ended[at(life.last)].push_back(static_cast<int>(k));
  }
}

// Bytes that outputs of the node at `position` do not need because they lie on inputs that die.
int64_t overwritten_bytes(const Story& story, int position) {
  const Node& node = node_at(story, position);
  const auto dies_whole = [&](ValueId input) {
    return std::ranges::any_of(story.ended[at(position)], [&](int k) {
      const Life& life = story.lives[at(k)];
      const bool was_whole = life.away == 0 || life.away == life.bytes;
      return life.value == input && life.first < position && was_whole;
    });
  };
  int64_t saved = 0;
  for (const InPlace& pair : choose_in_place(story.problem, node, dies_whole)) {
    saved += story.problem.padded_bytes(node.outputs[at(pair.output)]);
  }
  return saved;
}

void count_bytes(Story& story) {
  std::vector<int64_t> change(at(story.end) + 2, 0);
  const auto add = [&](int from, int to, int64_t bytes) {  // Positions [from, to].
    change[at(std::max(from, 0))] += bytes;
    change[at(std::min(to, story.end)) + 1] -= bytes;
  };
  for (const Life& life : story.lives) {
    if (life.last < 0) {
      add(0, 0, life.bytes);  // An input that nobody reads; it is there when the step begins.
      continue;
    }
    add(life.first, life.last, life.bytes);
    if (life.away > 0) add(life.leave + 1, life.back - 1, -life.away);
  }
  int64_t live = story.problem.state_bytes;
  story.bytes.resize(at(story.end) + 1);
  for (int e = 0; e <= story.end; ++e) {
    live += change[at(e)];
    story.bytes[at(e)] = live;
    if (e == story.end) break;
    const NodeId node = story.decisions.order[at(e)];
    story.bytes[at(e)] +=
        padded(story.problem.workspace[static_cast<size_t>(node.index)], story.problem.alignment);
    story.bytes[at(e)] -= overwritten_bytes(story, e);
  }
}

Story tell(const Problem& problem, const Decisions& decisions) {
  const int end = static_cast<int>(decisions.order.size());
  Story story{.problem = problem, .decisions = decisions, .end = end};
  story.made.resize(at(end) + 1);
  story.ended.resize(at(end) + 1);
  const int32_t turn_node = turn_of(*problem.graph);
  const auto turn = std::ranges::find(decisions.order, NodeId{turn_node});
  story.turn = static_cast<int>(turn - decisions.order.begin());
  find_lives(story);
  decide_absences(story);
  count_bytes(story);
  return story;
}

BytesPerTier least_of(const Story& story) {
  BytesPerTier least{};
  least[index_of(Tier::device)] = *std::ranges::max_element(story.bytes);
  for (const Life& life : story.lives) least[index_of(Tier::host)] += life.away;
  return least;
}

// --- copies -------------------------------------------------------------------------------------

// Part of an absent value, sent and brought back by itself.
struct Chunk {
  ValueId value;
  Range range;
  int64_t bytes = 0;  // Padded.
  int made = 0;       // Goes out after this position,
  int leave = 0;      // and is not read any more after this one, up to the turn.
  int back = 0;       // Must be there at this position.
  int issue = 0;      // The copy in is listed before this position.
};

// Large enough that the fixed cost of a copy is lost in it, and that giving up less at once would
// not matter beside all that is on the device.
int64_t smallest_chunk(const Story& story) {
  double bytes = static_cast<double>(kSmallestChunk);
  for (const LinkProfile& link : {story.problem.device_to_host, story.problem.host_to_device}) {
    bytes = std::max(bytes, kLatencies * link.latency_s * link.bytes_per_s);
  }
  const int64_t live = *std::ranges::max_element(story.bytes) - story.problem.state_bytes;
  return std::max(static_cast<int64_t>(bytes), live / kFinest);
}

std::vector<Chunk> chunks_of(const Story& story) {
  std::vector<Chunk> chunks;
  const int64_t smallest = smallest_chunk(story);
  for (const Life& life : story.lives) {
    if (life.away == 0) continue;
    const int64_t whole = story.problem.graph->type(life.value).bytes();
    const int64_t count = std::clamp(life.away / smallest, int64_t{1}, kMostChunks);
    const int64_t size = padded((life.away + count - 1) / count, story.problem.alignment);
    for (int64_t begin = 0; begin < life.away; begin += size) {
      const int64_t end = std::min(begin + size, life.away);
      chunks.push_back({.value = life.value,
                        .range = {begin, std::min(end, whole)},
                        .bytes = end - begin,
                        .made = life.first,
                        .leave = life.leave,
                        .back = life.back});
    }
  }
  return chunks;
}

// Seconds of computing that pass while a copy runs alone beside it.
double copy_seconds(const LinkProfile& link, int64_t bytes) {
  const double alone = static_cast<double>(bytes) / link.bytes_per_s + link.latency_s;
  return alone / std::max(1.0, link.compute_slowdown);
}

Step copy_step(const Chunk& chunk, Tier from, Tier to) {
  return {.kind = Step::Kind::copy,
          .node = {},
          .value = chunk.value,
          .range = chunk.range,
          .from = from,
          .to = to};
}
Step drop_step(ValueId value, Range range, Tier from) {
  return {.kind = Step::Kind::drop,
          .node = {},
          .value = value,
          .range = range,
          .from = from,
          .to = Tier::device};
}

// Steps around each position of the order.
struct Listing {
  std::vector<std::vector<Step>> before;
  std::vector<std::vector<Step>> after;
};

// Lists the copies out and where their bytes are given up, and returns when each position starts,
// in seconds.
std::vector<double> send(const Story& story, const std::vector<Chunk>& chunks, Listing& listing) {
  SendingRoom room{.seconds = {},
                   .bytes = story.bytes,
                   .budget = story.problem.budget[index_of(Tier::device)],
                   .turn = story.turn};
  RunSeconds runs(story.problem);
  for (const NodeId node : story.decisions.order) room.seconds.push_back(runs.next(node));
  std::vector<Send> sends;
  for (const Chunk& chunk : chunks) {
    sends.push_back({.made = chunk.made,
                     .leave = chunk.leave,
                     .bytes = chunk.bytes,
                     .copy_s = copy_seconds(story.problem.device_to_host, chunk.bytes)});
  }
  const std::vector<double> start = send_out(room, sends);
  std::vector<size_t> by_start(chunks.size());
  std::iota(by_start.begin(), by_start.end(), size_t{0});
  std::ranges::stable_sort(by_start, {}, [&](size_t k) { return sends[k].start_s; });
  for (const size_t k : by_start) {
    listing.before[at(sends[k].listed)].push_back(copy_step(chunks[k], Tier::device, Tier::host));
  }
  for (const size_t k : by_start) {
    listing.before[at(sends[k].given_up)].push_back(
        drop_step(chunks[k].value, chunks[k].range, Tier::device));
  }
  return start;
}

// Chooses Chunk::issue for copies in, ordered by their readers: just in time.
void issue_just_in_time(const Story& story, double margin, const std::vector<double>& start,
                        std::vector<Chunk>& chunks) {
  double next_start = start.back();
  for (size_t k = chunks.size(); k-- > 0;) {
    Chunk& chunk = chunks[k];
    const double done = std::min(start[at(chunk.back)], next_start);
    next_start = done - margin * copy_seconds(story.problem.host_to_device, chunk.bytes);
    const auto later = std::upper_bound(start.begin(), start.end(), next_start);
    const int position = static_cast<int>(later - start.begin()) - 1;
    chunk.issue = std::clamp(position, story.turn + 1, chunk.back);
  }
}

// Moves copies in to where their bytes fit: later where they must.
void fit_copies_in(const Story& story, std::vector<Chunk>& chunks) {
  const int64_t budget = story.problem.budget[index_of(Tier::device)];
  std::vector<int64_t> bytes = story.bytes;
  int previous = story.turn + 1;
  for (Chunk& chunk : chunks) {
    chunk.issue = std::max(chunk.issue, previous);
    for (int e = chunk.back - 1; e >= chunk.issue; --e) {
      if (bytes[at(e)] + chunk.bytes > budget) chunk.issue = e + 1;
    }
    for (int e = chunk.issue; e < chunk.back; ++e) bytes[at(e)] += chunk.bytes;
    previous = chunk.issue;
  }
}

void bring_back(const Story& story, double margin, const std::vector<double>& start,
                std::vector<Chunk>& chunks, Listing& listing) {
  std::ranges::stable_sort(chunks, {}, &Chunk::back);
  issue_just_in_time(story, margin, start, chunks);
  fit_copies_in(story, chunks);
  for (const Chunk& chunk : chunks) {
    auto& steps = listing.before[at(chunk.issue)];
    steps.push_back(copy_step(chunk, Tier::host, Tier::device));
    steps.push_back(drop_step(chunk.value, chunk.range, Tier::host));
  }
}

void drop_dead(const Story& story, Listing& listing) {
  for (int e = 0; e < story.end; ++e) {
    for (const int k : story.ended[at(e)]) {
      const ValueId value = story.lives[at(k)].value;
      const Range whole{0, story.problem.graph->type(value).bytes()};
      listing.after[at(e)].push_back(drop_step(value, whole, Tier::device));
    }
  }
}

Plan write_down(const Story& story, const Listing& listing) {
  Plan plan;
  for (const Life& life : story.lives) {
    if (life.last >= 0) continue;
    const Range whole{0, story.problem.graph->type(life.value).bytes()};
    plan.steps.push_back(drop_step(life.value, whole, Tier::device));
  }
  for (int e = 0; e < story.end; ++e) {
    const auto& before = listing.before[at(e)];
    const auto& after = listing.after[at(e)];
    plan.steps.insert(plan.steps.end(), before.begin(), before.end());
    plan.steps.push_back({.kind = Step::Kind::compute,
                          .node = story.decisions.order[at(e)],
                          .value = {},
                          .range = {},
                          .from = Tier::device,
                          .to = Tier::device});
    plan.steps.insert(plan.steps.end(), after.begin(), after.end());
  }
  return plan;
}

}  // namespace

Decisions keep_everything(const Graph& graph) {
  Decisions decisions;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    decisions.order.push_back({static_cast<int32_t>(n)});
  }
  decisions.swapped.resize(graph.values().size(), 0);
  return decisions;
}

BytesPerTier least_bytes(const Problem& problem, const Decisions& decisions) {
  return least_of(tell(problem, decisions));
}

Arrangement arrange(const Problem& problem, const Decisions& decisions, double margin) {
  const Story story = tell(problem, decisions);
  Arrangement arrangement;
  arrangement.least = least_of(story);
  if (!arrangement.fits(problem.budget)) return arrangement;
  Listing listing;
  listing.before.resize(at(story.end) + 1);
  listing.after.resize(at(story.end) + 1);
  drop_dead(story, listing);
  std::vector<Chunk> chunks = chunks_of(story);
  const std::vector<double> start = send(story, chunks, listing);
  bring_back(story, margin, start, chunks, listing);
  arrangement.plan = write_down(story, listing);
  return arrangement;
}

}  // namespace olm2
