#include "data/prepare.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/corpus.h"
#include "data/token_shard.h"
#include "tests/data/scratch.h"
#include "tests/data/texts.h"

namespace olm2 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<uint32_t>;

Manifest run(const PrepareOptions& options) {
  return prepare(options, [](const PrepareProgress&) {});
}

std::string refusal(const PrepareOptions& options) {
  return message_of<Error>([&] { run(options); });
}

// All ids of one split, file after file.
Ids ids_of(const std::filesystem::path& directory, const Manifest& manifest, Split split) {
  Ids all;
  for (const WrittenShard& written : manifest.splits[index_of(split)].shards) {
    const TokenShard shard(directory / written.file_name);
    shard.require(manifest.tokenizer);
    EXPECT_EQ(shard.size(), written.tokens);
    Ids ids(static_cast<size_t>(shard.size()));
    shard.read(0, ids);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

Ids encoded(const std::string& tokenizer_name, const std::vector<std::string>& documents) {
  const auto tokenizer = make_tokenizer(tokenizer_name);
  Ids ids;
  for (const std::string& document : documents) {
    const Ids more = tokenizer->encode(document);
    ids.insert(ids.end(), more.begin(), more.end());
    ids.push_back(tokenizer->info().separator);
  }
  return ids;
}

TEST(Prepare, WritesEachDocumentAndItsSeparator) {
  const Scratch scratch;
  const auto a = scratch.write("a.txt", "Hello world\n");
  const auto b = scratch.write("b.jsonl",
                               "{\"text\": \"caf\\u00e9\", \"url\": 1}\n\n"
                               "{\"text\": \"\"}\r\n{\"text\": \"a\\u0000b\"}");
  const auto out = scratch.path() / "set";
  const Manifest manifest = run({.inputs = {a, b}, .out = out, .val_fraction = 0});
  EXPECT_EQ(ids_of(out, manifest, Split::train),
            encoded("gpt2", {"Hello world\n", "caf\xC3\xA9", std::string("a\0b", 3)}));
  const SplitCounts& train = manifest.splits[index_of(Split::train)].counts;
  EXPECT_EQ(train.documents, 3);
  EXPECT_EQ(train.bytes, 12 + 5 + 3);
  EXPECT_EQ(manifest.empty_documents, 1);
  EXPECT_TRUE(std::filesystem::exists(out / "set_train_000000.bin"));
  EXPECT_FALSE(std::filesystem::exists(out / "set_val_000000.bin"));
}

TEST(Prepare, KeepsDocumentsOfAnyBytes) {
  const Scratch scratch;
  const std::vector<std::string> documents = {"one\r\ntwo\r\n",          std::string("nul\0nul", 7),
                                              "\xF0\x9F\x98\x80 smile",  "bad \xFF\xC3 bytes",
                                              std::string(1 << 20, 'a'), "",
                                              std::string(3, '\n'),      "<|endoftext|>"};
  PrepareOptions options{.out = scratch.path() / "out", .val_fraction = 0};
  for (size_t i = 0; i < documents.size(); ++i) {
    options.inputs.push_back(scratch.write(std::to_string(i) + ".txt", documents[i]));
  }
  for (const std::string name : {"gpt2", "bytes"}) {
    options.tokenizer = name;
    const Manifest manifest = run(options);
    EXPECT_EQ(manifest.empty_documents, 1);
    EXPECT_EQ(manifest.splits[index_of(Split::train)].counts.documents, 7);
    const Ids ids = ids_of(options.out, manifest, Split::train);
    const auto tokenizer = make_tokenizer(name);
    std::vector<std::string> found;
    for (auto begin = ids.begin(); begin != ids.end();) {
      const auto end = std::find(begin, ids.end(), tokenizer->info().separator);
      found.push_back(tokenizer->decode(Ids(begin, end)));
      begin = end + 1;
    }
    std::vector<std::string> expected = documents;
    std::erase(expected, "");
    EXPECT_EQ(found, expected);
  }
}

TEST(Prepare, CutsLongDocumentsWithoutATrace) {
  const Scratch scratch;
  // Several units long, with a stretch of more than a unit that has no place to cut.
  const std::string text =
      random_text(500'000, 5) + std::string(1'200'000, 'x') + random_text(500'000, 6);
  const auto a = scratch.write("a.txt", text);
  const auto b = scratch.write("b.txt", "short");
  const Manifest manifest =
      run({.inputs = {a, b}, .out = scratch.path() / "out", .val_fraction = 0, .workers = 3});
  EXPECT_EQ(ids_of(scratch.path() / "out", manifest, Split::train),
            encoded("gpt2", {text, "short"}));
}

TEST(Prepare, GivesTheSameBytesForAnyNumberOfWorkers) {
  const Scratch scratch;
  const auto text = scratch.write("a.txt", random_text(1'200'000, 1));
  const auto lines = scratch.write("b.jsonl", random_lines(300, 2));
  std::map<std::string, std::string> first;
  for (const int workers : {1, 2, 8}) {
    const auto out = scratch.path() / std::to_string(workers);
    run({.inputs = {lines, text},
         .out = out,
         .name = "set",
         .val_fraction = 0.1,
         .workers = workers,
         .shard_tokens = 100'000});
    const auto files = files_in(out);
    EXPECT_GT(files.size(), 4U);
    if (first.empty()) first = files;
    EXPECT_TRUE(files == first) << workers << " workers";
  }
}

TEST(Prepare, CountsWhatItWrites) {
  const Scratch scratch;
  const auto lines = scratch.write("b.jsonl", random_lines(500, 3));
  const auto out = scratch.path() / "out";
  const Manifest manifest = run({.inputs = {lines},
                                 .out = out,
                                 .tokenizer = "bytes",
                                 .val_fraction = 0.2,
                                 .shard_tokens = 50'000});
  int64_t documents = 0;
  for (const Split split : kSplits) {
    const PreparedSplit& prepared = manifest.splits[index_of(split)];
    const Ids ids = ids_of(out, manifest, split);
    EXPECT_EQ(prepared.counts.tokens, static_cast<int64_t>(ids.size()));
    EXPECT_EQ(prepared.counts.tokens, prepared.counts.bytes + prepared.counts.documents);
    EXPECT_EQ(prepared.counts.documents, std::count(ids.begin(), ids.end(), 256U));
    for (size_t i = 0; i + 1 < prepared.shards.size(); ++i) {
      EXPECT_EQ(prepared.shards[i].tokens, 50'000);
    }
    documents += prepared.counts.documents;
  }
  EXPECT_EQ(documents, 500);
  const auto json = nlohmann::json::parse(read_all(out / "manifest.json"));
  EXPECT_EQ(json["train"]["tokens"], manifest.splits[0].counts.tokens);
  EXPECT_EQ(json["train"]["documents"], manifest.splits[0].counts.documents);
  EXPECT_EQ(json["tokenizer"]["digest"], digest_text(manifest.tokenizer.digest));
  EXPECT_EQ(json["val"]["files"][0]["name"], "out_val_000000.bin");
}

TEST(Prepare, MakesTheEndOfASingleDocumentVal) {
  const Scratch scratch;
  const std::string text = random_text(100'000, 4);
  const auto out = scratch.path() / "out";
  const Manifest manifest =
      run({.inputs = {scratch.write("a.txt", text)}, .out = out, .val_fraction = 0.1});
  EXPECT_TRUE(manifest.is_divided);
  const int64_t cut = manifest.splits[index_of(Split::train)].counts.bytes;
  EXPECT_NEAR(static_cast<double>(cut), 90'000, 50);
  const auto at = static_cast<size_t>(cut);
  EXPECT_EQ(ids_of(out, manifest, Split::train), encoded("gpt2", {text.substr(0, at)}));
  EXPECT_EQ(ids_of(out, manifest, Split::val), encoded("gpt2", {text.substr(at)}));
}

TEST(Prepare, SendsADocumentToTheSameSplitWhereverItStands) {
  int val = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string document = "document " + std::to_string(i);
    if (split_of(document, 0.1) == Split::val) ++val;
    if (split_of(document, 0.05) == Split::val) {
      EXPECT_EQ(split_of(document, 0.1), Split::val);
    }
  }
  EXPECT_NEAR(val, 1000, 150);  // Five times the standard deviation of 30.
  EXPECT_EQ(split_of("x", 0), Split::train);
}

TEST(Prepare, MeasuresTheEntropyOfBytes) {
  const Scratch scratch;
  const Manifest manifest = run({.inputs = {scratch.write("a.txt", "abab")},
                                 .out = scratch.path() / "out",
                                 .tokenizer = "bytes"});
  EXPECT_DOUBLE_EQ(manifest.unigram_nats_per_byte, std::log(2.0));
}

TEST(Prepare, ReplacesAnEarlierPreparation) {
  const Scratch scratch;
  const auto input = scratch.write("a.txt", random_text(20'000, 8));
  PrepareOptions options{
      .inputs = {input}, .out = scratch.path() / "out", .tokenizer = "bytes", .shard_tokens = 300};
  run(options);
  EXPECT_GT(files_in(options.out).size(), 50U);
  scratch.write("out/out_train_000999.bin.partial", "of a killed run");
  scratch.write("out/out_train_notes.bin", "not ours");
  options.shard_tokens = 1'000'000;
  options.val_fraction = 0;
  run(options);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files_in(options.out)) names.push_back(name);
  EXPECT_EQ(names, std::vector<std::string>(
                       {"manifest.json", "out_train_000000.bin", "out_train_notes.bin"}));
}

TEST(Prepare, RefusesASecondDatasetInOneDirectory) {
  const Scratch scratch;
  PrepareOptions options{.inputs = {scratch.write("a.txt", "text")},
                         .out = scratch.path() / "out",
                         .tokenizer = "bytes"};
  run(options);
  options.name = "other";
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("manifest.json"), HasSubstr("'other'")));
}

TEST(Prepare, NamesFileAndLineOfABadLine) {
  const Scratch scratch;
  const auto refusal_of = [&](const std::string& bad) {
    const auto path = scratch.write("a.jsonl", random_lines(300, 1) + bad + "\n{\"text\":\"b\"}\n");
    const auto out = scratch.path() / "out";
    const std::string message = refusal({.inputs = {path}, .out = out, .tokenizer = "bytes"});
    EXPECT_TRUE(files_in(out).empty());
    return message;
  };
  EXPECT_THAT(refusal_of("{\"text\": \"a"), HasSubstr("a.jsonl:301: expected a JSON object"));
  EXPECT_THAT(refusal_of("[1]"), AllOf(HasSubstr(":301:"), HasSubstr("array")));
  EXPECT_THAT(refusal_of("{\"body\": \"a\"}"), AllOf(HasSubstr(":301:"), HasSubstr("without")));
  EXPECT_THAT(refusal_of("{\"text\": 3}"), AllOf(HasSubstr(":301:"), HasSubstr("number")));
  EXPECT_THAT(refusal_of("{\"text\": \"\xFF\"}"), HasSubstr(":301:"));
  EXPECT_THAT(refusal_of("{\"text\": \"a\"} x"), HasSubstr(":301:"));
}

TEST(Prepare, RefusesInputsItCannotRead) {
  const Scratch scratch;
  const auto out = scratch.path() / "out";
  EXPECT_THAT(refusal({.inputs = {scratch.path() / "none.txt"}, .out = out}),
              HasSubstr("none.txt: No such file"));
  EXPECT_THAT(refusal({.inputs = {scratch.write("a.pdf", "x")}, .out = out}),
              AllOf(HasSubstr("a.pdf"), HasSubstr("expected .txt")));
  EXPECT_THAT(refusal({.inputs = {scratch.path()}, .out = out}), HasSubstr("is a directory"));
  EXPECT_THAT(refusal({.inputs = {}, .out = out}), HasSubstr("no input"));
  EXPECT_THAT(refusal({.inputs = {scratch.write("a.txt", "")}, .out = out}),
              HasSubstr("hold no text"));
  EXPECT_THAT(refusal({.inputs = {scratch.write("a.txt", "x")}, .out = out, .name = "a/b"}),
              HasSubstr("'a/b'"));
}

// A preparation killed on its way, then run again, ends like one that was left alone.
TEST(PrepareDeathTest, FinishesAfterAKillAsIfUndisturbed) {
  const Scratch scratch;
  PrepareOptions options{.inputs = {scratch.write("a.jsonl", random_lines(2500, 9))},
                         .out = scratch.path() / "killed",
                         .name = "set",
                         .tokenizer = "bytes",
                         .val_fraction = 0.05,
                         .workers = 2,
                         .shard_tokens = 300'000};
  const auto kill_at_40_percent = [](const PrepareProgress& progress) {
    if (progress.bytes_done * 10 >= progress.bytes_total * 4) raise(SIGKILL);
  };
  EXPECT_EXIT(prepare(options, kill_at_40_percent), testing::KilledBySignal(SIGKILL), "");
  EXPECT_FALSE(files_in(options.out).empty());
  for (const auto& [name, bytes] : files_in(options.out)) {
    EXPECT_THAT(name, testing::EndsWith(".partial"));
  }
  run(options);
  const auto after_kill = files_in(options.out);
  options.out = scratch.path() / "undisturbed";
  run(options);
  EXPECT_GT(after_kill.size(), 3U);
  EXPECT_TRUE(after_kill == files_in(options.out));
}

}  // namespace
}  // namespace olm2
