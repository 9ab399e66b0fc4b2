#include "train/run_data.h"

#include <algorithm>

#include "core/error.h"
#include "data/digest.h"
#include "data/file_list.h"
#include "data/tokenizer.h"
#include "train/progress.h"

namespace olm2 {
namespace {

Loader open_loader(const Config& config, const std::vector<std::string>& globs, bool shuffle) {
  const LoaderOptions options{.batch_size = config.train.batch_size,
                              .sequence_length = config.train.sequence_length,
                              .shuffle = shuffle,
                              .seed = static_cast<uint64_t>(config.train.seed),
                              .tokenizer = config.data.tokenizer,
                              .vocab_size = config.model.vocab_size};
  return {expand_globs(globs, "."), options};
}

void say_loader(const char* name, const Loader& loader) {
  say(std::string(name) + " data: " + std::to_string(loader.files().size()) + " files, " +
      std::to_string(loader.tokens()) + " tokens, of which " +
      std::to_string(loader.tokens_per_epoch()) + " per epoch are used as inputs (" +
      std::to_string(loader.remainder()) + " remain), " +
      std::to_string(loader.batches_per_epoch()) + " micro batches per epoch");
}

// A model smaller than the tokenizer can be trained as long as the data stay below it; sampling
// begins with the separator, which is the tokenizer's last id.
void check_vocabulary(const Config& config) {
  const TokenizerInfo tokenizer = tokenizer_info(config.data.tokenizer);
  if (config.model.vocab_size >= tokenizer.vocab_size) return;
  const std::string found = "model.vocab_size: got " + std::to_string(config.model.vocab_size) +
                            ", tokenizer " + config.data.tokenizer + " has " +
                            std::to_string(tokenizer.vocab_size) + " ids";
  if (config.output.sample_every > 0) {
    throw Error(found + "; raise it, or set output.sample_every = 0");
  }
  say(found + "; data with an id beyond the model's will end the run");
}

}  // namespace

RunData::RunData(const Config& config)
    : train(open_loader(config, config.data.train, config.data.shuffle)),
      shuffle(config.data.shuffle) {
  check_vocabulary(config);
  say_loader("training", train);
  if (config.output.eval_every == 0) return;
  val = std::make_unique<Loader>(open_loader(config, config.data.val, false));
  say_loader("validation", *val);
  if (eval_batches(config) < config.output.eval_batches) {
    say("validation: evaluating on " + std::to_string(eval_batches(config)) +
        " micro batches, for there are no more (output.eval_batches = " +
        std::to_string(config.output.eval_batches) + ")");
  }
}

int64_t RunData::eval_batches(const Config& config) const {
  return std::min(config.output.eval_batches, val->batches_per_epoch());
}

std::string RunData::digest() const {
  uint64_t digest = digest_of(shuffle ? "shuffled" : "in order");
  for (const TokenShard& file : train.files()) {
    digest = digest_of(file.path().filename().string(), digest);
    digest = digest_of(std::to_string(file.size()), digest);
  }
  return digest_text(digest);
}

FillBatch batches_of(const Loader& loader) {
  return [&loader](int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) {
    loader.batch(index, tokens, targets);
  };
}

}  // namespace olm2
