#include "data/file_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/data/scratch.h"

namespace olm2 {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.filename().string());
  return names;
}

TEST(FileList, SortsByNameAndListsEachFileOnce) {
  const Scratch scratch;
  for (const char* name :
       {"b_train_000010.bin", "b_train_000002.bin", "b_val_000000.bin", "a_train_000003.bin"}) {
    scratch.write(name, "x");
  }
  const std::vector<std::string> globs = {"b_train_*.bin", "*_train_*.bin"};
  EXPECT_EQ(
      names_of(expand_globs(globs, scratch.path())),
      std::vector<std::string>({"a_train_000003.bin", "b_train_000002.bin", "b_train_000010.bin"}));
  const std::vector<std::string> absolute = {(scratch.path() / "*_val_*.bin").string()};
  EXPECT_EQ(expand_globs(absolute, "elsewhere"),
            std::vector({scratch.path() / "b_val_000000.bin"}));
}

TEST(FileList, IgnoresUnfinishedShards) {
  const Scratch scratch;
  scratch.write("a_train_000000.bin", "x");
  scratch.write("a_train_000001.bin.partial", "x");
  const std::vector<std::string> globs = {"*.bin"};
  EXPECT_EQ(expand_globs(globs, scratch.path()).size(), 1U);
}

TEST(FileList, TakesTheBaseDirectoryLiterally) {
  const Scratch scratch;
  scratch.write("odd [1]*/a.bin", "x");
  const std::vector<std::string> globs = {"*.bin"};
  EXPECT_EQ(expand_globs(globs, scratch.path() / "odd [1]*").size(), 1U);
}

TEST(FileList, NamesTheGlobThatMatchesNothing) {
  const Scratch scratch;
  scratch.write("a.bin", "x");
  const std::vector<std::string> globs = {"*.bin", "data/*_train_*.bin"};
  EXPECT_THAT(message_of<Error>([&] { expand_globs(globs, scratch.path()); }),
              HasSubstr("'data/*_train_*.bin' matches no file"));
}

}  // namespace
}  // namespace olm2
