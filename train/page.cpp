#include "train/page.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace olm2 {
namespace {

// Fill colours in daylight and at night.
constexpr std::array<const char*, kColors> kLight = {"#8d99ae", "#c3cad6", "#94703f", "#2f6fb3",
                                                     "#e08e2b", "#3a9d6e", "#b2547a", "#7a5bb5",
                                                     "#c2b23c", "#3fa7b5", "#c9633f", "#9a9a9a"};
constexpr std::array<const char*, kColors> kDark = {"#6b778c", "#49536a", "#bd9766", "#5a9be0",
                                                    "#eaa54f", "#55c08d", "#d57a9f", "#a288dc",
                                                    "#d8c95a", "#5cc4d2", "#e0835f", "#7d7d7d"};

constexpr const char* kStyle = R"(
:root { --paper: #fff; --ink: #1c2430; --soft: #5d6878; --line: #d9dee6; --box: #f4f6f9;
  --budget: #c62828; --stall: #d32f2f; --grid: #e6eaf0; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181f; --ink: #e4e8ee; --soft: #9aa5b5;
  --line: #303846; --box: #1c222c; --budget: #ff6b6b; --stall: #ff6b6b; --grid: #262d39; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 1rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans",
  sans-serif; }
h1 { font-size: 1.55rem; line-height: 1.25; margin: .6rem 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; padding-top: .8rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; }
p { margin: .5rem 0; max-width: 46rem; }
.lead { font-size: 1.08rem; }
.soft, figcaption, .note { color: var(--soft); font-size: .88rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem;
  margin: 1rem 0; }
.card { background: var(--box); border: 1px solid var(--line); border-radius: .5rem;
  padding: .55rem .75rem; }
.card b { display: block; font-size: 1.2rem; }
.card span { color: var(--soft); font-size: .85rem; }
figure { margin: .8rem 0; }
.wide { overflow-x: auto; }
.wide > svg { display: block; width: 100%; min-width: 640px; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, -apple-system, "Segoe UI", Roboto,
  "DejaVu Sans", sans-serif; }
svg .small { font-size: 11px; fill: var(--soft); }
svg .end { text-anchor: end; }
svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--grid); stroke-width: 1; }
svg .axis { stroke: var(--soft); stroke-width: 1; }
svg .budget { stroke: var(--budget); stroke-width: 1.5; stroke-dasharray: 6 4; }
svg .budget-text { fill: var(--budget); }
svg .stall { fill: var(--stall); }
svg .lane { fill: var(--box); }
svg .hover { fill: var(--ink); fill-opacity: 0; }
svg .hover:hover { fill-opacity: .12; }
svg .curve { fill: none; }
svg .dash { stroke-dasharray: 7 4; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; list-style: none; margin: .4rem 0;
  padding: 0; font-size: .88rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: .15rem;
  margin-right: .35rem; vertical-align: -.08rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem .25rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 600; }
details { margin: .8rem 0; }
summary { cursor: pointer; font-weight: 600; }
dt { font-weight: 600; margin-top: .5rem; }
dd { margin: 0 0 0 1rem; max-width: 44rem; }
code { background: var(--box); padding: .05rem .25rem; border-radius: .2rem; font-size: .9em; }
)";

std::string color_rules(const std::array<const char*, kColors>& colors) {
  std::string rules;
  for (size_t c = 0; c < colors.size(); ++c) {
    const std::string name = ".c" + std::to_string(c);
    rules += name + " { fill: " + colors[c] + "; background: " + colors[c] + "; }\n";
    rules += ".s" + std::to_string(c) + " { stroke: " + colors[c] + "; }\n";
  }
  return rules;
}

std::string formatted(const char* format, double number, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, number);
  return std::string(text.data()) + unit;
}

// Three digits, at least.
std::string three_digits(double number, const char* unit) {
  const double size = std::abs(number);
  const char* format = size >= 99.95 ? "%.0f" : (size >= 9.995 ? "%.1f" : "%.2f");
  return formatted(format, number, unit);
}

}  // namespace

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string short_bytes(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {" bytes", " KiB", " MiB", " GiB", " TiB"};
  auto number = static_cast<double>(bytes);
  size_t unit = 0;
  for (; unit + 1 < kUnits.size() && std::abs(number) >= 999.5; ++unit) number /= 1024;
  return unit == 0 ? std::to_string(bytes) + kUnits[0] : three_digits(number, kUnits[unit]);
}

std::string short_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0";
  if (size >= 0.9995) return three_digits(seconds, " s");
  if (size >= 0.9995e-3) return three_digits(seconds * 1e3, " ms");
  return three_digits(seconds * 1e6, " us");
}

std::string percent(double share, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f %%", digits, 100 * share);
  return text.data();
}

std::string paragraph(std::string_view html) {
  return "<p>" + std::string(html) + "</p>\n";
}

std::string section(std::string_view title, std::string_view html) {
  return "<section>\n<h2>" + escape(title) + "</h2>\n" + std::string(html) + "</section>\n";
}

std::string details(std::string_view summary, std::string_view html, bool open) {
  return std::string(open ? "<details open=\"open\">" : "<details>") + "<summary>" +
         escape(summary) + "</summary>\n" + std::string(html) + "</details>\n";
}

std::string card(std::string_view value, std::string_view label) {
  return "<div class=\"card\"><b>" + escape(value) + "</b><span>" + escape(label) +
         "</span></div>\n";
}

std::string cards(const std::vector<std::string>& all) {
  std::string html = "<div class=\"cards\">\n";
  for (const std::string& one : all) html += one;
  return html + "</div>\n";
}

std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"wide\"><table>\n<tr>";
  for (const std::string& text : head) html += "<th>" + escape(text) + "</th>";
  html += "</tr>\n";
  for (const std::vector<std::string>& row : rows) {
    html += "<tr>";
    for (const std::string& text : row) html += "<td>" + escape(text) + "</td>";
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string legend(const std::vector<std::pair<int, std::string>>& entries) {
  std::string html = "<ul class=\"legend\">";
  for (const auto& [color, text] : entries) {
    html += "<li><i class=\"c" + std::to_string(color) + "\"></i>" + escape(text) + "</li>";
  }
  return html + "</ul>\n";
}

std::string page(std::string_view title, std::string_view body) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
         "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>" +
         escape(title) + "</title>\n<style>" + kStyle + color_rules(kLight) +
         "@media (prefers-color-scheme: dark) {\n" + color_rules(kDark) + "}\n</style>\n</head>\n" +
         "<body>\n" + std::string(body) + "</body>\n</html>\n";
}

}  // namespace olm2
