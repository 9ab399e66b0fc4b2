// olm2-data: makes token files of texts, and shows what is in token files.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "core/error.h"
#include "core/program.h"
#include "core/version.h"
#include "data/digest.h"
#include "data/prepare.h"
#include "data/token_shard.h"

namespace olm2 {
namespace {

constexpr const char* kExample = R"(Examples:
  olm2-data prepare book.txt --out run/book --tokenizer bytes --val-fraction 0.02
  olm2-data prepare web/*.jsonl --out run/web --workers 8
  olm2-data inspect run/web/*.bin

A .txt file is one document; a .jsonl file has one per line, the string under "text".
Every document is followed by the separator; empty documents yield nothing.)";

// "1,234,567"
std::string grouped(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// On a terminal a bar that is drawn over, elsewhere a line now and then.
class ProgressBar {
 public:
  void show(const PrepareProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const bool done = progress.bytes_done == progress.bytes_total;
    if (now - shown_ < (is_terminal_ ? kBarPause : kLinePause) && !(done && is_terminal_)) return;
    shown_ = now;
    const double share = static_cast<double>(progress.bytes_done) /
                         static_cast<double>(std::max<int64_t>(progress.bytes_total, 1));
    const std::chrono::duration<double> elapsed = now - start_;
    const double rate = static_cast<double>(progress.bytes_done) / 1e6 / elapsed.count();
    if (is_terminal_) {
      const std::string bar(static_cast<size_t>(share * kBarWidth), '#');
      std::fprintf(stderr, "\r[%-*s] %3.0f %%  %s tokens  %.1f MB/s ", kBarWidth, bar.c_str(),
                   100 * share, grouped(progress.tokens).c_str(), rate);
      if (done) std::fputc('\n', stderr);
    } else {
      std::fprintf(stderr, "%3.0f %%  %s tokens  %.1f MB/s\n", 100 * share,
                   grouped(progress.tokens).c_str(), rate);
    }
  }

 private:
  static constexpr int kBarWidth = 40;
  static constexpr std::chrono::milliseconds kBarPause{100};
  static constexpr std::chrono::milliseconds kLinePause{5000};
  bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_ = start_;
};

void run_prepare(const PrepareOptions& options) {
  ProgressBar bar;
  const Manifest manifest =
      prepare(options, [&](const PrepareProgress& progress) { bar.show(progress); });
  for (const Split split : kSplits) {
    const PreparedSplit& prepared = manifest.splits[index_of(split)];
    std::cout << to_string(split) << ": " << grouped(prepared.counts.documents) << " documents, "
              << grouped(prepared.counts.bytes) << " bytes, " << grouped(prepared.counts.tokens)
              << " tokens of " << manifest.tokenizer.name << "\n";
    for (const WrittenShard& shard : prepared.shards) {
      std::cout << "  " << (options.out / shard.file_name).string() << "  " << grouped(shard.tokens)
                << " tokens\n";
    }
  }
  if (manifest.is_divided) std::cout << "one document: its end became val\n";
  std::cout << "empty documents: " << grouped(manifest.empty_documents) << "\n";
  std::printf("unigram entropy: %.4f nats per byte\n", manifest.unigram_nats_per_byte);
  if (manifest.splits[index_of(Split::val)].counts.tokens == 0 && options.val_fraction > 0) {
    std::cerr << "olm2-data: no document fell into val; give a larger --val-fraction\n";
  }
}

// One line of printable ASCII: "\n" as backslash n, other bytes as \xNN.
std::string escaped(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (c == '\n') {
      shown += "\\n";
    } else if (c == '\\') {
      shown += "\\\\";
    } else if (' ' <= c && c <= '~') {
      shown += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      shown += "\\x";
      shown += "0123456789abcdef"[byte >> 4U];
      shown += "0123456789abcdef"[byte & 15U];
    }
  }
  return shown;
}

void inspect(const std::filesystem::path& path) {
  const TokenShard shard(path);
  const ShardHeader& header = shard.header();
  // Raw uint16 files come from nanoGPT, whose tokenizer is GPT-2's.
  const std::string tokenizer = header.tokenizer.empty() ? "gpt2" : header.tokenizer;
  std::cout << path.string() << "\n  format " << to_string(header.format);
  if (header.version > 0) std::cout << ", version " << header.version;
  std::cout << ", " << header.token_width << " bytes per token\n  tokenizer " << tokenizer
            << (header.tokenizer.empty() ? " (assumed)" : "");
  if (header.digest != 0) std::cout << ", digest " << digest_text(header.digest);
  std::cout << "\n  " << grouped(shard.size()) << " tokens\n";

  shard.require(tokenizer_info(tokenizer));
  std::vector<uint32_t> ids(static_cast<size_t>(std::min<int64_t>(shard.size(), 16)));
  shard.read(0, ids);
  std::cout << "  first tokens:";
  for (const uint32_t id : ids) std::cout << " " << id;
  std::cout << "\n  \"" << escaped(make_tokenizer(tokenizer)->decode(ids)) << "\"\n";
}

int run(int argc, char** argv) {
  CLI::App app{"Makes token files of texts, and shows what is in token files."};
  app.name("olm2-data");
  app.footer(kExample);
  app.set_version_flag("--version", [] { return version_text(); });
  app.require_subcommand(1);

  PrepareOptions options;
  CLI::App* prepare_command = app.add_subcommand("prepare", "Texts in, token files out");
  prepare_command->add_option("INPUT", options.inputs, ".txt or .jsonl files")->required();
  prepare_command->add_option("--out", options.out, "Directory for the token files")->required();
  prepare_command->add_option("--name", options.name,
                              "Beginning of their names (default: of --out)");
  prepare_command->add_option("--tokenizer", options.tokenizer, "gpt2 or bytes")
      ->check(CLI::IsMember({"gpt2", "bytes"}))
      ->capture_default_str();
  prepare_command
      ->add_option("--val-fraction", options.val_fraction,
                   "Share of the documents for evaluation; of a single .txt, its end")
      ->check(CLI::Range(0.0, 0.999999))
      ->capture_default_str();
  prepare_command->add_option("--workers", options.workers, "Threads; 0: all of the machine")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  prepare_command->add_option("--shard-tokens", options.shard_tokens, "Tokens per file")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();

  std::vector<std::filesystem::path> files;
  CLI::App* inspect_command = app.add_subcommand("inspect", "Shows headers and first tokens");
  inspect_command->add_option("FILE", files, "Token files")->required();

  CLI11_PARSE_OR_EXIT_2(app, argc, argv);
  return run_program("olm2-data", [&] {
    if (*prepare_command) run_prepare(options);
    for (const auto& file : files) inspect(file);
  });
}

}  // namespace
}  // namespace olm2

int main(int argc, char** argv) {
  return olm2::run(argc, argv);
}
