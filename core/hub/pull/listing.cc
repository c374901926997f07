#include "core/hub/pull/listing.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon::hub {
namespace {

using Json = nlohmann::json;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}
bool is_digest(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) && is_hex(text);
}

// Becomes a path below the snapshot.
bool is_safe_path(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.back() == '/') return false;
  if (path.size() > 1024 || path.find("//") != path.npos) return false;
  for (const std::string_view part : split(path, '/')) {
    if (part == "." || part == "..") return false;
  }
  return std::ranges::none_of(path, [](char c) { return static_cast<unsigned char>(c) < ' '; });
}

Status foreign(std::string_view what) {
  return invalid_argument("the answer is not the hub's: " + std::string(what) +
                          "; is HF_ENDPOINT the address of a hub?");
}

// "m-00002-of-00003.gguf" → "m.gguf": what is one model.
std::string model_of(const std::string& path) {
  static const std::regex kPart("-[0-9]{5}-of-[0-9]{5}\\.gguf$");
  return std::regex_replace(path, kPart, ".gguf");
}

bool is_description(std::string_view path) {
  constexpr std::array<std::string_view, 5> kEndings = {".json", ".txt", ".model", ".jinja",
                                                        ".tiktoken"};
  const bool below = path.find('/') != path.npos;
  if (below && path != "1_Pooling/config.json" && !path.starts_with("additional_chat_templates/")) {
    return false;
  }
  return path == "LICENSE" || path == "README.md" ||
         std::ranges::any_of(kEndings, [&](std::string_view end) { return path.ends_with(end); });
}

Status no_such_file(std::span<const RemoteFile> all, const std::string& wanted,
                    const std::string& repository) {
  constexpr size_t kMostNames = 20;
  std::vector<std::string> names;
  for (const RemoteFile& file : all) {
    if (names.size() < kMostNames) names.push_back(one_line(file.path));
  }
  return not_found(in_quotes(repository) + " has no file " + in_quotes(wanted) + "; it has " +
                   join(names) + (all.size() > kMostNames ? ", …" : ""));
}

}  // namespace

Result<std::string> read_commit(std::string_view json) {
  const Json info = Json::parse(json, nullptr, false);
  const auto sha = info.is_object() ? info.find("sha") : info.end();
  if (!info.is_object() || sha == info.end() || !sha->is_string()) {
    return foreign("it names no commit");
  }
  const std::string commit = sha->get<std::string>();
  if (!is_digest(commit)) return foreign("its commit is " + in_quotes(commit));
  return commit;
}

Status read_tree(std::string_view json, std::vector<RemoteFile>& files) {
  const Json tree = Json::parse(json, nullptr, false);
  if (!tree.is_array()) return foreign("it has no list of files");
  const auto text = [](const Json& of, const char* key) {
    const auto found = of.is_object() ? of.find(key) : of.end();
    return of.is_object() && found != of.end() && found->is_string() ? found->get<std::string>()
                                                                     : std::string();
  };
  for (const Json& entry : tree) {
    if (text(entry, "type") != "file") continue;
    RemoteFile file{.path = text(entry, "path"), .bytes = 0, .digest = text(entry, "oid")};
    const auto lfs = entry.find("lfs");
    const bool is_large = lfs != entry.end() && lfs->is_object();
    if (is_large) file.digest = text(*lfs, "oid");
    if (file.digest.starts_with("sha256:")) file.digest.erase(0, 7);
    const Json& sized = is_large && lfs->contains("size") ? *lfs : entry;
    const auto size = sized.find("size");
    if (!is_safe_path(file.path)) return foreign("a file has the path " + in_quotes(file.path));
    if (!is_digest(file.digest) || size == sized.end() || !size->is_number_unsigned()) {
      return foreign("the file " + in_quotes(file.path) + " has no hash, or no size");
    }
    file.bytes = size->get<uint64_t>();
    files.push_back(std::move(file));
  }
  return {};
}

Result<std::vector<RemoteFile>> files_of_model(std::span<const RemoteFile> all,
                                               const std::string& repository) {
  std::vector<RemoteFile> descriptions, weights, gguf;
  std::map<std::string, uint64_t> models;  // of GGUF: all parts together
  for (const RemoteFile& file : all) {
    const bool below = file.path.find('/') != file.path.npos;
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    if (is_description(file.path)) descriptions.push_back(file);
    // Mistral's own name for the same weights.
    const bool twice = file.path.starts_with("consolidated");
    if (!below && !twice && file.path.ends_with(".safetensors")) weights.push_back(file);
    if (!file.path.ends_with(".gguf") || name.starts_with("mmproj")) continue;
    gguf.push_back(file);
    models[model_of(file.path)] += file.bytes;
  }
  if (!weights.empty()) {
    descriptions.insert(descriptions.end(), weights.begin(), weights.end());
    return descriptions;
  }
  if (models.size() == 1) return gguf;
  if (models.empty()) {
    return not_found(in_quotes(repository) +
                     " has neither safetensors nor GGUF files, which is what can be run; name "
                     "files with --file if you want others");
  }
  std::string list;
  for (const auto& [name, bytes] : models) {
    list += "\n  " + one_line(name) + "  (" + approximate_bytes(bytes) + ")";
  }
  return invalid_argument(in_quotes(repository) + " has " + std::to_string(models.size()) +
                          " GGUF models; name one, as " + repository + "/" + models.begin()->first +
                          ", or with --file '*Q8_0*':" + list);
}

Result<std::vector<RemoteFile>> files_of_gguf(std::span<const RemoteFile> all,
                                              const std::string& name,
                                              const std::string& repository) {
  std::vector<RemoteFile> wanted;
  for (const RemoteFile& file : all) {
    if (model_of(file.path) == model_of(name)) wanted.push_back(file);
  }
  if (wanted.empty()) return no_such_file(all, name, repository);
  return wanted;
}

Result<std::vector<RemoteFile>> files_that_match(std::span<const RemoteFile> all,
                                                 std::span<const std::string> patterns,
                                                 const std::string& repository) {
  const auto matches = [](const RemoteFile& file, const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), file.path.c_str(), 0) == 0;
  };
  for (const std::string& pattern : patterns) {
    const auto met = [&](const RemoteFile& file) { return matches(file, pattern); };
    if (!std::ranges::any_of(all, met)) return no_such_file(all, pattern, repository);
  }
  std::vector<RemoteFile> wanted;
  for (const RemoteFile& file : all) {
    const auto met = [&](const std::string& pattern) { return matches(file, pattern); };
    if (std::ranges::any_of(patterns, met)) wanted.push_back(file);
  }
  return wanted;
}

}  // namespace tenon::hub
