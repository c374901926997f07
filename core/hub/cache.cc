#include "core/hub/cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/base/files/mapped_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "models--";
constexpr size_t kMostRefBytes = 4096;

// Empty counts as unset, as nobody means the root of the disk.
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "~/cache", "$HOME/cache", "${HOME}/cache". What is not set stays as it is written.
std::string expanded(std::string text) {
  if (text == "~" || text.starts_with("~/")) text = variable("HOME") + text.substr(1);
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool braces = text[i] == '$' && i + 1 < text.size() && text[i + 1] == '{';
    const size_t begin = i + (braces ? 2 : 1);
    size_t end = begin;
    const auto is_name = [](char c) { return c == '_' || std::isalnum(static_cast<uint8_t>(c)); };
    while (text[i] == '$' && end < text.size() && is_name(text[end])) ++end;
    const bool closed = !braces || (end < text.size() && text[end] == '}');
    const std::string name = text[i] == '$' ? text.substr(begin, end - begin) : "";
    if (!name.empty() && closed && std::getenv(name.c_str()) != nullptr) {
      out += variable(name.c_str());
      i = end + (braces ? 1 : 0);
    } else {
      out += text[i++];
    }
  }
  return out;
}

// Names of GGUF files in a folder, sorted; of one in parts, the first part alone.
std::vector<std::string> gguf_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.ends_with(".gguf")) continue;
    const size_t of = name.rfind("-of-");
    const bool later_part =
        of != name.npos && of >= 6 && name[of - 6] == '-' && name.substr(of - 5, 5) != "00001";
    // Encoders of images, which lie next to a model and are none.
    if (!later_part && !name.starts_with("mmproj")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

// <cache>/models--…/snapshots/<commit>[/file]: the parts that matter.
struct SnapshotPath {
  std::string repository;
  fs::path folder;  // the snapshot
};
std::optional<SnapshotPath> inside_snapshot(const std::string& path) {
  fs::path whole = fs::path(path).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  for (fs::path at = whole; at.has_relative_path() && at != at.parent_path();
       at = at.parent_path()) {
    const std::string model = at.parent_path().parent_path().filename().string();
    if (at.parent_path().filename() != "snapshots" || !model.starts_with(kPrefix)) continue;
    std::string repository = model.substr(kPrefix.size());
    if (const size_t slash = repository.find("--"); slash != repository.npos) {
      repository.replace(slash, 2, "/");
    }
    return SnapshotPath{repository, at};
  }
  return std::nullopt;
}

}  // namespace

std::string home_folder() {
  if (const std::string own = variable("HF_HOME"); !own.empty()) return expanded(own);
  const std::string caches = variable("XDG_CACHE_HOME");
  return expanded((caches.empty() ? "~/.cache" : caches) + "/huggingface");
}

std::string cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string own = variable(name); !own.empty()) return expanded(own);
  }
  return home_folder() + "/hub";
}

std::string folder_of(std::string_view repository) {
  std::string folder(kPrefix);
  for (const char c : repository) folder += c == '/' ? std::string("--") : std::string(1, c);
  return folder;
}

std::optional<std::string> find_in_cache(const ModelName& name) {
  const std::string model = cache_folder() + "/" + folder_of(name.repository);
  std::error_code error;
  std::string commit = name.revision;
  if (const auto ref = read_text_file(model + "/refs/" + name.revision, kMostRefBytes); ref.ok()) {
    commit = std::string(trim(*ref));
  }
  const fs::path snapshot = fs::path(model) / "snapshots" / commit;
  if (commit.empty() || commit.find("..") != commit.npos || !fs::is_directory(snapshot, error)) {
    return std::nullopt;
  }
  if (!name.file.empty()) {
    const fs::path file = snapshot / name.file;
    return fs::exists(file, error) ? std::optional(file.string()) : std::nullopt;
  }
  if (fs::exists(snapshot / "config.json", error)) {
    const bool weights = fs::exists(snapshot / "model.safetensors", error) ||
                         fs::exists(snapshot / "model.safetensors.index.json", error);
    if (weights) return snapshot.string();
  }
  const std::vector<std::string> files = gguf_files(snapshot);
  return files.size() == 1 ? (snapshot / files.front()).string() : snapshot.string();
}

std::string find_model(const std::string& text) {
  const auto name = is_there(text) ? std::nullopt : parse_model_name(text);
  return name ? find_in_cache(*name).value_or(text) : text;
}

bool is_name_alone(const std::string& text, const std::string& folder) {
  const auto name = parse_model_name(text);
  const fs::path path = fs::path(folder) / text;
  if (!name || is_there(path.string()) || is_there(text)) return false;
  if (find_in_cache(*name)) return true;
  const bool has_owner = name->repository.find('/') != name->repository.npos;
  // Of a folder that is not there, nothing says what could have been in it.
  const bool can_look = folder.empty() || is_there(folder);
  return has_owner && can_look &&
         !is_there((fs::path(folder) / fs::path(text).begin()->string()).string());
}

std::optional<std::string> name_of_snapshot(const std::string& path) {
  const auto inside = inside_snapshot(path);
  return inside ? std::optional(inside->repository) : std::nullopt;
}

std::string short_name(const std::string& path) {
  fs::path whole = fs::path(path).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const auto inside = inside_snapshot(path);
  if (!inside || inside->folder != whole) return whole.filename().string();
  return fs::path(inside->repository).filename().string();
}

std::string hint(const std::string& path) {
  if (const auto inside = inside_snapshot(path)) {
    const std::vector<std::string> files = gguf_files(inside->folder);
    if (inside->folder == fs::path(path).lexically_normal() && files.size() > 1) {
      std::string all;
      for (const std::string& file : files) all += "\n  " + inside->repository + "/" + file;
      return "; the model's snapshot has " + std::to_string(files.size()) +
             " GGUF files – name one of them:" + all;
    }
    return "; the model's snapshot in the cache is not whole – 'tenon model pull " +
           inside->repository + "@" + inside->folder.filename().string() +
           "' brings what is missing";
  }
  const auto name = parse_model_name(path);
  if (!name || !is_name_alone(path, "")) return "";
  return "; as the name of a model it is not in the cache either (" +
         one_line(cache_folder(), kMostPathBytes) + ") – 'tenon model pull " + name->text() +
         "' brings it";
}

}  // namespace tenon::hub
