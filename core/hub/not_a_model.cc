#include "core/hub/not_a_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/base/quote.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNamed = 3;
constexpr size_t kMostSeen = 10'000;  // of a folder that is no model's at all

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end;
       !error && at != end && names.size() < kMostSeen; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// "'a.gguf', 'b.gguf' and others"; empty where no name ends so.
std::string named(const std::vector<std::string>& names, std::string_view ending) {
  std::string text;
  size_t count = 0;
  for (const std::string& name : names) {
    if (!name.ends_with(ending)) continue;
    if (++count > kMostNamed) return text + " and others";
    text += (count > 1 ? ", " : "") + in_quotes(name);
  }
  return text;
}

// The one folder in it that is a model's, as an archive is unpacked.
std::optional<std::string> inner_model(const std::string& folder,
                                       const std::vector<std::string>& names) {
  std::optional<std::string> found;
  std::error_code error;
  for (const std::string& name : names) {
    if (!fs::is_regular_file(folder + "/" + name + "/config.json", error)) continue;
    if (found) return std::nullopt;
    found = name;
  }
  return found;
}

}  // namespace

Status no_model_folder(const std::string& folder, Status why) {
  std::error_code error;
  if (folder.ends_with(".gguf") && !fs::exists(folder, error)) {
    return not_found("cannot open " + path_in_quotes(folder) + ": No such file or directory");
  }
  const std::vector<std::string> names = names_in(folder);
  if (has(names, "config.json")) return why;  // it is there, and something else is wrong
  const std::string lead = path_in_quotes(folder) + " has no config.json, ";
  if (const std::string files = named(names, ".gguf"); !files.empty()) {
    return not_found(lead + "but GGUF files: " + files +
                     " – name one of them instead of the folder (of one in parts, any part)");
  }
  if (has(names, "adapter_config.json")) {
    return not_found(lead +
                     "but an adapter_config.json: it is an adapter – name the model that it "
                     "adapts, and the folder in [adapters]");
  }
  if (has(names, "params.json")) {
    return not_found(lead +
                     "but a params.json: it is in its publisher's own format – take the files for "
                     "Hugging Face's transformers");
  }
  if (const auto inner = inner_model(folder, names)) {
    return not_found(lead + "but the folder " + in_quotes(*inner) + " in it has – name that one");
  }
  return why;
}

Status no_weights(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder);
  const std::string lead =
      path_in_quotes(folder) + " has neither model.safetensors nor model.safetensors.index.json";
  if (const std::string shards = named(names, ".safetensors"); !shards.empty()) {
    return not_found(lead + ", but " + shards +
                     " – fetch the index, which says what is in which file, or name a single file "
                     "model.safetensors");
  }
  return not_found(lead + "; weights in another format must be converted to safetensors first");
}

Status no_model_file(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const bool of_folder = name.ends_with(".safetensors") || name.ends_with(".json");
  return invalid_argument(path + ": is no GGUF file; expected one, or a model's folder" +
                          (of_folder ? " – name the folder that the file is in" : ""));
}

}  // namespace tenon
