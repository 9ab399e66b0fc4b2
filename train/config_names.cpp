// Names: of choices, and which key somebody meant.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "train/config_keys.h"

namespace olm2 {
namespace {

// Names of the same things in other programs.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kOtherNames = {{
    {"learning_rate", "optimizer.lr"},
    {"max_lr", "optimizer.lr"},
    {"lr_schedule", "optimizer.schedule"},
    {"lr_scheduler", "optimizer.schedule"},
    {"warmup_iters", "optimizer.warmup_steps"},
    {"lr_decay_iters", "optimizer.decay_steps"},
    {"max_grad_norm", "optimizer.grad_clip"},
    {"max_iters", "train.steps"},
    {"max_steps", "train.steps"},
    {"block_size", "train.sequence_length"},
    {"seq_len", "train.sequence_length"},
    {"micro_batch_size", "train.batch_size"},
    {"gradient_accumulation_steps", "train.grad_accumulation"},
    {"n_positions", "model.context_length"},
    {"hidden_size", "model.n_embd"},
    {"budget", "memory.device_budget"},
    {"out_dir", "output.dir"},
    {"output_dir", "output.dir"},
}};

// For keys of later versions: what to do without them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLaterKeys = {{
    {"memory.disk_path", "use memory.host_budget for a second tier"},
    {"memory.disk_budget", "use memory.host_budget for a second tier"},
    {"device.graph", "leave it out: only a GPU captures graphs"},
}};

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string_view to_string(OnNonfinite choice) {
  return choice == OnNonfinite::stop ? "stop" : "skip";
}

std::pair<std::string_view, std::string_view> split_key(std::string_view full_key) {
  const size_t dot = full_key.find('.');
  if (dot == std::string_view::npos) return {"", full_key};
  return {full_key.substr(0, dot), full_key.substr(dot + 1)};
}

std::string did_you_mean(std::string_view full_key) {
  const std::string_view section = split_key(full_key).first;
  const std::string_view key = split_key(full_key).second;
  const size_t most_letters = std::max<size_t>(2, key.size() / 3);
  std::string best;
  size_t best_score = std::numeric_limits<size_t>::max();
  const auto consider = [&](std::string_view candidate, std::string_view spelling) {
    const size_t letters = edit_distance(key, spelling);
    if (letters > most_letters || letters >= spelling.size()) return;
    // Among equally close names the one of the same section wins.
    const size_t score = 2 * letters + (split_key(candidate).first == section ? 0 : 1);
    if (score >= best_score) return;
    best_score = score;
    best = candidate;
  };
  const Config defaults;
  visit_keys(defaults, [&](std::string_view candidate, const auto& /*field*/) {
    consider(candidate, split_key(candidate).second);
    // A word without a section may be a section.
    if (section.empty()) {
      const std::string_view its_section = split_key(candidate).first;
      consider("[" + std::string(its_section) + "]", its_section);
    }
  });
  for (const auto& [other_name, candidate] : kOtherNames) consider(candidate, other_name);
  return best.empty() ? "" : "; did you mean " + best + "?";
}

std::string_view use_instead(std::string_view full_key) {
  const auto* const found = std::ranges::find(
      kLaterKeys, full_key, &std::pair<std::string_view, std::string_view>::first);
  return found == kLaterKeys.end() ? std::string_view{} : found->second;
}

}  // namespace olm2
