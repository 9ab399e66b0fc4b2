#include "planner/plan_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace olm2 {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 2;

// Milliseconds to the nanosecond: reading and writing again gives the same digits.
double as_ms(double seconds) {
  return std::round(seconds * 1e9) / 1e6;
}
double rounded(double ratio) {
  return std::round(ratio * 1e9) / 1e9;
}

Json lines_of(std::string_view text) {
  Json lines = Json::array();
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string joined(const Json& lines) {
  std::string text;
  for (const Json& line : lines) text += line.get<std::string>() + "\n";
  return text;
}

Json peak_json(const BytesPerTier& peak) {
  Json json;
  for (const Tier tier : kTiers) json[std::string(to_string(tier))] = peak[index_of(tier)];
  return json;
}

Json certificate_json(const Certificate& certificate) {
  return {{"policy", certificate.policy},
          {"status", to_string(certificate.status)},
          {"objective_ms", as_ms(certificate.objective_s)},
          {"bound_ms", as_ms(certificate.bound_s)},
          {"gap", rounded(certificate.gap)},
          {"baseline_ms", as_ms(certificate.baseline_s)},
          {"bound_space", certificate.bound_space},
          {"space", certificate.space},
          {"solver", certificate.solver},
          {"ended_early", certificate.ended_early},
          {"peak_bytes", peak_json(certificate.peak)},
          {"recomputed_nodes", certificate.recomputed},
          {"copied_bytes", certificate.copied_bytes},
          {"placement_loss_bytes", certificate.placement_loss_bytes}};
}

Status parse_status(const std::string& text) {
  for (const Status status :
       {Status::optimal, Status::feasible, Status::infeasible, Status::unknown}) {
    if (to_string(status) == text) return status;
  }
  throw Error("status: got '" + text + "'");
}

Certificate parse_certificate(const Json& json) {
  Certificate certificate;
  certificate.policy = json.at("policy");
  certificate.status = parse_status(json.at("status"));
  certificate.objective_s = json.at("objective_ms").get<double>() / 1e3;
  certificate.bound_s = json.at("bound_ms").get<double>() / 1e3;
  certificate.gap = json.at("gap");
  certificate.baseline_s = json.at("baseline_ms").get<double>() / 1e3;
  certificate.bound_space = json.at("bound_space");
  certificate.space = json.at("space");
  certificate.solver = json.at("solver");
  certificate.ended_early = json.at("ended_early");
  for (const Tier tier : kTiers) {
    certificate.peak[index_of(tier)] = json.at("peak_bytes").at(std::string(to_string(tier)));
  }
  certificate.recomputed = json.at("recomputed_nodes");
  certificate.copied_bytes = json.at("copied_bytes");
  certificate.placement_loss_bytes = json.at("placement_loss_bytes");
  return certificate;
}

// The summary of a run: its longest program, and the most bytes of any.
Certificate overall(const std::vector<ProgramPlan>& programs) {
  Certificate result;
  BytesPerTier peak{};
  Status weakest = Status::optimal;
  double widest_gap = 0;
  std::string ended_early;
  for (const ProgramPlan& program : programs) {
    const Certificate& certificate = program.planned->certificate;
    weakest = std::max(weakest, certificate.status);
    widest_gap = std::max(widest_gap, certificate.gap);
    if (ended_early.empty()) ended_early = certificate.ended_early;
    if (certificate.objective_s > result.objective_s || result.policy.empty()) {
      result = certificate;
    }
    for (size_t tier = 0; tier < kTierCount; ++tier) {
      peak[tier] = std::max(peak[tier], certificate.peak[tier]);
    }
  }
  result.peak = peak;
  result.status = weakest;
  result.gap = widest_gap;
  result.ended_early = ended_early;
  return result;
}

std::string digest_of(Json json) {
  json.erase("run");
  json.erase("digest");
  return hash_text(json.dump());
}

// Everything but `digest` and `run`.
Json content_json(const std::vector<ProgramPlan>& programs, const PlanOptions& options) {
  Json json = {{"version", kVersion}};
  std::vector<NamedProblem> named;
  for (const ProgramPlan& program : programs) named.push_back({program.name, program.problem});
  for (const auto& [part, hash] : hash_inputs(named, options).parts()) {
    json["hashes"][std::string(part)] = hash;
  }
  json.update(certificate_json(overall(programs)));
  const PlannedState state = planned_state_of(programs);
  json["state"] = state.planned ? "planned" : "resident";
  json["state_on_host"] = state.on_host;
  json["options"] = {{"gap", options.gap},
                     {"time_limit_s", options.time_limit_s},
                     {"space", options.space},
                     {"partial_swap", options.partial_swap},
                     {"place_effort", options.place_effort}};
  json["programs"] = Json::array();
  for (const ProgramPlan& program : programs) {
    ensure(program.planned->schedule.has_value(), "a plan file of a plan that was not found");
    const Graph& graph = *program.problem->graph;
    Json entry = {{"name", program.name}};
    entry.update(certificate_json(program.planned->certificate));
    entry["plan"] = lines_of(to_string(graph, program.planned->plan));
    entry["schedule"] = lines_of(to_string(graph, program.planned->schedule->schedule()));
    json["programs"].push_back(std::move(entry));
  }
  return json;
}

void check_hashes(const Json& json, const std::vector<NamedProblem>& programs,
                  const PlanOptions& options) {
  for (const auto& [part, hash] : hash_inputs(programs, options).parts()) {
    const std::string found = json.at("hashes").at(std::string(part));
    if (found == hash) continue;
    throw Error("was made for other " + std::string(part) + " (hash " + found + ", this run has " +
                hash + "); plan again, or run with the configuration it was made for");
  }
}

Planned parse_program(const Json& json, const NamedProblem& program) {
  const std::string name = json.at("name");
  if (name != program.name) {
    throw Error("has program '" + name + "' where '" + std::string(program.name) + "' is expected");
  }
  const Graph& graph = *program.problem->graph;
  Planned planned;
  planned.certificate = parse_certificate(json);
  planned.plan = parse_plan(graph, joined(json.at("plan")));
  planned.schedule = check(*program.problem, parse_schedule(graph, joined(json.at("schedule"))));
  return planned;
}

std::vector<Planned> parse_content(const Json& json, const std::vector<NamedProblem>& programs,
                                   const PlanOptions& options) {
  const Json& version = json.at("version");
  if (version != kVersion) {
    throw Error("has version " + version.dump() + ", this program reads version " +
                std::to_string(kVersion) + "; plan again");
  }
  if (json.at("digest") != digest_of(json)) {
    throw Error("was changed after it was written (its digest does not fit); plan again");
  }
  check_hashes(json, programs, options);
  const Json& entries = json.at("programs");
  if (entries.size() != programs.size()) {
    throw Error("has " + std::to_string(entries.size()) + " programs, the run has " +
                std::to_string(programs.size()));
  }
  std::vector<Planned> plans;
  for (size_t i = 0; i < programs.size(); ++i) {
    plans.push_back(parse_program(entries[i], programs[i]));
  }
  return plans;
}

}  // namespace

std::string print_plan_file(const std::vector<ProgramPlan>& programs, const PlanOptions& options,
                            std::string_view date) {
  Json json = content_json(programs, options);
  json["digest"] = digest_of(json);
  double solve_seconds = 0;
  for (const ProgramPlan& program : programs) {
    solve_seconds += program.planned->certificate.solve_seconds;
  }
  json["run"] = {{"date", date}, {"solve_seconds", solve_seconds}};
  return json.dump(1) + "\n";
}

std::vector<Planned> parse_plan_file(std::string_view text, std::string_view origin,
                                     const std::vector<NamedProblem>& programs,
                                     const PlanOptions& options) {
  const std::string who(origin);
  try {
    return parse_content(Json::parse(text), programs, options);
  } catch (const Json::parse_error& error) {
    throw Error(who + " is no JSON, or cut short, at byte " + std::to_string(error.byte) +
                "; plan again");
  } catch (const Json::exception& error) {
    throw Error(who + " is no plan: " + error.what() + "; plan again");
  } catch (const Error& error) {
    throw Error(who + " " + error.what());
  }
}

PlannedState planned_state_of(const std::vector<ProgramPlan>& programs) {
  PlannedState state;
  std::set<std::string> on_host;
  for (const ProgramPlan& program : programs) {
    const Problem& problem = *program.problem;
    state.planned = state.planned || !problem.rest.empty();
    for (size_t v = 0; v < problem.graph->values().size(); ++v) {
      const ValueId value{static_cast<int32_t>(v)};
      const bool is_source = problem.graph->value(value).home == value;
      if (is_source && problem.rest_of(value).tier == Tier::host) {
        on_host.insert(problem.graph->value(value).name);
      }
    }
  }
  state.on_host.assign(on_host.begin(), on_host.end());
  return state;
}

PlannedState read_planned_state(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("state", Json()) != "planned") return {};
  PlannedState state{.planned = true, .on_host = {}};
  const Json names = json.value("state_on_host", Json::array());
  for (const Json& name : names) {
    if (name.is_string()) state.on_host.push_back(name);
  }
  return state;
}

void write_plan_file(const std::filesystem::path& path, const std::vector<ProgramPlan>& programs,
                     const PlanOptions& options, std::string_view date) {
  const std::string text = print_plan_file(programs, options, date);
  std::filesystem::path unfinished = path;
  unfinished += ".unfinished";
  std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  std::error_code failure;
  if (file) std::filesystem::rename(unfinished, path, failure);
  if (file && !failure) return;
  const std::string why = failure ? failure.message() : std::strerror(errno);
  std::filesystem::remove(unfinished, failure);
  throw Error("cannot write the plan to " + path.string() + " (" + std::to_string(text.size()) +
              " bytes): " + why);
}

std::vector<Planned> read_plan_file(const std::filesystem::path& path,
                                    const std::vector<NamedProblem>& programs,
                                    const PlanOptions& options) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("cannot read the plan " + path.string() + ": " + std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return parse_plan_file(text, path.string(), programs, options);
}

}  // namespace olm2
