// Reading: TOML text and --set to a Config.  The only file that knows the TOML library.
#include "train/config.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <list>
#include <map>
#include <sstream>
#include <utility>

#include <toml++/toml.h>

#include "core/error.h"
#include "train/config_keys.h"

namespace olm2 {
namespace {

// A value as it was given.
struct Given {
  const toml::node* node = nullptr;
  std::string set_text;  // Right-hand side of a --set; empty: from the file.
  std::string origin;
};
using GivenValues = std::map<std::string, Given, std::less<>>;

bool is_known_key(std::string_view key) {
  bool known = false;
  const Config defaults;
  visit_keys(defaults,
             [&](std::string_view candidate, const auto&) { known = known || candidate == key; });
  return known;
}

bool is_section(std::string_view name) {
  bool known = false;
  const Config defaults;
  visit_keys(defaults, [&](std::string_view candidate, const auto&) {
    known = known || split_key(candidate).first == name;
  });
  return known;
}

// "the integer 3", "the string \"abc\"", "an array".
std::string describe(const toml::node& node) {
  std::ostringstream text;
  if (const auto* s = node.as_string()) {
    text << "the string \"" << s->get() << '"';
  } else if (const auto* i = node.as_integer()) {
    text << "the integer " << i->get();
  } else if (const auto* f = node.as_floating_point()) {
    text << "the number " << f->get();
  } else if (const auto* b = node.as_boolean()) {
    text << "the boolean " << (b->get() ? "true" : "false");
  } else if (node.is_table()) {
    text << "a section";
  } else {
    text << (node.is_array() ? "an array" : "a date or time");
  }
  return text.str();
}

// --- one value -> one field -----------------------------------------------------------------

struct Reader {
  std::string_view key;
  const Given& given;

  [[noreturn]] void refuse(const std::string& expected) const {
    throw Error(given.origin + ": " + std::string(key) + ": found " + describe(*given.node) +
                ", expected " + expected);
  }

  void read(int64_t& field) const {
    const auto* const node = given.node->as_integer();
    if (node == nullptr) refuse("an integer");
    field = node->get();
  }
  void read(double& field) const {
    const auto number = given.node->value<double>();
    if (!number || !given.node->is_number()) refuse("a number");
    field = *number;
  }
  void read(bool& field) const {
    const auto* const node = given.node->as_boolean();
    if (node == nullptr) refuse("true or false");
    field = node->get();
  }
  void read(std::string& field) const {
    const auto* const node = given.node->as_string();
    if (node != nullptr) {
      field = node->get();
    } else if (!given.set_text.empty()) {
      field = given.set_text;  // A word that happens to look like a number or a date.
    } else {
      refuse("a string");
    }
  }
  void read(std::vector<std::string>& field) const {
    field.clear();
    if (const auto* const single = given.node->as_string()) {
      field.push_back(single->get());
      return;
    }
    const auto* const array = given.node->as_array();
    if (array == nullptr) refuse("an array of strings");
    for (const toml::node& element : *array) {
      const auto* const text = element.as_string();
      if (text == nullptr) refuse("an array of strings (it holds " + describe(element) + ")");
      field.push_back(text->get());
    }
  }
  void read(ByteSize& field) const {
    const auto* const integer = given.node->as_integer();
    if (integer != nullptr && integer->get() == 0) {
      field = {.bytes = 0, .percent = -1};
      return;
    }
    const auto* const text = given.node->as_string();
    if (text == nullptr) refuse("a size with its unit, e.g. \"512 MiB\" or \"40%\"");
    try {
      field = parse_byte_size(text->get());
    } catch (const Error& error) {
      throw Error(given.origin + ": " + std::string(key) + ": " + error.what());
    }
  }
  void read(std::optional<double>& field) const {
    const auto* const text = given.node->as_string();
    if (text != nullptr && text->get() == "auto") {
      field.reset();
      return;
    }
    if (!given.node->is_number()) refuse("\"auto\" or a number");
    field = given.node->value<double>();
  }
  template <typename Enum, size_t count>
  void read_name(Enum& field, const std::array<Enum, count>& choices) const {
    const auto* const text = given.node->as_string();
    std::string names;
    for (const Enum choice : choices) {
      if (text != nullptr && text->get() == to_string(choice)) {
        field = choice;
        return;
      }
      names += (names.empty() ? "\"" : " or \"") + std::string(to_string(choice)) + "\"";
    }
    refuse(names);
  }
  void read(RateSchedule& field) const {
    using enum RateSchedule;
    read_name(field, std::array{cosine, linear, constant, wsd});
  }
  void read(OnNonfinite& field) const {
    read_name(field, std::array{OnNonfinite::stop, OnNonfinite::skip});
  }
};

// --- text -> values ---------------------------------------------------------------------------

std::string at_line(const std::string& file, const toml::source_region& region) {
  return file + ", line " + std::to_string(region.begin.line);
}

void refuse_unknown(std::string_view key, const std::string& origin) {
  const std::string_view instead = use_instead(key);
  if (!instead.empty()) {
    throw Error(origin + ": " + std::string(key) + ": not available in this version; " +
                std::string(instead));
  }
  throw Error(origin + ": unknown key " + std::string(key) + did_you_mean(key));
}

[[noreturn]] void refuse_section(const std::string& name, const toml::node& found,
                                 const std::string& origin) {
  throw Error(origin + ": " + name + ": found " + describe(found) + ", expected a section [" +
              name + "]");
}

toml::table parse_file(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const std::string description(error.description());
    const bool twice = description.find("redefine") != std::string::npos;
    throw Error(at_line(file, error.source()) + ": " + description +
                (twice ? "; it is given twice" : ""));
  }
}

// Flattens sections to "section.key", in the order of lines so that the first mistake is named.
void collect_file(const toml::table& root, const std::string& file, GivenValues& values) {
  std::vector<std::pair<std::string, const toml::node*>> found;
  for (const auto& [section, node] : root) {
    const toml::table* const table = node.as_table();
    if (table == nullptr || !is_section(section.str())) {
      found.emplace_back(section.str(), &node);
      continue;
    }
    const std::string prefix = std::string(section.str()) + ".";
    for (const auto& [key, value] : *table) {
      found.emplace_back(prefix + std::string(key.str()), &value);
    }
  }
  std::ranges::sort(found, {}, [](const auto& entry) {
    return std::pair(entry.second->source().begin.line, entry.second->source().begin.column);
  });
  for (const auto& [key, node] : found) {
    const std::string origin = at_line(file, node->source());
    if (is_section(key)) refuse_section(key, *node, origin);
    if (!is_known_key(key)) refuse_unknown(key, origin);
    values[key] = {.node = node, .set_text = "", .origin = origin};
  }
}

// The value of a --set as a table with the one key "value".
toml::table parse_set_value(const std::string& value, const std::string& origin) {
  try {
    toml::table table = toml::parse("value = " + value);
    if (table.size() == 1) return table;
    throw Error(origin + ": found more than one value, expected one");
  } catch (const toml::parse_error& error) {
    const bool meant_as_toml =
        !value.empty() && std::string_view("\"'[{").find(value[0]) != std::string_view::npos;
    if (meant_as_toml) {
      throw Error(origin + ": not a TOML value: " + std::string(error.description()));
    }
    return toml::table{{"value", value}};  // A bare word is a string.
  }
}

void collect_set(const std::string& set, std::list<toml::table>& tables, GivenValues& values) {
  const std::string origin = "--set " + set;
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(origin + ": expected --set section.key=value, e.g. --set train.steps=100");
  }
  const std::string key = set.substr(0, equals);
  const std::string value = set.substr(equals + 1);
  if (!is_known_key(key)) refuse_unknown(key, origin);
  tables.push_back(parse_set_value(value, origin));
  values[key] = {.node = tables.back().get("value"), .set_text = value, .origin = origin};
}

// --- paths --------------------------------------------------------------------------------------

void anchor(std::string& path, const std::filesystem::path& folder) {
  if (!path.empty()) path = (folder / path).lexically_normal().string();
}

void anchor_paths(Config& config, const std::filesystem::path& file) {
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  for (std::string& glob : config.data.train) anchor(glob, folder);
  for (std::string& glob : config.data.val) anchor(glob, folder);
  anchor(config.init_from, folder);
  anchor(config.output.dir, folder);
  std::string& profile = config.planner.profile;
  if (profile != "measure" && profile != "estimate") anchor(profile, folder);
}

}  // namespace

Config parse_config(std::string_view text, const std::filesystem::path& file,
                    std::span<const std::string> sets) {
  const toml::table root = parse_file(text, file.string());
  std::list<toml::table> set_tables;  // A list: nodes keep their addresses.
  GivenValues values;
  collect_file(root, file.string(), values);
  for (const std::string& set : sets) collect_set(set, set_tables, values);

  Config config;
  KeyOrigins origins{.file = file.string(), .given = {}};
  visit_keys(config, [&](std::string_view key, auto& field) {
    const auto found = values.find(key);
    if (found == values.end()) return;
    Reader{key, found->second}.read(field);
    origins.given.emplace(key, found->second.origin);
  });
  check_required(origins);
  resolve(config, origins);
  check_values(config, origins);
  anchor_paths(config, file);
  return config;
}

Config load_config(const std::filesystem::path& file, std::span<const std::string> sets) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream || std::filesystem::is_directory(file)) {
    throw Error(file.string() + ": cannot be read; expected a TOML file with the configuration");
  }
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  return parse_config(text, file, sets);
}

}  // namespace olm2
