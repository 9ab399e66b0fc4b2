#include "train/config.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace olm2 {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Lines are numbered in the tests below: [optimizer] is line 14, lr line 15.
constexpr std::string_view kToy = R"([model]
type = "gpt2"
n_layer = 2
n_head = 2
n_embd = 64
vocab_size = 50257
context_length = 32
[data]
train = ["toy_train_*.bin"]
[train]
batch_size = 8
sequence_length = 32
steps = 10
[optimizer]
lr = 1e-3
[output]
dir = "run"
)";

Config parse(std::string_view text, const std::vector<std::string>& sets = {}) {
  return parse_config(text, "/somewhere/toy.toml", sets);
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

std::string refusal(const std::string& text, const std::vector<std::string>& sets = {}) {
  return message_of([&] { parse(text, sets); });
}

// What is said when the toy gets these settings.
std::string refusal_of(const std::vector<std::string>& sets) {
  return refusal(std::string(kToy), sets);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// --- reading ----------------------------------------------------------------------------------

TEST(Config, ReadsTheRequiredKeysAndLeavesTheDefaults) {
  const Config config = parse(kToy);
  EXPECT_EQ(config.model.n_layer, 2);
  EXPECT_EQ(config.train.batch_size, 8);
  EXPECT_EQ(config.train.grad_accumulation, 1);
  EXPECT_EQ(config.optimizer.rate.lr, 1e-3);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.memory.policy, "olm2");
  EXPECT_EQ(config.memory.state, "planned");
  EXPECT_EQ(config.memory.device_budget.percent, 100);
  EXPECT_EQ(config.memory.host_budget.bytes, 0);
  EXPECT_EQ(config.output.keep_checkpoints, 2);
}

TEST(Config, PathsAreRelativeToTheFile) {
  const Config config = parse(
      kToy, {"data.val=/elsewhere/a.bin", "model.init_from=../old", "planner.profile=p.json"});
  EXPECT_THAT(config.data.train, ElementsAre("/somewhere/toy_train_*.bin"));
  EXPECT_THAT(config.data.val, ElementsAre("/elsewhere/a.bin"));
  EXPECT_EQ(config.output.dir, "/somewhere/run");
  EXPECT_EQ(config.init_from, "/old");
  EXPECT_EQ(config.planner.profile, "/somewhere/p.json");
}

TEST(Config, SetWinsOverTheFileAndTakesTomlValuesAndBareWords) {
  const Config config =
      parse(kToy, {"train.steps=7", "optimizer.lr=0.5", "memory.policy=chen",
                   "memory.device_budget=40%", "memory.host_budget=\"1 GiB\"", "data.shuffle=false",
                   "data.train=['a', 'b']", "output.dir=/tmp/a=b", "optimizer.schedule=wsd"});
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.optimizer.rate.lr, 0.5);
  EXPECT_EQ(config.memory.policy, "chen");
  EXPECT_EQ(config.memory.device_budget.percent, 40);
  EXPECT_EQ(config.memory.host_budget.bytes, int64_t{1} << 30);
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_THAT(config.data.train, ElementsAre("/somewhere/a", "/somewhere/b"));
  EXPECT_EQ(config.output.dir, "/tmp/a=b");
  EXPECT_EQ(config.optimizer.rate.schedule, RateSchedule::wsd);
}

TEST(Config, ASetStringMayLookLikeANumber) {
  EXPECT_EQ(parse(kToy, {"output.dir=2024"}).output.dir, "/somewhere/2024");
  EXPECT_EQ(parse(kToy, {"output.dir=2024-01-31"}).output.dir, "/somewhere/2024-01-31");
}

TEST(Config, APresetBringsItsSizes) {
  const std::string text =
      replaced(std::string(kToy),
               "n_layer = 2\nn_head = 2\nn_embd = 64\nvocab_size = 50257\ncontext_length = 32\n",
               "preset = \"gpt2-355m\"\ndropout = 0.1\n");
  const Config config = parse(text);
  EXPECT_EQ(config.model.n_layer, 24);
  EXPECT_EQ(config.model.n_embd, 1024);
  EXPECT_EQ(config.model.dropout, 0.1);
  EXPECT_THAT(refusal(text, {"model.n_layer=3"}),
              AllOf(HasSubstr("--set model.n_layer=3"), HasSubstr("toy.toml, line 3")));
  EXPECT_THAT(refusal(text, {"model.preset=gpt2-125m"}), HasSubstr("gpt2-124m"));
}

// --- mistakes (O22) ---------------------------------------------------------------------------

TEST(Config, AnEmptyFileIsToldEveryRequiredKey) {
  const std::string message = refusal("");
  for (const char* key : {"model.type", "model.preset", "data.train", "train.batch_size",
                          "train.sequence_length", "train.steps", "optimizer.lr", "output.dir"}) {
    EXPECT_THAT(message, HasSubstr(key));
  }
  EXPECT_THAT(message, HasSubstr("toy.toml"));
}

TEST(Config, MissingSizesAreListedTogether) {
  const std::string message = refusal(replaced(std::string(kToy), "n_head = 2\nn_embd = 64\n", ""));
  EXPECT_THAT(message, AllOf(HasSubstr("model.n_head"), HasSubstr("model.n_embd"),
                             Not(HasSubstr("model.n_layer")), Not(HasSubstr("model.preset"))));
}

TEST(Config, AMisspelledKeyIsNamedWithItsLineAndTheRightOne) {
  EXPECT_THAT(refusal(replaced(std::string(kToy), "lr = 1e-3", "learnig_rate = 1e-3")),
              AllOf(HasSubstr("line 15"), HasSubstr("optimizer.learnig_rate"),
                    HasSubstr("did you mean optimizer.lr?")));
  EXPECT_THAT(refusal(replaced(std::string(kToy), "steps", "setps")),
              HasSubstr("did you mean train.steps?"));
  EXPECT_THAT(refusal(replaced(std::string(kToy), "[optimizer]", "[optimiser]")),
              AllOf(HasSubstr("line 14"), HasSubstr("did you mean [optimizer]?")));
  EXPECT_THAT(refusal("steps = 5\n" + std::string(kToy)),
              AllOf(HasSubstr("line 1"), HasSubstr("did you mean train.steps?")));
  EXPECT_THAT(refusal_of({"train.lr=5"}),
              AllOf(HasSubstr("--set train.lr=5"), HasSubstr("did you mean optimizer.lr?")));
  EXPECT_THAT(refusal_of({"train.warp_drive=5"}), Not(HasSubstr("did you mean")));
}

TEST(Config, AWrongTypeIsNamedWithLineFoundAndExpected) {
  EXPECT_THAT(refusal(replaced(std::string(kToy), "lr = 1e-3", "lr = \"fast\"")),
              AllOf(HasSubstr("toy.toml, line 15"), HasSubstr("optimizer.lr"),
                    HasSubstr("the string \"fast\""), HasSubstr("expected a number")));
  EXPECT_THAT(refusal_of({"train.steps=1e3"}), HasSubstr("expected an integer"));
  EXPECT_THAT(refusal_of({"train.steps=many"}),
              AllOf(HasSubstr("--set train.steps=many"), HasSubstr("the string \"many\"")));
  EXPECT_THAT(refusal_of({"data.shuffle=1"}), HasSubstr("expected true or false"));
  EXPECT_THAT(refusal_of({"data.train=[1]"}), HasSubstr("the integer 1"));
  EXPECT_THAT(refusal_of({"optimizer.schedule=cosin"}), HasSubstr("\"cosine\""));
  EXPECT_THAT(refusal("train = 5\n"), AllOf(HasSubstr("line 1"), HasSubstr("[train]")));
}

TEST(Config, ASectionOrAKeyGivenTwiceIsRefusedWithItsLine) {
  EXPECT_THAT(refusal(std::string(kToy) + "[train]\nseed = 1\n"),
              AllOf(HasSubstr("line 18"), HasSubstr("'train'"), HasSubstr("given twice")));
  EXPECT_THAT(refusal(replaced(std::string(kToy), "lr = 1e-3", "lr = 1e-3\nlr = 2e-3")),
              AllOf(HasSubstr("line 16"), HasSubstr("'lr'"), HasSubstr("given twice")));
  EXPECT_THAT(refusal("[model\n"), HasSubstr("line 1"));
}

TEST(Config, ABrokenSetNamesItself) {
  EXPECT_THAT(refusal_of({"train.steps"}), HasSubstr("section.key=value"));
  EXPECT_THAT(refusal_of({"data.train=[\"a\""}), HasSubstr("--set data.train=[\"a\""));
  EXPECT_THAT(refusal_of({"train.steps=5\ninjected=6"}), HasSubstr("more than one value"));
}

TEST(Config, AMissingFileIsNamed) {
  EXPECT_THAT(message_of([] { load_config("/nowhere/x.toml"); }), HasSubstr("/nowhere/x.toml"));
  EXPECT_THAT(message_of([] { load_config("/"); }), HasSubstr("cannot be read"));
}

// --- budgets ----------------------------------------------------------------------------------

TEST(Config, ABudgetNeedsAUnit) {
  EXPECT_THAT(refusal_of({"memory.device_budget=512"}), HasSubstr("with its unit"));
  EXPECT_THAT(refusal_of({"memory.device_budget='512'"}), HasSubstr("unit is missing"));
  EXPECT_THAT(refusal_of({"memory.device_budget='512 Mib'"}), HasSubstr("MiB"));
  EXPECT_THAT(refusal_of({"memory.device_budget=-40%"}), HasSubstr("negative"));
  EXPECT_THAT(refusal_of({"memory.device_budget=0"}), HasSubstr("above 0"));
  EXPECT_THAT(refusal_of({"memory.host_budget=40%"}), HasSubstr("in bytes"));
  EXPECT_THAT(refusal_of({"planner.memory_limit=40%"}), HasSubstr("bytes, e.g."));
}

TEST(Config, ABudgetAboveTheDeviceIsRefusedInBytes) {
  const Config config = parse(kToy, {"memory.device_budget=2 GiB"});
  EXPECT_NO_THROW(check_device_budget(config, int64_t{1} << 31));
  EXPECT_THAT(message_of([&] { check_device_budget(config, 1000); }),
              AllOf(HasSubstr("memory.device_budget"), HasSubstr("2147483648 bytes"),
                    HasSubstr("1000 bytes")));
}

TEST(Bytes, UnitsAreExact) {
  EXPECT_EQ(parse_byte_size("3 KiB").bytes, 3072);
  EXPECT_EQ(parse_byte_size("1.5MiB").bytes, 1572864);
  EXPECT_EQ(parse_byte_size("2 GB").bytes, 2000000000);
  EXPECT_EQ(parse_byte_size("9007199254740993 B").bytes, 9007199254740993);
  EXPECT_EQ(parse_byte_size("12.5%").percent, 12.5);
  for (const char* wrong : {"", "MiB", "nan MiB", "1e30 GiB", "4611686018427387904 B", "5 5 MiB"}) {
    EXPECT_THROW(parse_byte_size(wrong), Error) << wrong;
  }
}

TEST(Bytes, TextIsReadBackExactly) {
  for (const ByteSize size :
       {ByteSize{.bytes = 0, .percent = -1}, ByteSize{.bytes = 1048577, .percent = -1},
        ByteSize{.bytes = 0, .percent = 100.0 / 3}}) {
    EXPECT_EQ(parse_byte_size(to_string(size)), size);
  }
  EXPECT_EQ(describe_bytes(536870912), "536870912 bytes (512.0 MiB)");
  EXPECT_EQ(describe_bytes(100), "100 bytes");
}

TEST(Bytes, TheProcessOccupiesMemoryOfTheMachine) {
  EXPECT_GT(resident_bytes(), 0);
  EXPECT_GT(machine_bytes(), resident_bytes());
}

// --- the batch (O12) --------------------------------------------------------------------------

TEST(Config, ATotalBatchGivesTheMicroBatches) {
  EXPECT_EQ(parse(kToy, {"train.total_batch_tokens=1024"}).train.grad_accumulation, 4);
  EXPECT_EQ(parse(kToy, {"train.total_batch_tokens=256"}).train.grad_accumulation, 1);
}

TEST(Config, AnImpossibleTotalBatchIsToldTheNearestOnes) {
  EXPECT_THAT(refusal_of({"train.total_batch_tokens=1000"}),
              AllOf(HasSubstr("found 1000"), HasSubstr("8 x 32 = 256"), HasSubstr("768 or 1024")));
  for (const char* total : {"100", "0", "-256"}) {
    EXPECT_THAT(refusal_of({std::string("train.total_batch_tokens=") + total}),
                AllOf(HasSubstr(std::string("found ") + total), HasSubstr("nearest: 256")));
  }
  EXPECT_THAT(refusal_of({"train.total_batch_tokens=9223372036854775807"}),
              HasSubstr("549755813632"));  // (2^31 - 1) x 256
  EXPECT_THAT(refusal_of({"train.grad_accumulation=0"}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal_of({"train.grad_accumulation=2", "train.total_batch_tokens=512"}),
              HasSubstr("leave out one of the two"));
  EXPECT_THAT(refusal_of({"train.batch_size=2000000000"}), HasSubstr("at most 67108863"));
}

// --- impossible values (O23 and others) -----------------------------------------------------

TEST(Config, ImpossibleSchedulesAreRefused) {
  EXPECT_THAT(refusal_of({"optimizer.warmup_steps=11"}), HasSubstr("train.steps = 10"));
  EXPECT_THAT(refusal_of({"optimizer.min_lr=2e-3"}), HasSubstr("optimizer.lr = 0.001"));
  EXPECT_THAT(refusal_of({"optimizer.lr=0"}), HasSubstr("above 0"));
  EXPECT_THAT(refusal_of({"optimizer.lr=nan"}), HasSubstr("above 0"));
  EXPECT_THAT(refusal_of({"optimizer.lr=inf"}), HasSubstr("finite"));
  EXPECT_THAT(refusal_of({"optimizer.min_lr=-1"}), HasSubstr("0 or more"));
  EXPECT_THAT(refusal_of({"optimizer.warmup_steps=4", "optimizer.decay_steps=3"}),
              HasSubstr("optimizer.decay_steps"));
  EXPECT_THAT(refusal_of({"optimizer.schedule=constant", "optimizer.decay_steps=3"}),
              HasSubstr("never decays"));
  EXPECT_THAT(refusal_of({"optimizer.schedule=constant", "optimizer.min_lr=1e-4"}),
              HasSubstr("never falls"));
  EXPECT_THAT(refusal_of({"optimizer.schedule=wsd", "optimizer.warmup_steps=1",
                          "optimizer.decay_steps=10"}),
              HasSubstr("= 9"));
}

TEST(Config, SchedulesAtTheLimitsArePossible) {
  EXPECT_NO_THROW(parse(kToy, {"optimizer.warmup_steps=10"}));
  EXPECT_NO_THROW(parse(kToy, {"optimizer.schedule=wsd", "optimizer.decay_steps=10"}));
  EXPECT_NO_THROW(parse(kToy, {"optimizer.schedule=wsd", "optimizer.decay_steps=0"}));
  EXPECT_NO_THROW(parse(kToy, {"optimizer.min_lr=1e-3"}));
}

TEST(Config, ValuesOutOfRangeAreRefusedWithTheirKey) {
  for (const char* set : {"train.batch_size=0",     "train.sequence_length=33",
                          "train.steps=0",          "train.seed=-1",
                          "train.threads=-1",       "train.head_chunks=-1",
                          "model.dropout=1.0",      "model.n_head=3",
                          "model.n_head=0",         "model.vocab_size=0",
                          "model.pad_vocab_to=0",   "model.type=bert",
                          "optimizer.beta1=1.0",    "optimizer.eps=0",
                          "optimizer.grad_clip=-1", "optimizer.weight_decay=nan",
                          "planner.gap=-1",         "planner.space=double0",
                          "planner.time_limit_s=0", "planner.place_effort=0",
                          "output.log_every=0",     "output.keep_checkpoints=0",
                          "output.eval_every=5",    "output.dir=''",
                          "data.train=[]",          "data.tokenizer=word2vec"}) {
    const std::string text = set;
    // n_head is named by the key that has to fit it.
    const std::string key = text == "model.n_head=3" ? "n_embd" : text.substr(0, text.find('='));
    EXPECT_THAT(refusal_of({text}), AllOf(HasSubstr(key), HasSubstr("expected"))) << text;
  }
}

TEST(Config, AHeadHasAtMostAsManyChunksAsAMicroBatchHasTokens) {
  EXPECT_EQ(parse(kToy).train.head_chunks, 0);
  EXPECT_EQ(parse(kToy, {"train.head_chunks=256"}).train.head_chunks, 256);
  EXPECT_THAT(refusal_of({"train.head_chunks=257"}),
              HasSubstr("train.head_chunks: found 257, expected at most batch_size x "
                        "sequence_length = 256"));
  EXPECT_THAT(refusal_of({"train.head_chunks=1.5"}), HasSubstr("train.head_chunks"));
}

TEST(Config, WhatALaterVersionBringsIsRefusedAndNotIgnored) {
  for (const char* set :
       {"memory.disk_path=/scratch", "memory.disk_budget=1 GiB", "memory.optimizer_offload=0.5",
        "device.backend=cuda", "device.graph=true"}) {
    EXPECT_THAT(refusal_of({set}),
                AllOf(HasSubstr(set), HasSubstr("not available in this version; ")))
        << set;
  }
  EXPECT_THAT(refusal_of({"memory.disk_path=/scratch"}), HasSubstr("use memory.host_budget"));
  EXPECT_NO_THROW(parse(kToy, {"train.dtype=bfloat16"}));  // Can be planned.
  EXPECT_NO_THROW(parse(kToy, {"memory.optimizer_offload=auto"}));
  EXPECT_NO_THROW(parse(kToy, {"memory.optimizer_offload=0"}));
}

// --- writing ----------------------------------------------------------------------------------

void expect_round_trip(const Config& config) {
  const std::string text = to_toml(config);
  EXPECT_EQ(parse_config(text, "/another/place/config.toml"), config) << text;
}

TEST(Config, WrittenTextGivesTheSameConfigBack) {
  expect_round_trip(parse(kToy));
  expect_round_trip(parse(
      kToy,
      {"train.total_batch_tokens=1024", "optimizer.lr=0.1", "optimizer.schedule=linear",
       "memory.device_budget=12.34%", "memory.host_budget=1048577 B",
       "memory.optimizer_offload=0.0", "train.on_nonfinite=skip", "train.seed=9223372036854775807",
       "planner.profile=estimate", "planner.memory_limit=4 GiB",
       R"(output.dir="a \"quoted\" \\ \t \u007F é")", "data.val=['x', 'y']"}));
  expect_round_trip(parse(R"(model.type = "gpt2"
               model.preset = "gpt2-124m"
               data.train = "all.bin"
               train = {batch_size = 1, sequence_length = 1024, steps = 1}
               optimizer.lr = 1
               output.dir = "/run")"));
}

}  // namespace
}  // namespace olm2
