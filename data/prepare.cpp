#include "data/prepare.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <thread>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/corpus.h"
#include "data/encode_pipeline.h"
#include "data/output_file.h"
#include "data/token_shard.h"

namespace olm2 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifestName = "manifest.json";

std::string name_of_dataset(const PrepareOptions& options) {
  std::string name = options.name;
  if (name.empty()) {
    const fs::path out = fs::absolute(options.out).lexically_normal();
    name = (out.has_filename() ? out : out.parent_path()).filename().string();
  }
  if (name.empty() || name.find('/') != std::string::npos) {
    throw Error("'" + name + "' cannot be the name of a dataset; give --name NAME without '/'");
  }
  return name;
}

std::string prefix_of(const std::string& name, Split split) {
  return name + "_" + std::string(to_string(split));
}

// "NAME_train_000000.bin", also with ".partial" behind.
bool is_shard_name(std::string_view file, const std::string& name) {
  if (file.ends_with(".partial")) file.remove_suffix(std::string_view(".partial").size());
  if (!file.ends_with(".bin")) return false;
  file.remove_suffix(4);
  return std::any_of(kSplits.begin(), kSplits.end(), [&](Split split) {
    const std::string prefix = prefix_of(name, split) + "_";
    if (!file.starts_with(prefix)) return false;
    const std::string_view number = file.substr(prefix.size());
    return number.size() >= 6 && number.find_first_not_of("0123456789") == std::string_view::npos;
  });
}

void make_directory(const fs::path& out) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error) throw Error(out.string() + ": cannot be created: " + error.message());
}

// A directory holds one dataset, as it has one manifest.
void refuse_other_dataset(const fs::path& out, const std::string& name) {
  const fs::path path = out / kManifestName;
  if (!fs::exists(path)) return;
  const MappedFile file(path);
  const auto manifest = nlohmann::json::parse(file.bytes(), nullptr, false);
  const bool ours = manifest.is_object() && manifest.contains("name") &&
                    manifest["name"].is_string() && manifest["name"] == name;
  if (ours) return;
  throw Error(path.string() + " is not of a dataset named '" + name +
              "'; choose another --out, the same --name, or remove it");
}

// Bytes of the token files where they follow from the inputs: bytes in text files.
std::optional<int64_t> known_output_bytes(const Corpus& corpus, const TokenizerInfo& tokenizer) {
  if (tokenizer.name != "bytes" || !corpus.is_all_text()) return std::nullopt;
  return (corpus.total_bytes() + corpus.inputs()) * token_width_of(tokenizer);
}

void require_space(const fs::path& out, int64_t needed) {
  const int64_t available = free_bytes(out);
  if (available < 0 || needed <= available) return;
  throw Error(out.string() + ": the token files need " + std::to_string(needed) + " bytes, " +
              std::to_string(available) + " are free; make room or choose another --out");
}

// Removes the shards of this name that end in `ending`: an earlier preparation, killed or complete,
// left them, and they must not mix with new ones.
void remove_shards(const fs::path& out, const std::string& name, std::string_view ending) {
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(out)) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with(ending) && is_shard_name(file, name)) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove(path);
}

double entropy_nats(const std::array<int64_t, 256>& counts) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  double entropy = 0;
  for (const int64_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / total;
    entropy -= p * std::log(p);
  }
  return entropy;
}

// The files of a preparation from their first byte to their final names.
class DatasetWriter {
 public:
  DatasetWriter(const fs::path& out, const Manifest& manifest, int64_t shard_tokens) : out_(out) {
    remove_shards(out, manifest.name, ".partial");
    for (const Split split : kSplits) {
      writers_.emplace_back(out, prefix_of(manifest.name, split), manifest.tokenizer, shard_tokens);
    }
  }

  void append(const EncodedUnit& unit) {
    for (const Split split : kSplits) writers_[index_of(split)].append(unit.ids[index_of(split)]);
  }

  // Completes the manifest by what was written, and publishes everything.
  void commit(Manifest& manifest) {
    for (const Split split : kSplits) {
      ShardWriter& writer = writers_[index_of(split)];
      writer.finish();
      manifest.splits[index_of(split)].shards.assign(writer.shards().begin(),
                                                     writer.shards().end());
    }
    OutputFile text(out_ / kManifestName);
    text.append(to_json(manifest));
    text.finish();

    fs::remove(out_ / kManifestName);
    remove_shards(out_, manifest.name, ".bin");
    for (ShardWriter& writer : writers_) writer.commit();
    sync_directory(out_);
    text.commit();
    sync_directory(out_);
  }

 private:
  fs::path out_;
  std::vector<ShardWriter> writers_;  // Per split.
};

void add_counts(Manifest& manifest, const EncodedUnit& unit) {
  for (size_t split = 0; split < kSplitCount; ++split) {
    SplitCounts& sum = manifest.splits[split].counts;
    sum.documents += unit.counts[split].documents;
    sum.bytes += unit.counts[split].bytes;
    sum.tokens += unit.counts[split].tokens;
  }
  manifest.empty_documents += unit.empty_documents;
}

int worker_count(int asked) {
  return asked > 0 ? asked : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

Manifest prepare(const PrepareOptions& options,
                 const std::function<void(const PrepareProgress&)>& report) {
  ensure(0 <= options.val_fraction && options.val_fraction < 1, "val_fraction in [0, 1)");
  Corpus corpus(options.inputs, options.val_fraction);
  const auto tokenizer = make_tokenizer(options.tokenizer);
  Manifest manifest;
  manifest.name = name_of_dataset(options);
  manifest.tokenizer = tokenizer->info();
  manifest.is_divided = corpus.is_single_document();
  manifest.val_fraction = options.val_fraction;

  make_directory(options.out);
  refuse_other_dataset(options.out, manifest.name);
  DatasetWriter writer(options.out, manifest, options.shard_tokens);
  if (const auto bytes = known_output_bytes(corpus, manifest.tokenizer)) {
    require_space(options.out, *bytes);
  }

  PrepareProgress progress{.bytes_total = corpus.total_bytes()};
  std::array<int64_t, 256> byte_counts{};
  EncodePipeline pipeline(corpus, options.val_fraction, *tokenizer, worker_count(options.workers));
  while (const std::optional<EncodedUnit> unit = pipeline.next()) {
    writer.append(*unit);
    add_counts(manifest, *unit);
    for (size_t i = 0; i < byte_counts.size(); ++i) byte_counts[i] += unit->byte_counts[i];
    progress.bytes_done += unit->input_bytes;
    for (const auto& ids : unit->ids) progress.tokens += static_cast<int64_t>(ids.size());
    report(progress);
  }
  manifest.empty_documents += corpus.empty_inputs();
  if (progress.tokens == 0) throw Error("the inputs hold no text: no token to write");
  manifest.unigram_nats_per_byte = entropy_nats(byte_counts);
  writer.commit(manifest);
  return manifest;
}

std::string to_json(const Manifest& manifest) {
  nlohmann::ordered_json json;
  json["format"] = 1;
  json["name"] = manifest.name;
  json["tokenizer"] = {{"name", manifest.tokenizer.name},
                       {"vocab_size", manifest.tokenizer.vocab_size},
                       {"separator", manifest.tokenizer.separator},
                       {"digest", digest_text(manifest.tokenizer.digest)}};
  json["token_width"] = token_width_of(manifest.tokenizer);
  json["val_fraction"] = manifest.val_fraction;
  json["divided_document"] = manifest.is_divided;
  json["empty_documents"] = manifest.empty_documents;
  json["unigram_nats_per_byte"] = manifest.unigram_nats_per_byte;
  for (const Split split : kSplits) {
    const PreparedSplit& prepared = manifest.splits[index_of(split)];
    auto& entry = json[std::string(to_string(split))];
    entry["documents"] = prepared.counts.documents;
    entry["bytes"] = prepared.counts.bytes;
    entry["tokens"] = prepared.counts.tokens;
    entry["files"] = nlohmann::ordered_json::array();
    for (const WrittenShard& shard : prepared.shards) {
      entry["files"].push_back({{"name", shard.file_name},
                                {"tokens", shard.tokens},
                                {"digest", digest_text(shard.digest)}});
    }
  }
  // Names of files need not be UTF-8.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace olm2
