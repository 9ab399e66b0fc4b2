// What a preparation does when the disk has no room for it.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "core/error.h"
#include "data/prepare.h"
#include "tests/data/scratch.h"
#include "tests/data/texts.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

std::string refusal(const PrepareOptions& options) {
  return message_of<Error>([&] { prepare(options, [](const PrepareProgress&) {}); });
}

// While it lives, no file of this process grows beyond `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

// A file system of 2 MB, where this process may mount one.
class SmallDisk {
 public:
  explicit SmallDisk(const std::filesystem::path& path) : path_(path) {
    std::filesystem::create_directories(path);
    mounted_ = mount("none", path.c_str(), "tmpfs", 0, "size=2m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool is_mounted() const { return mounted_; }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

TEST(DiskFull, LeavesNothingAndSaysWhatIsNeeded) {
  const Scratch scratch;
  // The size of what a .jsonl gives is not known before.
  const PrepareOptions options{.inputs = {scratch.write("a.jsonl", random_lines(100, 1))},
                               .out = scratch.path() / "out",
                               .tokenizer = "bytes"};
  {
    const FileSizeLimit limit(50'000);
    EXPECT_THAT(refusal(options), AllOf(HasSubstr("out_train_000000.bin.partial"),
                                        ContainsRegex("at least [0-9]+ more bytes are needed"),
                                        ContainsRegex("[0-9]+ are free")));
    EXPECT_TRUE(files_in(options.out).empty());
  }
  EXPECT_EQ(refusal(options), "");
}

TEST(DiskFull, KeepsTheEarlierPreparation) {
  const Scratch scratch;
  PrepareOptions options{.inputs = {scratch.write("a.txt", random_text(4000, 1))},
                         .out = scratch.path() / "out",
                         .tokenizer = "bytes"};
  EXPECT_EQ(refusal(options), "");
  const auto before = files_in(options.out);
  options.inputs = {scratch.write("b.txt", random_text(100'000, 1))};
  const FileSizeLimit limit(50'000);
  EXPECT_NE(refusal(options), "");
  EXPECT_TRUE(files_in(options.out) == before);
}

TEST(DiskFull, IsFoundBeforeTheStartWhereTheSizeIsKnown) {
  const Scratch scratch;
  const SmallDisk disk(scratch.path() / "disk");
  if (!disk.is_mounted()) GTEST_SKIP() << "this process may not mount a file system";
  int reports = 0;
  const PrepareOptions options{.inputs = {scratch.write("a.txt", std::string(1'500'000, 'a'))},
                               .out = scratch.path() / "disk" / "out",
                               .tokenizer = "bytes"};
  const std::string message =
      message_of<Error>([&] { prepare(options, [&](const PrepareProgress&) { ++reports; }); });
  EXPECT_THAT(message, AllOf(HasSubstr("need 3000"), ContainsRegex("[12][0-9]{6} are free")));
  EXPECT_EQ(reports, 0);
  EXPECT_TRUE(files_in(options.out).empty());
}

TEST(DiskFull, LeavesNothingOnASmallDisk) {
  const Scratch scratch;
  const SmallDisk disk(scratch.path() / "disk");
  if (!disk.is_mounted()) GTEST_SKIP() << "this process may not mount a file system";
  const PrepareOptions options{.inputs = {scratch.write("a.jsonl", random_lines(1500, 1))},
                               .out = scratch.path() / "disk" / "out",
                               .tokenizer = "bytes"};
  EXPECT_THAT(refusal(options),
              AllOf(HasSubstr("No space left"), HasSubstr("are needed"), HasSubstr("are free")));
  EXPECT_TRUE(files_in(options.out).empty());
}

}  // namespace
}  // namespace olm2
