#include "core/quantize/unfinished_run.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/digest/sha256.h"
#include "core/base/files/mapped_file.h"
#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/convert/model_folder_writer.h"
#include "core/model/convert/safetensors_writer.h"

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

// What is said of a layer that is done.
struct LayerRecord {
  std::vector<std::string> replaced;
  std::string run;
  std::string layer_sum;
  std::string states_sum;  // empty: there were none
};

Status write_record(const std::string& file, const LayerRecord& record) {
  const ordered_json text{{"replaced", record.replaced},
                          {"run", record.run},
                          {"sha256", {{"layer", record.layer_sum}, {"states", record.states_sum}}}};
  return write_file(file, {text.dump() + "\n"});
}

Result<LayerRecord> read_record(const std::string& file) try {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(file));
  const ordered_json found = ordered_json::parse(text);
  return LayerRecord{.replaced = found.at("replaced").get<std::vector<std::string>>(),
                     .run = found.at("run").get<std::string>(),
                     .layer_sum = found.at("sha256").at("layer").get<std::string>(),
                     .states_sum = found.at("sha256").at("states").get<std::string>()};
} catch (const std::exception&) {
  return failed(path_in_quotes(file) + " is damaged");
}

Result<std::string> sum_of(const std::string& file) {
  TENON_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::open(file));
  return sha256_hex(mapped.bytes());
}

Status check_sum(const std::string& file, const std::string& expected) {
  TENON_ASSIGN_OR_RETURN(const std::string found, sum_of(file));
  if (found == expected) return {};
  return failed(path_in_quotes(file) + " is damaged: its SHA-256 sum is another than was written");
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
  UnfinishedRun out(own, hash, std::move(lock), made);
  if (goes_on) {
    TENON_RETURN_IF_ERROR(check_run(run, hash));
    // Without a config.json the weights are no model yet.
    std::error_code ignored;
    fs::remove(folder + "/model.safetensors", ignored);
    out.find_sound_layers();
    return out;
  }
  std::error_code fault;
  fs::create_directories(own, fault);
  const std::string text = ordered_json{{"settings", settings}, {"hash", hash}}.dump(1) + "\n";
  TENON_RETURN_IF_ERROR(write_file(run, {text}));
  return out;
}

// Hidden states are kept before one layer only: with any file of such a run lost, it begins anew.
void UnfinishedRun::find_sound_layers() {
  Status fault;
  bool has_states = false;
  while (fault.ok() && exists(path("layer", layers_done_, ".json"))) {
    const std::string file = path("layer", layers_done_, ".json");
    Result<LayerRecord> record = read_record(file);
    if (!record.ok()) {
      fault = record.take_status();
    } else if (record->run != hash_) {
      fault = failed(path_in_quotes(file) + " belongs to another run");
    } else {
      fault = check_sum(path("layer", layers_done_, ".safetensors"), record->layer_sum);
    }
    if (!fault.ok()) break;
    ++layers_done_;
    has_states = has_states || !record->states_sum.empty();
    const bool last = !exists(path("layer", layers_done_, ".json"));
    if (last && !record->states_sum.empty()) {
      fault = check_sum(path("states", layers_done_, ".f32"), record->states_sum);
    }
  }
  if (fault.ok()) return;
  if (has_states) layers_done_ = 0;
  log(LogLevel::warning, "quantize",
      std::string(fault.message()) + "; layers from " + std::to_string(layers_done_) +
          " on are computed again");
  std::error_code ignored;
  for (uint32_t layer = layers_done_; exists(path("layer", layer, ".json")); ++layer) {
    fs::remove(path("layer", layer, ".json"), ignored);
    fs::remove(path("states", layer + 1, ".f32"), ignored);
  }
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
  const std::string file = path("layer", layers_done_, ".safetensors");
  std::error_code fault;
  fs::remove(file, fault);  // of a run that ended before its record, or is damaged
  TENON_RETURN_IF_ERROR(write_safetensors(file, planned));
  LayerRecord record{.replaced = replaced, .run = hash_, .layer_sum = {}, .states_sum = {}};
  TENON_ASSIGN_OR_RETURN(record.layer_sum, sum_of(file));
  if (!states.empty()) record.states_sum = sha256_hex(chars);
  // With this file the layer is done.
  TENON_RETURN_IF_ERROR(write_record(path("layer", layers_done_, ".json"), record));
  fs::remove(path("states", layers_done_, ".f32"), fault);
  ++layers_done_;
  return {};
}

Result<std::vector<UnfinishedRun::Layer>> UnfinishedRun::layers() const {
  std::vector<Layer> layers;
  for (uint32_t i = 0; i < layers_done_; ++i) {
    Layer layer;
    TENON_ASSIGN_OR_RETURN(layer.tensors, open_safetensors(path("layer", i, ".safetensors")));
    TENON_ASSIGN_OR_RETURN(LayerRecord record, read_record(path("layer", i, ".json")));
    layer.replaced = std::move(record.replaced);
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
