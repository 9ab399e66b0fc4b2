#include "tests/runs/toy_run.h"

#include <csignal>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "data/shard_writer.h"
#include "data/token_shard.h"
#include "data/tokenizer.h"
#include "kernels/cpu/cpu_backend.h"
#include "train/measure.h"
#include "train/planning.h"
#include "train/safetensors.h"

namespace olm2 {
namespace {

constexpr const char* kConfig = R"(
[model]
type = "gpt2"
n_layer = 3
n_head = 2
n_embd = 32
vocab_size = 257
context_length = 16
dropout = 0.1
[data]
train = ["toy_train_*.bin"]
val = ["toy_val_*.bin"]
tokenizer = "bytes"
[train]
batch_size = 4
sequence_length = 16
grad_accumulation = 2
steps = 20
threads = 1
[optimizer]
lr = 1e-2
warmup_steps = 1
[planner]
profile = "estimate"
gap = 0.02
[output]
dir = "run"
)";

// Bytes that look like text: some letters are frequent, and what follows depends on what was.
std::vector<uint32_t> toy_tokens(int64_t count, uint32_t state) {
  std::vector<uint32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    const uint32_t noise = state >> 28U;
    ids.push_back(97 + (noise < 4 ? noise : (ids.empty() ? 0 : ids.back() * 7 + 3) % 26));
  }
  return ids;
}

void write_tokens(const std::filesystem::path& folder, const std::string& prefix, int64_t count,
                  uint32_t seed) {
  if (count == 0) {
    write_file(folder / (prefix + "_000000.bin"), shard_header_bytes(tokenizer_info("bytes"), 0));
    return;
  }
  ShardWriter writer(folder, prefix, tokenizer_info("bytes"), int64_t{1} << 30);
  writer.append(toy_tokens(count, seed));
  writer.finish();
  writer.commit();
}

void redirect(const std::filesystem::path& file, int descriptor) {
  const int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (opened < 0 || ::dup2(opened, descriptor) < 0) ::_exit(126);
}

int exit_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? -WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace

Started::Started(const std::string& program, const std::vector<std::string>& arguments,
                 const std::filesystem::path& scratch)
    : out_(scratch / "stdout.txt"), err_(scratch / "stderr.txt") {
  const std::string path = std::string(OLM2_BINARY_DIR) + "/bin/" + program;
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  process_ = ::fork();
  if (process_ != 0) return;
  redirect(out_, STDOUT_FILENO);
  redirect(err_, STDERR_FILENO);
  ::execv(path.c_str(), argv.data());
  ::_exit(127);
}

Started::~Started() {
  kill();
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

bool Started::is_running() {
  if (process_ > 0 && ::waitpid(process_, &status_, WNOHANG) == process_) process_ = -1;
  return process_ > 0;
}

void Started::kill() {
  if (process_ > 0) ::kill(process_, SIGKILL);
}

void Started::interrupt() {
  if (process_ > 0) ::kill(process_, SIGINT);
}

Ended Started::wait() {
  if (process_ > 0) ::waitpid(std::exchange(process_, -1), &status_, 0);
  return {.status = exit_status(status_), .out = read_file(out_), .err = read_file(err_)};
}

ToyRun::ToyRun(Sets sets, int64_t train_tokens, int64_t val_tokens) : sets_(std::move(sets)) {
  std::ofstream(config_file()) << kConfig;
  write_tokens(scratch_.path(), "toy_train", train_tokens, 1);
  write_tokens(scratch_.path(), "toy_val", val_tokens, 2);
  write_slow_link();
}

void ToyRun::write_slow_link() const {
  Config all = config({"output.eval_every=1", "output.sample_every=1"});
  all.planner.profile = "estimate";
  CpuBackend backend({.threads = static_cast<int>(all.train.threads)});
  Profile profile = profile_of(all, programs_of(all, backend.alignment()), backend, {});
  profile.device_to_host =
      profile.host_to_device = {.bytes_per_s = 5e8, .latency_s = 2e-6, .compute_slowdown = 1.1};
  write_file(scratch_ / "slow_link.json", to_json(profile));
}

Config ToyRun::config(const Sets& sets) const {
  Sets all = sets_;
  all.insert(all.end(), sets.begin(), sets.end());
  return load_config(config_file(), all);
}

TrainSummary ToyRun::train(const Sets& sets) const {
  return train(sets, TrainRequest());
}

TrainSummary ToyRun::train(const Sets& sets, const TrainRequest& wanted) const {
  TrainRequest request = wanted;
  request.config = config(sets);
  CpuBackend backend({.threads = static_cast<int>(request.config.train.threads)});
  return olm2::train(request, backend);
}

TrainSummary ToyRun::resume(const Sets& sets) const {
  TrainRequest request;
  request.resume = true;
  return train(sets, request);
}

std::string ToyRun::refusal(const Sets& sets) const {
  return refusal(sets, TrainRequest());
}

std::string ToyRun::refusal(const Sets& sets, const TrainRequest& request) const {
  try {
    train(sets, request);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> ToyRun::command_line(const std::vector<std::string>& options) const {
  std::vector<std::string> arguments = {config_file().string()};
  for (const std::string& set : sets_) arguments.insert(arguments.end(), {"--set", set});
  arguments.insert(arguments.end(), options.begin(), options.end());
  return arguments;
}

Started ToyRun::start(const std::vector<std::string>& options) const {
  return {"olm2-train", command_line(options), scratch_.path()};
}

std::vector<nlohmann::json> ToyRun::metrics() const {
  std::vector<nlohmann::json> lines;
  std::ifstream file(folder() / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<double> ToyRun::column(const std::string& key) const {
  std::vector<double> numbers;
  for (const nlohmann::json& line : metrics()) numbers.push_back(line.at(key).get<double>());
  return numbers;
}

std::filesystem::path ToyRun::checkpoint(int64_t step) const {
  const std::string digits = std::to_string(step);
  return folder() / "checkpoints" / ("step_" + std::string(6 - digits.size(), '0') + digits);
}

std::map<std::string, std::vector<float>> ToyRun::weights(int64_t step) const {
  std::map<std::string, std::vector<float>> weights;
  const SafetensorsFile file(checkpoint(step) / "model.safetensors");
  for (const StoredTensor& tensor : file.tensors()) {
    std::vector<float>& numbers = weights[tensor.name];
    numbers.resize(static_cast<size_t>(element_count(tensor.shape)));
    file.read(
        tensor.name,
        {tensor.name, {tensor.shape, DType::f32}, std::as_writable_bytes(std::span(numbers))});
  }
  return weights;
}

nlohmann::json ToyRun::plan() const {
  return nlohmann::json::parse(read_file(folder() / "plan.json"));
}

std::map<std::string, std::string> checkpoint_bytes(const std::filesystem::path& checkpoint) {
  std::map<std::string, std::string> bytes;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) {
    bytes[entry.path().filename().string()] = read_file(entry.path());
  }
  return bytes;
}

nlohmann::json without_times(nlohmann::json line) {
  for (const char* key : {"step_ms", "tokens_per_s", "stall_ms", "resident_bytes"}) {
    line.erase(key);
  }
  return line;
}

nlohmann::json without_memory(nlohmann::json line) {
  line = without_times(std::move(line));
  for (const char* kind : {"peak_", "planned_"}) {
    for (const Tier tier : kTiers) {
      line.erase(kind + std::string(to_string(tier)) + "_bytes");
    }
  }
  line.erase("policy");
  return line;
}

}  // namespace olm2
