#include "train/checkpoint.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "tests/train/scratch_folder.h"

namespace olm2 {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ModelConfig toy_model() {
  return {.n_layer = 2, .n_head = 2, .n_embd = 4, .vocab_size = 11, .context_length = 8};
}

CheckpointState state_of(int64_t step) {
  return {.step = step,
          .tokens = step * 64,
          .data_position = step * 8,
          .seed = 1337,
          .sequence_length = 8,
          .tokenizer = "bytes",
          .model = toy_model(),
          .hashes = {{"graph", "0123"}}};
}

// Parameters and moments whose every element tells the step.
struct Tensors {
  std::vector<float> wte, head, moment;
  explicit Tensors(float value, size_t rows = 11)
      : wte(rows * 4, value), head(rows * 4, value + 0.25F), moment(rows * 4, value + 0.5F) {}

  ValueType type() const { return {{static_cast<int64_t>(wte.size()) / 4, 4}, DType::f32}; }
  std::vector<TensorView> parameters() const {
    return {{"wte.weight", type(), std::as_bytes(std::span(wte))},
            {"lm_head.weight", type(), std::as_bytes(std::span(head))}};
  }
  std::vector<TensorView> moments() const {
    return {{"wte.weight.m", type(), std::as_bytes(std::span(moment))}};
  }
  std::vector<TensorTarget> parameter_targets() {
    return {{"wte.weight", type(), std::as_writable_bytes(std::span(wte))},
            {"lm_head.weight", type(), std::as_writable_bytes(std::span(head))}};
  }
  std::vector<TensorTarget> moment_targets() {
    return {{"wte.weight.m", type(), std::as_writable_bytes(std::span(moment))}};
  }
  bool operator==(const Tensors&) const = default;
};

void save(const fs::path& run, int64_t step, const SaveOptions& options = {}) {
  const Tensors tensors(static_cast<float>(step));
  save_checkpoint(run, state_of(step), tensors.parameters(), tensors.moments(), options);
}

// Loads everything and compares it with what save() wrote at this step.
void expect_loads(const fs::path& checkpoint, int64_t step) {
  Tensors loaded(-1);
  EXPECT_EQ(load_state(checkpoint), state_of(step));
  load_parameters(checkpoint, loaded.parameter_targets());
  load_moments(checkpoint, loaded.moment_targets());
  EXPECT_EQ(loaded, Tensors(static_cast<float>(step)));
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

// --- saving and loading -----------------------------------------------------------------------

TEST(Checkpoint, WhatIsSavedIsLoaded) {
  const ScratchFolder run;
  save(run.path(), 100);
  const FoundCheckpoint found = find_checkpoint(run.path());
  ASSERT_TRUE(found.path.has_value());
  EXPECT_EQ(*found.path, run / "checkpoints/step_000100");
  EXPECT_TRUE(found.skipped.empty());
  EXPECT_THAT(names_in(*found.path),
              ElementsAre("complete", "model.safetensors", "optimizer.safetensors", "state.json"));
  expect_loads(*found.path, 100);
}

TEST(Checkpoint, FilesBearHuggingFaceNames) {
  const ScratchFolder run;
  save(run.path(), 1);
  const SafetensorsFile file(run / "checkpoints/step_000001/model.safetensors");
  EXPECT_NE(file.find("transformer.wte.weight"), nullptr);
  EXPECT_NE(file.find("lm_head.weight"), nullptr);
  EXPECT_EQ(file_name_of_parameter("h.0.attn.c_attn.weight"), "transformer.h.0.attn.c_attn.weight");
}

TEST(Checkpoint, FilesWithoutThePrefixAndWithMasksAreLoaded) {
  const ScratchFolder folder;
  const Tensors tensors(3);
  std::vector<TensorView> views = tensors.parameters();
  views[1].name = "h.0.attn.bias";
  write_safetensors(folder / "model.safetensors", views);
  Tensors loaded(-1);
  const std::vector<TensorTarget> targets = loaded.parameter_targets();
  load_parameters(folder.path(), std::span(targets).first(1));
  EXPECT_EQ(loaded.wte, tensors.wte);
}

TEST(Checkpoint, EqualStatesGiveEqualFiles) {
  const ScratchFolder run;
  const ScratchFolder other;
  save(run.path(), 7);
  save(other.path(), 7);
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string file = std::string("checkpoints/step_000007/") + name;
    EXPECT_EQ(read_file(run / file), read_file(other / file));
  }
}

TEST(Checkpoint, OnlyTheNewestAreKept) {
  const ScratchFolder run;
  for (const int64_t step : {1, 2, 3, 1000000}) save(run.path(), step, {.keep = 2});
  EXPECT_THAT(names_in(run / "checkpoints"), ElementsAre("step_000003", "step_1000000"));
  EXPECT_EQ(find_checkpoint(run.path()).path, run / "checkpoints/step_1000000");
}

TEST(Checkpoint, AStepSavedAgainReplacesTheOldOne) {
  const ScratchFolder run;
  const Tensors tensors(-5);
  save_checkpoint(run.path(), state_of(4), tensors.parameters(), tensors.moments());
  save(run.path(), 4);
  EXPECT_THAT(names_in(run / "checkpoints"), ElementsAre("step_000004"));
  expect_loads(run / "checkpoints/step_000004", 4);
}

TEST(Checkpoint, APathMayBeARunOrACheckpoint) {
  const ScratchFolder run;
  EXPECT_THAT(message_of([&] { resolve_checkpoint(run / "nothing"); }),
              HasSubstr("no such folder"));
  EXPECT_THAT(message_of([&] { resolve_checkpoint(run.path()); }), HasSubstr("no complete"));
  save(run.path(), 1);
  EXPECT_EQ(resolve_checkpoint(run.path()), run / "checkpoints/step_000001");
  EXPECT_EQ(resolve_checkpoint(run / "checkpoints/step_000001"), run / "checkpoints/step_000001");
  fs::remove(run / "checkpoints/step_000001/complete");
  EXPECT_THAT(message_of([&] { resolve_checkpoint(run.path()); }),
              HasSubstr("skipped step_000001: the marker 'complete' is missing"));
}

TEST(Checkpoint, IncompleteOnesAreSkippedWithTheReason) {
  const ScratchFolder run;
  for (int64_t step = 1; step <= 5; ++step) save(run.path(), step, {.keep = 9});
  const fs::path folder = run / "checkpoints";
  fs::rename(folder / "step_000005", folder / "step_000005.tmp");
  fs::remove(folder / "step_000004/complete");
  fs::resize_file(folder / "step_000003/model.safetensors", 10);
  fs::remove(folder / "step_000002/state.json");
  const FoundCheckpoint found = find_checkpoint(run.path());
  EXPECT_EQ(found.path, folder / "step_000001");
  EXPECT_THAT(found.skipped,
              ElementsAre(HasSubstr("step_000005.tmp: it was being written"),
                          HasSubstr("step_000004: the marker"),
                          HasSubstr("step_000003: model.safetensors has 10 bytes, expected"),
                          HasSubstr("step_000002: state.json is missing")));
  save(run.path(), 6, {.keep = 2});
  EXPECT_THAT(names_in(folder), ElementsAre("step_000001", "step_000006"));
}

TEST(Checkpoint, ABrokenStateIsRefused) {
  const ScratchFolder run;
  save(run.path(), 1);
  const fs::path checkpoint = run / "checkpoints/step_000001";
  const std::string good = read_file(checkpoint / "state.json");
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string(R"({"version":1})"),
        std::string(R"({"version":99})"), good.substr(0, 40)}) {
    write_file(checkpoint / "state.json", text);
    EXPECT_THAT(message_of([&] { load_state(checkpoint); }), HasSubstr("state.json"));
  }
}

// --- another run's checkpoint (O17) -----------------------------------------------------------

TEST(Checkpoint, EachDifferingFieldIsNamed) {
  const ScratchFolder run;
  save(run.path(), 1);
  const fs::path checkpoint = run / "checkpoints/step_000001";
  CheckpointState wanted = load_state(checkpoint);
  EXPECT_NO_THROW(check_resumable(checkpoint, load_state(checkpoint), wanted, false));
  wanted.step = 9;  // Position and hashes may differ.
  wanted.hashes.clear();
  EXPECT_NO_THROW(check_resumable(checkpoint, load_state(checkpoint), wanted, false));

  wanted.model.n_layer = 3;
  wanted.model.vocab_size = 12;
  wanted.sequence_length = 16;
  EXPECT_THAT(
      message_of([&] { check_resumable(checkpoint, load_state(checkpoint), wanted, false); }),
      AllOf(HasSubstr("model.n_layer: found 2 in the checkpoint, expected 3"),
            HasSubstr("model.vocab_size: found 11 in the checkpoint, expected 12"),
            HasSubstr("train.sequence_length: found 8 in the checkpoint, expected 16"),
            Not(HasSubstr("n_head"))));
  EXPECT_THAT(
      message_of([&] { check_same_model(checkpoint, load_state(checkpoint).model, wanted.model); }),
      AllOf(HasSubstr("n_layer"), HasSubstr("vocab_size"), Not(HasSubstr("sequence_length"))));
}

TEST(Checkpoint, WeightsOnlyAskForAFreshOptimizer) {
  const ScratchFolder run;
  const Tensors tensors(2);
  save_checkpoint(run.path(), state_of(2), tensors.parameters(), {});
  save(run.path(), 3);
  for (const char* name : {"step_000002", "step_000003"}) {
    const fs::path checkpoint = run / (std::string("checkpoints/") + name);
    fs::remove(checkpoint / "optimizer.safetensors");  // By hand, in the second one.
    EXPECT_EQ(resolve_checkpoint(checkpoint), checkpoint);
    EXPECT_FALSE(has_moments(checkpoint));
    const CheckpointState state = load_state(checkpoint);
    EXPECT_THAT(message_of([&] { check_resumable(checkpoint, state, state, false); }),
                AllOf(HasSubstr("weights only"), HasSubstr("train.fresh_optimizer = true")));
    EXPECT_NO_THROW(check_resumable(checkpoint, state, state, true));
  }
}

TEST(Checkpoint, TensorsThatDoNotFitAreListed) {
  const ScratchFolder run;
  save(run.path(), 1);
  Tensors other(0, 12);
  std::vector<TensorTarget> targets = other.parameter_targets();
  targets[1].name = "ln_f.bias";
  EXPECT_THAT(message_of([&] { load_parameters(run / "checkpoints/step_000001", targets); }),
              AllOf(HasSubstr("transformer.wte.weight: found F32(11,4), expected f32(12,4)"),
                    HasSubstr("transformer.ln_f.bias: missing")));
  Tensors fits(0);
  const std::vector<TensorTarget> all = fits.parameter_targets();
  EXPECT_THAT(
      message_of([&] { load_parameters(run / "checkpoints/step_000001", std::span(all).last(1)); }),
      HasSubstr("transformer.wte.weight: not part of this model"));
}

// --- a full disk (O8b) ------------------------------------------------------------------------

TEST(Checkpoint, AFullDiskKeepsTheLastGoodOne) {
  const ScratchFolder run;
  save(run.path(), 1, {.keep = 1});
  int refused = 0;
  for (int64_t room = 0; room < 3000; room += 97) {
    WriteFaults faults;
    faults.bytes_until_full = room;
    try {
      save(run.path(), 2, {.keep = 1, .faults = &faults});
      break;
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), AllOf(HasSubstr("needed"), HasSubstr("free")));
      EXPECT_THAT(names_in(run / "checkpoints"), ElementsAre("step_000001"));
      expect_loads(resolve_checkpoint(run.path()), 1);
    }
  }
  EXPECT_GT(refused, 10);
  expect_loads(resolve_checkpoint(run.path()), 2);
}

// Runs `body` in a child whose exit status it is.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      _exit(body());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in the child: %s\n", error.what());
      _exit(99);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Mounts a small disk that only this process sees.  False: not possible here.
bool mount_small_disk(const fs::path& folder) {
  const uid_t user = getuid();
  const gid_t group = getgid();
  const bool is_root = geteuid() == 0;
  if (unshare(CLONE_NEWNS | (is_root ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (!is_root) {
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder.c_str(), "tmpfs", 0, "size=2m") == 0;
}

TEST(Checkpoint, ADiskTooSmallIsSeenBeforeTheFirstByte) {
  const ScratchFolder run;
  constexpr int kNotPossible = 77;
  const int status = in_child([&] {
    if (!mount_small_disk(run.path())) return kNotPossible;
    save(run.path(), 1);
    const Tensors large(2, 50000);  // 800 kB a tensor, three of them.
    try {
      save_checkpoint(run.path(), state_of(2), large.parameters(), large.moments());
      return 1;
    } catch (const Error& error) {
      const std::string message = error.what();
      if (message.find("needs 2400") == std::string::npos) return 2;
      if (message.find("free are ") == std::string::npos) return 3;
    }
    expect_loads(resolve_checkpoint(run.path()), 1);
    if (names_in(run / "checkpoints") != std::vector<std::string>{"step_000001"}) return 4;
    return testing::Test::HasFailure() ? 5 : 0;
  });
  if (status == kNotPossible) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_EQ(status, 0);
}

// --- killed while saving (O14) ----------------------------------------------------------------

// Saves step after step, telling each finished one through the pipe, until somebody kills it.
[[noreturn]] void save_forever(const fs::path& run, int64_t first_step, int pipe,
                               const SaveOptions& options) {
  for (int64_t step = first_step;; ++step) {
    save(run, step, options);
    if (write(pipe, &step, sizeof step) != sizeof step) _exit(1);
  }
}

struct Killed {
  int64_t told = 0;  // The last step that was saved for certain.
};

// `options` and `wait` decide when the child dies.
Killed run_until_killed(const fs::path& run, int64_t first_step, const SaveOptions& options,
                        const std::function<void(pid_t)>& wait) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) save_forever(run, first_step, ends[1], options);
  close(ends[1]);
  wait(child);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "status " << status;
  Killed killed{.told = first_step - 1};
  int64_t step = 0;
  while (read(ends[0], &step, sizeof step) == sizeof step) killed.told = step;
  close(ends[0]);
  return killed;
}

// What every restart must find.  Returns the step found.
int64_t expect_complete_checkpoint(const fs::path& run, const Killed& killed) {
  const fs::path checkpoint = resolve_checkpoint(run);
  const int64_t step = load_state(checkpoint).step;
  EXPECT_TRUE(step == killed.told || step == killed.told + 1) << step << " of " << killed.told;
  expect_loads(checkpoint, step);
  return step;
}

TEST(Checkpoint, AKillAtAnyPointOfSavingLeavesACompleteOne) {
  int points = 0;
  for (const int64_t keep : {1, 2}) {
    for (const bool again : {false, true}) {  // The step exists already: it is replaced.
      for (int kill_at = 0; kill_at < 17; ++kill_at) {
        const ScratchFolder run;
        save(run.path(), 5, {.keep = keep});
        int passed = 0;
        WriteFaults faults;
        faults.at = [&](WritePoint, const fs::path&) {
          if (passed++ == kill_at) kill(getpid(), SIGKILL);
        };
        const Killed killed = run_until_killed(run.path(), again ? 5 : 6,
                                               {.keep = keep, .faults = &faults}, [](pid_t) {});
        EXPECT_EQ(killed.told, again ? 4 : 5) << "there are more than 17 points";
        const FoundCheckpoint found = find_checkpoint(run.path());
        EXPECT_EQ(expect_complete_checkpoint(run.path(), {.told = 5}),
                  kill_at < 16 || again ? 5 : 6);
        // What is skipped is said, unless a whole checkpoint of the same step is still there.
        const bool nothing_lost = kill_at == 16 || (again && kill_at < 12);
        EXPECT_EQ(found.skipped.empty(), nothing_lost) << kill_at;
        save(run.path(), 6, {.keep = 1});
        EXPECT_THAT(names_in(run / "checkpoints"), ElementsAre("step_000006"));
        ++points;
      }
    }
  }
  EXPECT_EQ(points, 68);
}

TEST(Checkpoint, AKillAtARandomMomentLosesAtMostOneStep) {
  const ScratchFolder run;
  int64_t step = 0;
  save(run.path(), step);
  uint32_t random = 1;
  for (int i = 0; i < 50; ++i) {
    random = random * 1664525U + 1013904223U;
    const auto microseconds = static_cast<useconds_t>(500 + (random >> 8U) % 20000);
    const Killed killed =
        run_until_killed(run.path(), step + 1, {.keep = 1 + i % 3}, [&](pid_t child) {
          usleep(microseconds);
          kill(child, SIGKILL);
        });
    step = expect_complete_checkpoint(run.path(), killed);
  }
  EXPECT_GT(step, 0);
}

}  // namespace
}  // namespace olm2
