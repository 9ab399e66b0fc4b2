#include "data/file_list.h"

#include <algorithm>

#include <glob.h>

#include "core/error.h"

namespace olm2 {
namespace {

// The result of glob(3), freed in the end.
struct Matches {
  explicit Matches(const std::string& pattern) {
    status = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  }
  ~Matches() { globfree(&found); }
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;

  glob_t found = {};
  int status = 0;
};

// A directory's own name may have characters that mean something in a glob.
std::string escaped(const std::string& path) {
  std::string text;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

}  // namespace

std::vector<std::filesystem::path> expand_globs(std::span<const std::string> globs,
                                                const std::filesystem::path& base) {
  std::vector<std::filesystem::path> files;
  for (const std::string& pattern : globs) {
    const bool absolute = std::filesystem::path(pattern).is_absolute();
    const std::string whole =
        absolute || base.empty() ? pattern : escaped(base.string()) + "/" + pattern;
    const Matches matches(whole);
    if (matches.status != 0 && matches.status != GLOB_NOMATCH) {
      throw Error("'" + pattern + "': no memory to expand it");
    }
    if (matches.found.gl_pathc == 0) {
      throw Error("'" + pattern + "' matches no file" +
                  (whole == pattern ? "" : " (looked for " + whole + ")") +
                  "; make token files with 'olm2-data prepare'");
    }
    for (size_t i = 0; i < matches.found.gl_pathc; ++i) {
      files.emplace_back(std::filesystem::path(matches.found.gl_pathv[i]).lexically_normal());
    }
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.native() < b.native(); });
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace olm2
