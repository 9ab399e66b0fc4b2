// A self-contained HTML page: one file, no script, no network, light and dark, narrow and wide.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace olm2 {

// Text inside HTML, SVG and attributes.
std::string escape(std::string_view text);

// For people, three or four digits: "1.9 GiB", "512 MiB", "0 bytes"; "8.11 s", "52.6 ms", "3 us".
std::string short_bytes(int64_t bytes);
std::string short_seconds(double seconds);
std::string percent(double share, int digits = 2);  // 0.0058 -> "0.58 %".

// Elements; `html` arguments are HTML already, `text` arguments are escaped here.
std::string paragraph(std::string_view html);
std::string section(std::string_view title_text, std::string_view html);
// What is open to whoever asks for it.
std::string details(std::string_view summary_text, std::string_view html, bool open = false);
// A figure in a box of its own, with what it means.
std::string card(std::string_view value_text, std::string_view label_text);
std::string cards(const std::vector<std::string>& all);
// The first column is text, the others are aligned as numbers.
std::string table(const std::vector<std::string>& head_texts,
                  const std::vector<std::vector<std::string>>& rows_of_texts);
// A coloured square and what it stands for.  `color`: see color_style.
std::string legend(const std::vector<std::pair<int, std::string>>& entries);

// Colours by number: 0 .. kColors - 1, distinct in both lights.  Classes "c0", "c1" ... fill.
inline constexpr int kColors = 12;

std::string page(std::string_view title_text, std::string_view body_html);

}  // namespace olm2
