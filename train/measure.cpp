#include "train/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>

#include "core/error.h"
#include "memory/arena.h"
#include "planner/planner.h"

namespace olm2 {
namespace {

struct Task {
  const Graph* graph = nullptr;
  const Node* node = nullptr;
};

// One node of every kernel that the profile lacks, in the order of their signatures.
std::map<std::string, Task> missing_kernels(std::span<const Graph* const> graphs,
                                            const Profile& profile) {
  std::map<std::string, Task> tasks;
  for (const Graph* graph : graphs) {
    for (const Node& node : graph->nodes()) {
      std::string key = signature(*graph, node);
      if (!profile.kernels.contains(key)) tasks.emplace(std::move(key), Task{graph, &node});
    }
  }
  return tasks;
}

// Ordinary numbers: neither zeros nor denormals, which some units compute faster or slower.
void fill_operand(std::byte* bytes, const ValueType& type) {
  const int64_t count = element_count(type.shape);
  if (type.dtype != DType::f32) {
    std::memset(bytes, 0, static_cast<size_t>(type.bytes()));
    return;
  }
  auto* numbers = reinterpret_cast<float*>(bytes);
  for (int64_t i = 0; i < count; ++i) {
    numbers[i] = 0.01F + 0.001F * static_cast<float>((i * 2654435761U) % 64);
  }
}

// Other bytes, enough to push everything else out of the caches that a core has for itself and out
// of its share of those it has not.
class CacheSweeper {
 public:
  void sweep() { std::memset(bytes_.data(), ++round_, bytes_.size()); }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(size_t{64} << 20U);
  uint8_t round_ = 0;
};

// The median of runs that follow each other, or, with a sweeper, of runs from memory.
double seconds_of(const KernelRunner& runner, CacheSweeper* sweeper) {
  const size_t most = sweeper ? 5 : 50;
  if (!sweeper) runner.run();
  std::vector<double> seconds;
  double total = 0;
  while (seconds.size() < 3 || (total < 0.02 && seconds.size() < most)) {
    if (sweeper) sweeper->sweep();
    seconds.push_back(runner.timed_run());
    total += seconds.back();
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

}  // namespace

KernelRunner::KernelRunner(const Graph& graph, const Node& node, Backend& backend)
    : kernel_(backend.prepare(graph, node)), inputs_(node.inputs.size()) {
  const int64_t alignment = backend.alignment();
  std::vector<ValueId> operands = node.inputs;
  operands.insert(operands.end(), node.outputs.begin(), node.outputs.end());
  int64_t bytes = padded(kernel_->workspace_bytes(), alignment);
  for (const ValueId id : operands) bytes += padded(graph.type(id).bytes(), alignment);
  arena_ = Arena(bytes);
  int64_t offset = padded(kernel_->workspace_bytes(), alignment);
  for (const ValueId id : operands) {
    fill_operand(arena_.at(offset), graph.type(id));
    tensors_.push_back({arena_.at(offset), &graph.type(id)});
    offset += padded(graph.type(id).bytes(), alignment);
  }
}

void KernelRunner::run() const {
  const std::span<const Tensor> all(tensors_);
  kernel_->run(all.first(inputs_), all.subspan(inputs_), arena_.at(0));
}

double KernelRunner::timed_run() const {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

KernelRunner most_expensive_kernel(std::span<const Graph* const> graphs, Backend& backend,
                                   const Profile& profile) {
  const Graph* graph = graphs.front();
  const Node* node = &graph->nodes().front();
  double longest = -1;
  for (const Graph* candidate : graphs) {
    for (const Node& other : candidate->nodes()) {
      const double seconds = profile.kernels.at(signature(*candidate, other)).seconds;
      if (seconds <= longest) continue;
      longest = seconds;
      graph = candidate;
      node = &other;
    }
  }
  return {*graph, *node, backend};
}

void measure_kernels(std::span<const Graph* const> graphs, Backend& backend, Profile& profile,
                     const std::function<void(size_t, size_t)>& progress) {
  const auto tasks = missing_kernels(graphs, profile);
  CacheSweeper sweeper;
  size_t done = 0;
  for (const auto& [key, task] : tasks) {
    const KernelRunner runner(*task.graph, *task.node, backend);
    const double seconds = seconds_of(runner, nullptr);
    profile.kernels[key] = {.seconds = seconds,
                            .workspace_bytes = runner.workspace_bytes(),
                            .cold_seconds = std::max(seconds, seconds_of(runner, &sweeper))};
    if (progress) progress(++done, tasks.size());
  }
}

namespace {

// The least that any does for types the backend does not compute with: such a graph is planned for
// another one.
int64_t workspace_of(const Graph& graph, const Node& node, Backend& backend) {
  const auto computes = [&](ValueId value) { return backend.computes(graph.type(value).dtype); };
  const bool all =
      std::ranges::all_of(node.inputs, computes) && std::ranges::all_of(node.outputs, computes);
  return all ? backend.prepare(graph, node)->workspace_bytes() : cost_of(graph, node).workspace;
}

}  // namespace

void estimate_kernels(std::span<const Graph* const> graphs, Backend& backend, Profile& profile) {
  for (const auto& [key, task] : missing_kernels(graphs, profile)) {
    const double seconds = estimate_seconds(*task.graph, *task.node, Roofline{});
    profile.kernels[key] = {.seconds = seconds,
                            .workspace_bytes = workspace_of(*task.graph, *task.node, backend),
                            .cold_seconds = seconds};
  }
}

void apply_profile(const Profile& profile, Problem& problem) {
  const Graph& graph = *problem.graph;
  problem.again_seconds.resize(graph.nodes().size());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto found = profile.kernels.find(signature(graph, graph.nodes()[i]));
    if (found == profile.kernels.end() && profile.roofline) {
      problem.seconds[i] = estimate_seconds(graph, graph.nodes()[i], *profile.roofline);
      problem.again_seconds[i] = problem.seconds[i];
      problem.workspace[i] = cost_of(graph, graph.nodes()[i]).workspace;
      continue;
    }
    if (found == profile.kernels.end()) {
      throw Error("profile (" + profile.source + "): it has no kernel '" +
                  signature(graph, graph.nodes()[i]) + "'; measure this configuration anew");
    }
    problem.seconds[i] = found->second.seconds;
    problem.again_seconds[i] = std::max(found->second.seconds, found->second.cold_seconds);
    problem.workspace[i] = found->second.workspace_bytes;
  }
  problem.device_to_host = profile.device_to_host;
  problem.host_to_device = profile.host_to_device;
}

}  // namespace olm2
