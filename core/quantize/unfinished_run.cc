#include "core/quantize/unfinished_run.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/model_folder_writer.h"
#include "core/model/safetensors_writer.h"

namespace tenon::quantize {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kFolderName = "quantize.partial";

bool exists(const std::string& path) {
  std::error_code fault;
  return fs::exists(path, fault);
}

Status check_run(const std::string& file, const std::string& hash) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(file));
  const ordered_json run = ordered_json::parse(text, nullptr, false);
  if (run.is_object() && run.contains("hash") && run["hash"] == hash) return {};
  const std::string settings =
      run.is_object() && run.contains("settings") && run["settings"].is_string()
          ? run["settings"].get<std::string>()
          : "unknown settings";
  return invalid_argument(path_in_quotes(fs::path(file).parent_path().string()) +
                          " holds an unfinished run of another model, text or setting (" +
                          one_line(settings) +
                          "); give the same ones to go on, or remove that folder");
}

}  // namespace

Result<UnfinishedRun> UnfinishedRun::open(const std::string& folder, const std::string& settings,
                                          const std::string& hash) {
  const std::string own = (fs::path(folder) / kFolderName).string();
  const std::string run = own + "/run.json";
  const bool made = !exists(folder);
  const bool goes_on = exists(run) && !exists(folder + "/config.json");
  if (!goes_on) TENON_RETURN_IF_ERROR(create_model_folder(folder));
  TENON_ASSIGN_OR_RETURN(NewFolder lock, NewFolder::create(folder, {}));
  lock.keep();  // what is done stays when the program ends
  UnfinishedRun out(own, std::move(lock), made);
  if (goes_on) {
    TENON_RETURN_IF_ERROR(check_run(run, hash));
    // Without a config.json the weights are no model yet.
    std::error_code ignored;
    fs::remove(folder + "/model.safetensors", ignored);
    while (exists(out.path("layer", out.layers_done_, ".safetensors"))) ++out.layers_done_;
    return out;
  }
  std::error_code fault;
  fs::create_directories(own, fault);
  const std::string text = ordered_json{{"settings", settings}, {"hash", hash}}.dump(1) + "\n";
  TENON_RETURN_IF_ERROR(write_file(run, {text}));
  return out;
}

std::string UnfinishedRun::path(const char* kind, uint32_t layer, const char* extension) const {
  std::string number = std::to_string(layer);
  number.insert(0, 5 - std::min<size_t>(5, number.size()), '0');
  return folder_ + "/" + kind + "-" + number + extension;
}

Result<std::vector<float>> UnfinishedRun::read_states() const {
  TENON_ASSIGN_OR_RETURN(const MappedFile file,
                         MappedFile::open(path("states", layers_done_, ".f32")));
  std::vector<float> states(file.bytes().size() / sizeof(float));
  std::memcpy(states.data(), file.bytes().data(), states.size() * sizeof(float));
  return states;
}

Status UnfinishedRun::add_layer(const MadeTensors& tensors,
                                const std::vector<std::string>& replaced,
                                std::span<const float> states) {
  const auto chars = std::as_bytes(states);
  if (!states.empty()) {
    TENON_RETURN_IF_ERROR(
        write_file(path("states", layers_done_ + 1, ".f32"),
                   {{reinterpret_cast<const char*>(chars.data()), chars.size()}}));
  }
  TENON_RETURN_IF_ERROR(
      write_file(path("replaced", layers_done_, ".json"), {ordered_json(replaced).dump() + "\n"}));
  std::vector<PlannedTensor> planned;
  for (const MadeTensor& tensor : tensors) {
    const uint64_t columns = tensor.shape.size() > 1 ? tensor.shape.back() : 1;
    const uint64_t row_bytes = columns * dtype_bits(tensor.dtype) / 8;
    planned.push_back({tensor.name, tensor.dtype, tensor.shape,
                       [&tensor, row_bytes](uint64_t first, uint64_t rows, std::byte* out) {
                         std::memcpy(out, tensor.bytes.data() + first * row_bytes,
                                     rows * row_bytes);
                       }});
  }
  // With this file the layer is done.
  TENON_RETURN_IF_ERROR(write_safetensors(path("layer", layers_done_, ".safetensors"), planned));
  std::error_code fault;
  fs::remove(path("states", layers_done_, ".f32"), fault);
  ++layers_done_;
  return {};
}

Result<std::vector<UnfinishedRun::Layer>> UnfinishedRun::layers() const {
  std::vector<Layer> layers;
  for (uint32_t i = 0; i < layers_done_; ++i) {
    Layer layer;
    TENON_ASSIGN_OR_RETURN(layer.tensors, open_safetensors(path("layer", i, ".safetensors")));
    TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path("replaced", i, ".json")));
    const nlohmann::json names = nlohmann::json::parse(text, nullptr, false);
    if (!names.is_array()) return failed(path_in_quotes(folder_) + " is damaged; remove it");
    for (const nlohmann::json& name : names) {
      if (name.is_string()) layer.replaced.push_back(name.get<std::string>());
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

void UnfinishedRun::remove() {
  std::error_code fault;
  fs::remove_all(folder_, fault);
}

void UnfinishedRun::remove_if_nothing_is_done() {
  if (layers_done_ > 0) return;
  remove();
  std::error_code fault;
  if (made_) fs::remove(fs::path(folder_).parent_path(), fault);  // where it is empty
}

}  // namespace tenon::quantize
