// A run whose disk fills up while it saves checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "tests/runs/toy_run.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// A file system in memory, where this process may mount one.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path path, const char* size) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    is_mounted_ = mount("none", path_.c_str(), "tmpfs", 0, size) == 0;
  }
  ~SmallDisk() {
    if (is_mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool is_mounted() const { return is_mounted_; }
  bool resize(const char* size) const {
    return mount("none", path_.c_str(), "tmpfs", MS_REMOUNT, size) == 0;
  }

 private:
  std::filesystem::path path_;
  bool is_mounted_ = false;
};

// A checkpoint of the toy takes about 600 KB.
TEST(FullDisk, IsSaidInBytesAndCostsNoCheckpoint) {
  const ToyRun toy({"train.steps=6", "output.checkpoint_every=1"});
  const SmallDisk disk(toy.folder(), "size=1600k");
  if (!disk.is_mounted()) GTEST_SKIP() << "this process may not mount a file system";
  const std::string message = toy.refusal();
  EXPECT_THAT(message,
              AllOf(HasSubstr("checkpoints"), ContainsRegex("[0-9]+ bytes"), HasSubstr("free")));
  const size_t made = toy.metrics().size();
  ASSERT_GE(made, 1U);
  ASSERT_LT(made, 6U);
  ASSERT_TRUE(disk.resize("size=8m"));
  const TrainSummary summary = toy.resume();
  EXPECT_GE(summary.first_step, static_cast<int64_t>(made) - 1);
  EXPECT_EQ(summary.last_step, 6);

  const ToyRun undisturbed({"train.steps=6"});
  undisturbed.train();
  EXPECT_TRUE(checkpoint_bytes(toy.checkpoint(6)) == checkpoint_bytes(undisturbed.checkpoint(6)));
}

}  // namespace
}  // namespace olm2
