// A training run of a toy as a user has it: token files, a configuration file and a folder of its
// own, trained in this process or by olm2-train.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/train/scratch_folder.h"
#include "train/files.h"
#include "train/trainer.h"

namespace olm2 {

// What a program left: its exit status (negative: the signal that ended it) and what it said.
struct Ended {
  int status = 0;
  std::string out;
  std::string err;
};

// A program of this build that was started.
class Started {
 public:
  // `program` is a name in the folder of programs, e.g. "olm2-train".
  Started(const std::string& program, const std::vector<std::string>& arguments,
          const std::filesystem::path& scratch);
  ~Started();
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  bool is_running();
  void kill();
  void interrupt();  // As Ctrl-C.
  int process() const { return process_; }
  Ended wait();

 private:
  int process_ = -1;
  int status_ = 0;
  std::filesystem::path out_;
  std::filesystem::path err_;
};

using Sets = std::vector<std::string>;

class ToyRun {
 public:
  // Token files of `train_tokens` and `val_tokens` ids, and toy.toml beside them: GPT-2 with
  // three layers, dropout and shuffling on, two micro batches of 4 x 16 tokens.  `sets` are the
  // overrides that every start gets.  slow_link.json is a profile for planner.profile with links
  // so slow that recomputing some and swapping some is best.
  explicit ToyRun(Sets sets = {}, int64_t train_tokens = 2000, int64_t val_tokens = 300);

  std::filesystem::path config_file() const { return scratch_ / "toy.toml"; }
  std::filesystem::path folder() const { return scratch_ / "run"; }
  std::filesystem::path operator/(const std::string& name) const { return scratch_ / name; }
  Config config(const Sets& sets = {}) const;

  // In this process.
  TrainSummary train(const Sets& sets = {}) const;
  TrainSummary train(const Sets& sets, const TrainRequest& request) const;
  TrainSummary resume(const Sets& sets = {}) const;
  // What train or resume throws; "" if nothing.
  std::string refusal(const Sets& sets = {}) const;
  std::string refusal(const Sets& sets, const TrainRequest& request) const;

  // What a program is given: the configuration file, the overrides, then `options`.
  std::vector<std::string> command_line(const std::vector<std::string>& options) const;
  // By olm2-train; `options` as on the command line after the configuration file.
  Started start(const std::vector<std::string>& options = {}) const;
  Ended run(const std::vector<std::string>& options = {}) const { return start(options).wait(); }

  // Every line of metrics.jsonl.
  std::vector<nlohmann::json> metrics() const;
  // The column `key` of metrics.jsonl.
  std::vector<double> column(const std::string& key) const;
  std::filesystem::path checkpoint(int64_t step) const;
  // Parameters saved after `step` steps, by their names in the file.
  std::map<std::string, std::vector<float>> weights(int64_t step) const;
  nlohmann::json plan() const;

 private:
  void write_slow_link() const;
  ScratchFolder scratch_;
  Sets sets_;
};

// The bytes of every file of a checkpoint that holds tensors or the position.
std::map<std::string, std::string> checkpoint_bytes(const std::filesystem::path& checkpoint);

// A line of metrics.jsonl without the fields that depend on the clock and on the machine.
nlohmann::json without_times(nlohmann::json line);
// ... and without those that depend on the plan.
nlohmann::json without_memory(nlohmann::json line);

}  // namespace olm2
