// What tells the files of a pipeline's weights from others: for weights that pipelines share.
#include <algorithm>
#include <filesystem>

#include "core/base/digest/sha256.h"
#include "core/base/digest/xxh64.h"
#include "core/base/files/mapped_file.h"
#include "core/files/gguf_parts.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// A file by where it lies, and by what changes when it is written to.
void name_file(const fs::path& path, std::string& out) {
  std::error_code error;
  const fs::path place = fs::canonical(path, error);
  const uintmax_t bytes = fs::file_size(place, error);
  const auto written = fs::last_write_time(place, error).time_since_epoch().count();
  out += place.string() + " " + std::to_string(bytes) + " " + std::to_string(written) + "\n";
}

void name_files(const std::string& path, std::string& out) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    for (const std::string& part : gguf_part_paths(path)) name_file(part, out);
    return;
  }
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) name_file(file, out);
}

// Whether what the file says has a part in what a model computes.
bool has_weights(const fs::path& path) {
  const std::string name = path.filename().string(), ending = path.extension().string();
  if (ending == ".safetensors" || ending == ".gguf") return true;
  constexpr std::string_view kOthers[] = {"tokenizer", "vocab",   "merges", "generation_config",
                                          "special",   "added",   "chat",   "preprocessor",
                                          "processor", "template"};
  return ending == ".json" && std::ranges::none_of(kOthers, [&](std::string_view other) {
           return name.starts_with(other);
         });
}

}  // namespace

Result<std::string> weight_contents(const std::string& path) {
  std::error_code error;
  std::vector<fs::path> files;
  if (fs::is_directory(path, error)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      if (entry.is_regular_file() && has_weights(entry.path())) files.push_back(entry.path());
    }
  } else {
    for (const std::string& part : gguf_part_paths(path)) files.emplace_back(part);
  }
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.filename().string(); });
  std::string all;
  for (const fs::path& file : files) {
    TENON_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::open(file.string()));
    all +=
        std::to_string(mapped.bytes().size()) + " " + std::to_string(xxh64(mapped.bytes())) + "\n";
  }
  return sha256_hex(all);
}

std::string weight_files(const Model& model) {
  std::string text;
  name_files(model.path, text);
  return text;
}

std::string weight_files(const OpenedModels& pipeline) {
  std::string text = weight_files(*pipeline.model);
  for (const NamedAdapter& adapter : pipeline.config.adapters) {
    text += adapter.name + "\n";
    name_files(adapter.path.value, text);
  }
  return text;
}

}  // namespace tenon
