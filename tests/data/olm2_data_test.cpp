// The program as a user runs it; skipped where only this folder was built.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/data/scratch.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kProgram = OLM2_BINARY_DIR "/bin/olm2-data";

struct Outcome {
  int status = -1;
  std::string out{};
  std::string err{};
};

Outcome run(const Scratch& scratch, const std::string& arguments) {
  const std::string place = scratch.path().string();
  const std::string command = "cd '" + place + "' && '" + kProgram + "' " + arguments + " >'" +
                              place + "/stdout' 2>'" + place + "/stderr'";
  const int status = std::system(command.c_str());
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = read_all(scratch.path() / "stdout"),
          .err = read_all(scratch.path() / "stderr")};
}

class DataProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << kProgram << " is not built";
  }
};

TEST_F(DataProgram, PreparesAndInspects) {
  const Scratch scratch;
  scratch.write("my book.txt", "In the beginning\nwas the word");
  const Outcome prepared =
      run(scratch, "prepare 'my book.txt' --out set --tokenizer bytes --val-fraction 0.3");
  EXPECT_EQ(prepared.status, 0) << prepared.err;
  EXPECT_THAT(prepared.out, AllOf(HasSubstr("set/set_train_000000.bin"),
                                  HasSubstr("set/set_val_000000.bin"), HasSubstr("nats per byte")));
  const Outcome inspected = run(scratch, "inspect set/*.bin");
  EXPECT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_THAT(inspected.out, AllOf(HasSubstr("\"In the beginning\""), HasSubstr("tokenizer bytes"),
                                   HasSubstr("version 1, 2 bytes per token")));
}

TEST_F(DataProgram, EndsWithOneForWhatCannotBeDone) {
  const Scratch scratch;
  const Outcome missing = run(scratch, "prepare none.txt --out set");
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.err, "olm2-data: none.txt: No such file or directory\n");
  EXPECT_EQ(missing.out, "");
  scratch.write("a.bin", "text");
  EXPECT_EQ(run(scratch, "inspect a.bin").status, 1);
}

TEST_F(DataProgram, EndsWithTwoForAWrongCommandLine) {
  const Scratch scratch;
  for (const char* arguments :
       {"", "prepare", "prepare a.txt", "prepare a.txt --out b --tokenizer gpt3",
        "prepare a.txt --out b --val-fraction 1", "prepare a.txt --out b --colour", "inspect"}) {
    const Outcome outcome = run(scratch, arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_NE(outcome.err, "") << arguments;
  }
}

TEST_F(DataProgram, ExplainsItself) {
  const Scratch scratch;
  const Outcome help = run(scratch, "--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:"), HasSubstr("prepare"), HasSubstr("inspect")));
  const Outcome version = run(scratch, "--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_NE(version.out, "");
}

}  // namespace
}  // namespace olm2
