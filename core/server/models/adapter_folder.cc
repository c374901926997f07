#include "core/server/models/adapter_folder.h"

#include <algorithm>
#include <filesystem>

#include "core/base/quote.h"

namespace tenon::server {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestPath = 4095;
constexpr const char* kFiles[] = {"adapter_config.json", "adapter_model.safetensors",
                                  "adapter_model.bin"};

// Both without links.
bool is_below(const fs::path& path, const fs::path& root) {
  const auto [at, rest] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return at == root.end() && rest != path.end();
}

// What it is once links are followed, as far as it is there; empty where that cannot be said, as of
// a link to nothing.
fs::path followed(const fs::path& path) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(path, error);
  if (error || fs::is_symlink(place, error)) return {};
  return place;
}

}  // namespace

api::Outcome<std::string> adapter_folder(const std::string& root, const std::string& path) {
  const auto refused = [&path](const std::string& why) {
    return api::ApiError{.message = "\"lora_path\" is " + shown_text(path) + " – " + why,
                         .param = "lora_path"};
  };
  const bool is_path = !path.empty() && path.size() <= kLongestPath && path.find('\0') == path.npos;
  if (!is_path) return refused("it must be the path of an adapter's folder");
  std::error_code error;
  const fs::path allowed = fs::canonical(root, error);
  if (error) return refused("the folder that the server takes adapters from is not there");
  const fs::path place = followed(allowed / path);
  const std::string elsewhere = "it leads out of the folder that the server takes adapters from";
  if (!is_below(place, allowed)) return refused(elsewhere);
  if (!fs::is_directory(place, error)) return refused("there is no such folder");
  for (const char* name : kFiles) {
    if (!is_below(followed(place / name), allowed)) return refused(elsewhere);
  }
  return place.string();
}

}  // namespace tenon::server
