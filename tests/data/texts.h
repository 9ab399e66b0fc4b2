// Made-up texts that look a little like language.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace olm2 {

inline std::string random_text(size_t bytes, unsigned seed) {
  static const std::vector<std::string> words = {
      "the",         "and",    "beginning",
      "light",       "God's",  "12",
      "caf\xC3\xA9", "earth,", "x",
      "y.",          "\n",     "don't",
      "  ",          "\r\n",   "\xE2\x80\x9Cquoted\xE2\x80\x9D",
      "(a)",         "b=c",    "waters",
      "firmament",   "?!",     "\xF0\x9F\x98\x80"};
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < bytes) {
    text += words[random() % words.size()];
    // Words that no cache has seen.
    if (random() % 8 == 0) text += std::to_string(random() % 100000);
    text += ' ';
  }
  return text;
}

// `documents` lines of .jsonl, from 1 to about 2000 bytes of text each.
inline std::string random_lines(int documents, unsigned seed) {
  std::mt19937 random(seed);
  std::string lines;
  for (int i = 0; i < documents; ++i) {
    std::string text;
    for (const char c : random_text(1 + random() % 2000, random() + 1U)) {
      if (c == '\n') text += "\\n";
      if (c == '\r') text += "\\r";
      if (c != '\n' && c != '\r') text += c;
    }
    lines += R"({"id": )" + std::to_string(i) + R"(, "text": ")" + text + "\"}\n";
  }
  return lines;
}

}  // namespace olm2
