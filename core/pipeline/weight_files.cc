// What tells the files of a pipeline's weights from others: for weights that pipelines share.
#include <algorithm>
#include <filesystem>

#include "core/files/gguf_parts.h"
#include "core/pipeline/composing.h"

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

}  // namespace

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
