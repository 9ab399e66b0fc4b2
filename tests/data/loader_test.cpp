#include "data/loader.h"

#include <chrono>
#include <numeric>
#include <set>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.h"
#include "tests/data/scratch.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Paths = std::vector<std::filesystem::path>;

struct Batch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
  bool operator==(const Batch&) const = default;
};

Batch read(const Loader& loader, int64_t index, int64_t batch_size, int64_t length) {
  const auto size = static_cast<size_t>(batch_size * length);
  Batch batch{std::vector<int32_t>(size), std::vector<int32_t>(size)};
  loader.batch(index, batch.tokens, batch.targets);
  return batch;
}

std::vector<uint32_t> counting(uint32_t first, size_t count) {
  std::vector<uint32_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// Three files of 1000, 777 and 50 tokens that hold their own index in all of them.
Paths three_files(const Scratch& scratch) {
  return {scratch.write_shard("a", counting(0, 1000)),
          scratch.write_shard("b", counting(1000, 777)),
          scratch.write_shard("c", counting(1777, 50))};
}

constexpr int64_t kB = 2;
constexpr int64_t kT = 8;
// Windows: 999/8 + 776/8 + 49/8 = 124 + 97 + 6.
constexpr int64_t kWindows = 227;

LoaderOptions options(bool shuffle, uint64_t seed = 1) {
  return {.batch_size = kB, .sequence_length = kT, .shuffle = shuffle, .seed = seed};
}

// Each input position that an epoch must serve, once.
std::multiset<int32_t> usable_positions() {
  std::multiset<int32_t> positions;
  for (const auto& [first, windows] : {std::pair{0, 124}, {1000, 97}, {1777, 6}}) {
    for (int i = 0; i < windows * kT; ++i) positions.insert(first + i);
  }
  return positions;
}

// The rows of `epochs` epochs in the order served, from whole batches.
std::vector<Batch> rows_of(const Loader& loader, int64_t epochs) {
  std::vector<Batch> rows;
  for (int64_t i = 0; i * kB < epochs * kWindows; ++i) {
    const Batch batch = read(loader, i, kB, kT);
    for (int64_t row = 0; row < kB; ++row) {
      const auto from = row * kT;
      rows.push_back({{batch.tokens.begin() + from, batch.tokens.begin() + from + kT},
                      {batch.targets.begin() + from, batch.targets.begin() + from + kT}});
    }
  }
  rows.resize(static_cast<size_t>(epochs * kWindows));
  return rows;
}

TEST(Loader, ServesWindowsInFileOrder) {
  const Scratch scratch;
  const Loader loader(three_files(scratch), options(false));
  const Batch first = read(loader, 0, kB, kT);
  EXPECT_EQ(first.tokens, std::vector<int32_t>({0, 1, 2, 3, 4, 5, 6, 7,  //
                                                8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(first.targets, std::vector<int32_t>({1, 2, 3, 4, 5, 6, 7, 8,  //
                                                 9, 10, 11, 12, 13, 14, 15, 16}));
  // Window 124 is the first of the second file.
  EXPECT_EQ(read(loader, 62, kB, kT).tokens[0], 1000);
}

TEST(Loader, ServesEveryUsablePositionOncePerEpoch) {
  const Scratch scratch;
  const Paths files = three_files(scratch);
  for (const bool shuffle : {false, true}) {
    const Loader loader(files, options(shuffle));
    EXPECT_EQ(loader.windows(), kWindows);
    EXPECT_EQ(loader.tokens(), 1827);
    EXPECT_EQ(loader.tokens_per_epoch(), kWindows * kT);
    EXPECT_EQ(loader.remainder(), 1827 - kWindows * kT);
    EXPECT_EQ(loader.batches_per_epoch(), 113);
    const std::vector<Batch> rows = rows_of(loader, 2);
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::multiset<int32_t> served;
      for (int64_t i = epoch * kWindows; i < (epoch + 1) * kWindows; ++i) {
        const Batch& row = rows[static_cast<size_t>(i)];
        served.insert(row.tokens.begin(), row.tokens.end());
        for (size_t t = 0; t < kT; ++t) ASSERT_EQ(row.targets[t], row.tokens[t] + 1);
      }
      EXPECT_EQ(served, usable_positions()) << "shuffle " << shuffle << " epoch " << epoch;
    }
  }
}

TEST(Loader, ShufflesEachEpochAndSeedInItsOwnOrder) {
  const Scratch scratch;
  const Paths files = three_files(scratch);
  const std::vector<Batch> rows = rows_of(Loader(files, options(true)), 2);
  EXPECT_EQ(rows, rows_of(Loader(files, options(true)), 2));
  EXPECT_NE(rows, rows_of(Loader(files, options(true, 2)), 2));
  EXPECT_NE(rows, rows_of(Loader(files, options(false)), 2));
  const auto middle = rows.begin() + kWindows;
  EXPECT_FALSE(std::equal(rows.begin(), middle, middle));
}

TEST(Loader, ReadsABatchWithoutReadingTheOnesBefore) {
  const Scratch scratch;
  const Paths files = three_files(scratch);
  const Loader whole(files, options(true));
  for (int64_t i = 0; i < 300; ++i) read(whole, i, kB, kT);
  EXPECT_EQ(read(Loader(files, options(true)), 300, kB, kT), read(whole, 300, kB, kT));
}

TEST(Loader, CutsTheSameSequenceIntoAnyBatches) {
  const Scratch scratch;
  const Paths files = three_files(scratch);
  LoaderOptions large = options(true);
  large.batch_size = 8;
  const Loader eights(files, large);
  const Loader twos(files, options(true));
  for (int64_t i = 0; i < 60; ++i) {
    const Batch batch = read(eights, i, 8, kT);
    for (int64_t part = 0; part < 4; ++part) {
      const auto from = batch.tokens.begin() + part * kB * kT;
      ASSERT_EQ(read(twos, i * 4 + part, kB, kT).tokens,
                std::vector<int32_t>(from, from + kB * kT));
    }
  }
}

TEST(Loader, SharesAnEpochAmongRanks) {
  const Scratch scratch;
  const Paths files = three_files(scratch);
  const int64_t ranks = 4;
  for (const bool shuffle : {false, true}) {
    const Loader alone(files, options(shuffle));
    // Every rank reads the same number of batches; together they are 8 whole epochs.
    std::map<int64_t, std::multiset<std::pair<size_t, int64_t>>> by_epoch;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      LoaderOptions mine = options(shuffle);
      mine.rank = rank;
      mine.ranks = ranks;
      const Loader loader(files, mine);
      for (int64_t i = 0; i < kWindows; ++i) {
        EXPECT_EQ(read(loader, i, kB, kT), read(alone, i * ranks + rank, kB, kT));
        for (int64_t row = 0; row < kB; ++row) {
          const WindowPlace place = loader.place(i, row);
          by_epoch[place.epoch].insert({place.file, place.begin});
        }
      }
    }
    ASSERT_EQ(by_epoch.size(), 8U);
    for (const auto& [epoch, windows] : by_epoch) {
      EXPECT_EQ(windows.size(), static_cast<size_t>(kWindows)) << "epoch " << epoch;
      const std::set<std::pair<size_t, int64_t>> distinct(windows.begin(), windows.end());
      EXPECT_EQ(distinct.size(), static_cast<size_t>(kWindows)) << "epoch " << epoch;
    }
  }
}

std::string refusal_of(size_t tokens) {
  const Scratch scratch;
  const auto path = scratch.write(
      "tiny.bin", shard_header_bytes(tokenizer_info("gpt2"), static_cast<int64_t>(tokens)) +
                      std::string(2 * tokens, '\1'));
  return message_of<Error>([&] { Loader(Paths{path}, options(false)); });
}

TEST(Loader, RefusesDataShorterThanOneBatch) {
  EXPECT_THAT(refusal_of(0), AllOf(HasSubstr("tiny.bin"), HasSubstr("0 tokens"), HasSubstr("17")));
  EXPECT_THAT(refusal_of(kB * kT), AllOf(HasSubstr("16 tokens"), HasSubstr("at least 17")));
  EXPECT_EQ(refusal_of(kB * kT + 1), "");
  EXPECT_THAT(message_of<Error>([] { Loader(Paths{}, options(false)); }), HasSubstr("no files"));
}

TEST(Loader, CountsTheBatchesOfTinyData) {
  const Scratch scratch;
  for (const size_t tokens : {kB * kT + 1, 2 * kB * kT}) {
    const Loader loader(Paths{scratch.write_shard("a", counting(0, tokens))}, options(false));
    EXPECT_EQ(loader.batches_per_epoch(), 1) << tokens;
  }
  const Loader two(Paths{scratch.write_shard("a", counting(0, 2 * kB * kT + 1))}, options(false));
  EXPECT_EQ(two.batches_per_epoch(), 2);
}

TEST(Loader, PassesByFilesWithoutAWindow) {
  const Scratch scratch;
  const Paths files = {
      scratch.write_shard("a", counting(0, 3)), scratch.write_shard("b", counting(100, 20)),
      scratch.write_shard("c", counting(0, 8)), scratch.write_shard("d", counting(200, 9))};
  const Loader loader(files, options(false));
  EXPECT_EQ(loader.windows(), 3);
  EXPECT_EQ(read(loader, 0, kB, kT).tokens[0], 100);
  EXPECT_EQ(read(loader, 1, kB, kT).tokens[0], 200);
}

TEST(Loader, RefusesATokenBeyondTheVocabulary) {
  const Scratch scratch;
  std::vector<uint32_t> ids = counting(0, 100);
  ids[37] = 777;
  LoaderOptions small = options(false);
  small.vocab_size = 500;
  const Loader loader(Paths{scratch.write_shard("a", ids)}, small);
  EXPECT_NO_THROW(read(loader, 1, kB, kT));
  EXPECT_THAT(message_of<Error>([&] { read(loader, 2, kB, kT); }),
              AllOf(HasSubstr("a_000000.bin"), HasSubstr("777"), HasSubstr("position 37"),
                    HasSubstr("500")));
}

// A file of 3 * 10^9 tokens (6 GB), all hole but its header and its last 10000 tokens.
TEST(Loader, ReadsBeyondTwoToThe31) {
  const Scratch scratch;
  const int64_t count = 3'000'000'000;
  const int64_t marked = 10'000;
  const auto path = scratch.write("huge.bin", shard_header_bytes(tokenizer_info("gpt2"), count));
  std::filesystem::resize_file(path, static_cast<uintmax_t>(kShardHeaderBytes + 2 * count));
  const auto pattern = [](int64_t position) { return static_cast<uint16_t>(position % 40009); };
  std::vector<uint16_t> tail;
  for (int64_t p = count - marked; p < count; ++p) tail.push_back(pattern(p));
  const int file = open(path.c_str(), O_WRONLY);
  ASSERT_EQ(pwrite(file, tail.data(), tail.size() * 2, kShardHeaderBytes + 2 * (count - marked)),
            static_cast<ssize_t>(tail.size() * 2));
  close(file);

  const Loader loader(Paths{path}, options(false));
  const int64_t last_batch = loader.windows() / kB - 1;
  for (int64_t i = last_batch - 600; i <= last_batch; ++i) {
    const Batch batch = read(loader, i, kB, kT);
    const int64_t begin = loader.place(i, 0).begin;
    ASSERT_GT(begin, int64_t{1} << 31);
    for (int64_t t = 0; t < kB * kT; ++t) {
      ASSERT_EQ(batch.tokens[static_cast<size_t>(t)], pattern(begin + t));
      ASSERT_EQ(batch.targets[static_cast<size_t>(t)], pattern(begin + t + 1));
    }
  }
  const Loader shuffled(Paths{path}, options(true));
  std::set<int64_t> places;
  for (int64_t i = 0; i < 100; ++i) places.insert(shuffled.place(i, 0).begin);
  EXPECT_EQ(places.size(), 100U);
  EXPECT_GT(*places.rbegin(), int64_t{1} << 31);
  LoaderOptions small = options(false);
  small.vocab_size = 1;
  EXPECT_THAT(message_of<Error>([&] { read(Loader(Paths{path}, small), last_batch, kB, kT); }),
              HasSubstr("position 29999999"));
}

}  // namespace
}  // namespace olm2
