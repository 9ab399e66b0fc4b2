#include "data/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/data/scratch.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OutputFile, AppearsWholeAtCommit) {
  const Scratch scratch;
  OutputFile file(scratch.path() / "a.bin");
  file.append("0000");
  file.append("tail");
  file.overwrite(0, "head");
  file.finish();
  EXPECT_EQ(files_in(scratch.path()).count("a.bin"), 0U);
  file.commit();
  EXPECT_EQ(files_in(scratch.path()), (std::map<std::string, std::string>{{"a.bin", "headtail"}}));
}

TEST(OutputFile, LeavesNothingBehindWithoutCommit) {
  const Scratch scratch;
  const auto path = scratch.write("a.bin", "old");
  {
    OutputFile file(path);
    file.append("new");
    file.finish();
  }
  EXPECT_EQ(files_in(scratch.path()), (std::map<std::string, std::string>{{"a.bin", "old"}}));
}

TEST(OutputFile, NamesWhatCannotBeCreated) {
  const Scratch scratch;
  EXPECT_THAT(message_of<Error>([&] { OutputFile(scratch.path() / "none" / "a.bin"); }),
              AllOf(HasSubstr("none/a.bin"), HasSubstr("No such file")));
}

TEST(OutputFile, KnowsTheFreeSpaceOfADirectory) {
  const Scratch scratch;
  EXPECT_GT(free_bytes(scratch.path()), 0);
  EXPECT_EQ(free_bytes(scratch.path() / "none"), -1);
}

}  // namespace
}  // namespace olm2
