#include "planner/plan_hash.h"

#include <charconv>

namespace olm2 {
namespace {

std::string to_text(double number) {  // The shortest text that reads back as the same number.
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

std::string graph_text(const NamedProblem& program) {
  const Problem& problem = *program.problem;
  std::string text = std::string(program.name) + "\n" + to_string(*problem.graph) + "results";
  for (const ValueId result : problem.results) text += " " + problem.graph->value(result).name;
  text += "\nstate";
  for (const Tier tier : kTiers) text += " " + std::to_string(problem.state_bytes_in(tier));
  for (const int64_t offset : problem.state_offset) text += " " + std::to_string(offset);
  for (const StateRest& rest : problem.rest) {
    text += " " + std::string(to_string(rest.tier)) + (rest.at_start ? "+" : "-") +
            (rest.at_end ? "+" : "-");
  }
  return text + "\n";
}

std::string profile_text(const Problem& problem) {
  std::string text;
  for (const double seconds : problem.seconds) text += to_text(seconds) + " ";
  text += "\n";
  for (const double seconds : problem.again_seconds) text += to_text(seconds) + " ";
  for (const int64_t bytes : problem.workspace) text += std::to_string(bytes) + " ";
  for (const LinkProfile& link : {problem.device_to_host, problem.host_to_device}) {
    text += to_text(link.bytes_per_s) + " " + to_text(link.latency_s) + " " +
            to_text(link.compute_slowdown) + "\n";
  }
  return text;
}

std::string budget_text(const Problem& problem) {
  std::string text = std::to_string(problem.alignment);
  for (const int64_t bytes : problem.budget) text += " " + std::to_string(bytes);
  return text + "\n";
}

std::string options_text(const PlanOptions& options) {
  return options.policy + " " + to_text(options.gap) + " " + to_text(options.time_limit_s) + " " +
         options.space + " " + (options.partial_swap ? "partial" : "whole") + " " +
         std::to_string(options.place_effort);
}

}  // namespace

std::string hash_text(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3U;
  }
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) {
    digits += "0123456789abcdef"[(hash >> static_cast<unsigned>(shift)) & 15U];
  }
  return digits;
}

std::array<std::pair<std::string_view, std::string>, 4> PlanHashes::parts() const {
  return {{{"graph", graph}, {"profile", profile}, {"budgets", budgets}, {"options", options}}};
}

PlanHashes hash_inputs(const std::vector<NamedProblem>& programs, const PlanOptions& options) {
  std::string graphs;
  std::string profiles;
  std::string budgets;
  for (const NamedProblem& program : programs) {
    graphs += graph_text(program);
    profiles += profile_text(*program.problem);
    budgets += budget_text(*program.problem);
  }
  return {.graph = hash_text(graphs),
          .profile = hash_text(profiles),
          .budgets = hash_text(budgets),
          .options = hash_text(options_text(options))};
}

}  // namespace olm2
