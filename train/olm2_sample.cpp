// olm2-sample: text from a trained model.
#include <algorithm>
#include <iostream>

#include <CLI/CLI.hpp>

#include "core/program.h"
#include "core/version.h"
#include "data/tokenizer.h"
#include "kernels/cpu/cpu_backend.h"
#include "planner/solver_process.h"
#include "train/checkpoint.h"
#include "train/measure.h"
#include "train/planning.h"
#include "train/run_state.h"
#include "train/sampler.h"

namespace olm2 {
namespace {

struct Request {
  std::string path;
  std::string prompt;
  SampleOptions options;
  int threads = 0;
};

// A sampling program of one window, planned to keep everything.
RunPlan plan_sampling(const RunPrograms& programs, Backend& backend) {
  Profile profile;
  const std::vector<const Graph*> graphs = {&programs.programs.at(0).graph};
  estimate_kernels(graphs, backend, profile);
  std::vector<Problem> problems = problems_of(programs, profile, backend.alignment());
  const Budgets budgets = resolve_budgets({.bytes = 0, .percent = 100}, {}, problems);
  return plan_run(programs, std::move(problems), budgets, {.policy = "none"});
}

void sample(const Request& request) {
  const std::filesystem::path checkpoint = resolve_checkpoint(request.path);
  const CheckpointState state = load_state(checkpoint);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(state.tokenizer);
  std::vector<uint32_t> prompt = tokenizer->encode(request.prompt);
  if (prompt.empty()) prompt.push_back(tokenizer->info().separator);
  for (const uint32_t id : prompt) {
    if (id < static_cast<uint64_t>(state.model.vocab_size)) continue;
    throw Error("--prompt: token " + std::to_string(id) +
                " is outside of the model's vocabulary of " +
                std::to_string(state.model.vocab_size));
  }
  // No longer than what will be there to look at.
  const int64_t window = std::min(state.model.context_length,
                                  static_cast<int64_t>(prompt.size()) + request.options.tokens);
  CpuBackend backend({.threads = request.threads});
  const RunPrograms programs = sampling_programs(state.model, window, backend.alignment());
  Executor executor(executable(plan_sampling(programs, backend)), backend);
  load_parameters(checkpoint, parameter_targets(executor, programs));

  std::cout << request.prompt << std::flush;
  const int64_t vocab = std::min<int64_t>(state.model.vocab_size, tokenizer->info().vocab_size);
  generate(executor, 0, window, vocab, prompt, request.options, [&](uint32_t id) {
    const std::array<uint32_t, 1> ids = {id};
    std::cout << tokenizer->decode(ids) << std::flush;
  });
  std::cout << std::endl;
}

}  // namespace
}  // namespace olm2

int main(int argc, char** argv) {
  olm2::serve_solver(argc, argv);
  CLI::App app(
      "Prints text drawn from a trained model.\n"
      "Example: olm2-sample runs/gpt2 --prompt \"Once upon a time\" --tokens 100");
  olm2::Request request;
  app.add_option("run_or_checkpoint", request.path, "A run's output folder or one checkpoint")
      ->required();
  app.add_option("--prompt", request.prompt, "Text to continue; empty: a document's beginning");
  app.add_option("--tokens", request.options.tokens, "Tokens to draw")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--temperature", request.options.temperature, "0: always the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--top-k", request.options.top_k, "Only the k likeliest tokens; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", request.options.seed, "Of the random numbers")->capture_default_str();
  app.add_option("--threads", request.threads, "0: all")->check(CLI::NonNegativeNumber);
  app.set_version_flag("--version", olm2::version_text());
  CLI11_PARSE_OR_EXIT_2(app, argc, argv);
  return olm2::run_program("olm2-sample", [&] { olm2::sample(request); });
}
