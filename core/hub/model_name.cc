#include "core/hub/model_name.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/text.h"

namespace tenon::hub {
namespace {

constexpr size_t kMostNameBytes = 96;  // of owner and name together
constexpr size_t kMostRevisionBytes = 255;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// An owner, or a model's own name.
bool is_part(std::string_view part) {
  const auto edge = [](char c) { return c == '-' || c == '.'; };
  return !part.empty() && std::ranges::all_of(part, is_word) && !edge(part.front()) &&
         !edge(part.back()) && part.find("--") == part.npos && part.find("..") == part.npos &&
         !part.ends_with(".git");
}

// Becomes the path of a file below a folder, so no part may lead out of it.
bool is_path_below(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.back() == '/') return false;
  if (path.find("//") != path.npos) return false;
  return std::ranges::none_of(split(path, '/'), [](std::string_view part) {
    return part == "." || part == ".." ||
           std::ranges::any_of(part, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  });
}

bool is_revision(std::string_view text) {
  return text.size() <= kMostRevisionBytes && is_path_below(text) &&
         std::ranges::all_of(text, [](char c) { return is_word(c) || c == '/' || c == '+'; });
}

}  // namespace

std::string ModelName::text() const {
  return repository + (file.empty() ? "" : "/" + file) + (revision == "main" ? "" : "@" + revision);
}

std::optional<ModelName> parse_model_name(std::string_view text) {
  ModelName name;
  if (const size_t at = text.find('@'); at != text.npos) {
    name.revision = text.substr(at + 1);
    if (!is_revision(name.revision)) return std::nullopt;
    text = text.substr(0, at);
  }
  if (!is_path_below(text)) return std::nullopt;
  const std::vector<std::string_view> parts = split(text, '/');
  const size_t own = std::min<size_t>(parts.size(), 2);
  for (size_t i = 0; i < own; ++i) {
    if (!is_part(parts[i])) return std::nullopt;
    name.repository += (i == 0 ? "" : "/") + std::string(parts[i]);
  }
  if (name.repository.size() > kMostNameBytes) return std::nullopt;
  if (parts.size() > own) {
    name.file = text.substr(name.repository.size() + 1);
    if (!name.file.ends_with(".gguf")) return std::nullopt;
  } else if (name.repository.ends_with(".gguf")) {
    return std::nullopt;  // a file of the current folder, or of one below it
  }
  return name;
}

}  // namespace tenon::hub
