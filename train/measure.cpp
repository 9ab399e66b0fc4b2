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

double seconds_of(Kernel& kernel, const Graph& graph, const Node& node, int64_t alignment) {
  std::vector<ValueId> operands = node.inputs;
  operands.insert(operands.end(), node.outputs.begin(), node.outputs.end());
  int64_t bytes = padded(kernel.workspace_bytes(), alignment);
  for (const ValueId id : operands) bytes += padded(graph.type(id).bytes(), alignment);
  const Arena arena(bytes);
  std::vector<Tensor> tensors;
  int64_t offset = padded(kernel.workspace_bytes(), alignment);
  for (const ValueId id : operands) {
    fill_operand(arena.at(offset), graph.type(id));
    tensors.push_back({arena.at(offset), &graph.type(id)});
    offset += padded(graph.type(id).bytes(), alignment);
  }
  const std::span<const Tensor> all(tensors);
  const auto run_once = [&] {
    const auto start = std::chrono::steady_clock::now();
    kernel.run(all.first(node.inputs.size()), all.subspan(node.inputs.size()), arena.at(0));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  run_once();
  std::vector<double> seconds;
  double total = 0;
  while (seconds.size() < 3 || (total < 0.02 && seconds.size() < 50)) {
    seconds.push_back(run_once());
    total += seconds.back();
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

}  // namespace

void measure_kernels(std::span<const Graph* const> graphs, Backend& backend, Profile& profile,
                     const std::function<void(size_t, size_t)>& progress) {
  const auto tasks = missing_kernels(graphs, profile);
  size_t done = 0;
  for (const auto& [key, task] : tasks) {
    const std::unique_ptr<Kernel> kernel = backend.prepare(*task.graph, *task.node);
    profile.kernels[key] = {seconds_of(*kernel, *task.graph, *task.node, backend.alignment()),
                            kernel->workspace_bytes()};
    if (progress) progress(++done, tasks.size());
  }
}

void estimate_kernels(std::span<const Graph* const> graphs, Backend& backend, Profile& profile) {
  for (const auto& [key, task] : missing_kernels(graphs, profile)) {
    const std::unique_ptr<Kernel> kernel = backend.prepare(*task.graph, *task.node);
    profile.kernels[key] = {estimate_seconds(*task.graph, *task.node, Roofline{}),
                            kernel->workspace_bytes()};
  }
}

void apply_profile(const Profile& profile, Problem& problem) {
  const Graph& graph = *problem.graph;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto found = profile.kernels.find(signature(graph, graph.nodes()[i]));
    if (found == profile.kernels.end()) {
      throw Error("profile (" + profile.source + "): it has no kernel '" +
                  signature(graph, graph.nodes()[i]) + "'; measure this configuration anew");
    }
    problem.seconds[i] = found->second.seconds;
    problem.workspace[i] = found->second.workspace_bytes;
  }
  problem.device_to_host = profile.device_to_host;
  problem.host_to_device = profile.host_to_device;
}

}  // namespace olm2
