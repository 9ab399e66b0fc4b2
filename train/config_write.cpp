// Writing: a Config as TOML text that reads back to the same Config.
#include <array>
#include <charconv>
#include <cstdio>

#include "train/config_keys.h"

namespace olm2 {
namespace {

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", static_cast<unsigned>(c));
      result += escape.data();
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string to_value(int64_t field) {
  return std::to_string(field);
}
std::string to_value(bool field) {
  return field ? "true" : "false";
}
std::string to_value(double field) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), field).ptr;
  std::string text(buffer.data(), end);
  const bool looks_integer = text.find_first_of(".e") == std::string::npos;
  return looks_integer ? text + ".0" : text;
}
std::string to_value(const std::string& field) {
  return in_quotes(field);
}
std::string to_value(const std::vector<std::string>& field) {
  std::string text;
  for (const std::string& element : field) text += (text.empty() ? "" : ", ") + in_quotes(element);
  return "[" + text + "]";
}
std::string to_value(const ByteSize& field) {
  return in_quotes(to_string(field));
}
std::string to_value(const std::optional<double>& field) {
  return field ? to_value(*field) : "\"auto\"";
}
std::string to_value(RateSchedule field) {
  return in_quotes(to_string(field));
}
std::string to_value(OnNonfinite field) {
  return in_quotes(to_string(field));
}

// Keys that follow from others and may not be given beside them.
bool is_left_out(const Config& config, std::string_view key) {
  const bool is_size = key == "model.n_layer" || key == "model.n_head" || key == "model.n_embd" ||
                       key == "model.vocab_size" || key == "model.context_length";
  if (is_size) return !config.preset.empty();
  if (key == "model.preset") return config.preset.empty();
  if (key == "train.grad_accumulation") return config.train.total_batch_tokens != 0;
  if (key == "train.total_batch_tokens") return config.train.total_batch_tokens == 0;
  return false;
}

}  // namespace

std::string to_toml(const Config& config) {
  std::string text;
  std::string_view open_section;
  visit_keys(config, [&](std::string_view key, const auto& field) {
    if (is_left_out(config, key)) return;
    const auto [section, name] = split_key(key);
    if (section != open_section) {
      text += (text.empty() ? "[" : "\n[") + std::string(section) + "]\n";
      open_section = section;
    }
    text += std::string(name) + " = " + to_value(field) + "\n";
  });
  return text;
}

}  // namespace olm2
