#include "core/model/heads/gguf_head.h"

#include <algorithm>
#include <utility>

#include "core/base/quote.h"
#include "core/files/gguf_parts.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/checkpoint/gguf_fields.h"
#include "core/model/checkpoint/gguf_layers.h"
#include "core/model/checkpoint/renamed_checkpoint.h"
#include "core/model/families/family.h"

namespace tenon {
namespace {

constexpr const char* kEagle3 = "eagle3";

// Names of a head's tensors, and what a file's tensors are called once they have the names of a
// model's.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"model.layers.0.hidden_norm.weight", "model.layers.0.attn_norm_2.weight"},
    {"input_norm.weight", "enc.output_norm.weight"},
};

class HeadFileCheckpoint final : public RenamedCheckpoint {
 public:
  explicit HeadFileCheckpoint(std::unique_ptr<Checkpoint> whole)
      : RenamedCheckpoint(std::move(whole)) {}

 private:
  std::optional<std::string> in_whole(std::string_view name) const override {
    for (const auto& [own, stored] : kNames) {
      if (name == own) return std::string(stored);
    }
    return std::string(name);
  }
  // The norms outside the layers are asked for by name.
  std::optional<std::string> name_of(std::string_view stored) const override {
    if (std::ranges::count(kNames, stored, &std::pair<std::string_view, std::string_view>::second) >
        0) {
      return std::nullopt;
    }
    return std::string(stored);
  }
};

bool has_tensor(const GgufFile& file, auto&& is_wanted) {
  return std::ranges::any_of(file.tensors(), is_wanted, &GgufTensor::name);
}

std::optional<HeadKind> kind_of(const GgufFile& file) {
  Faults faults;
  if (GgufFields(file, "", faults).text("general.architecture", "") == kEagle3) {
    return HeadKind::eagle3;
  }
  const auto is_first = [](const std::string& name) { return name.starts_with("blk.0."); };
  const auto is_next = [](const std::string& name) {
    return name.find(".nextn.") != std::string::npos;
  };
  if (has_tensor(file, is_next) && !has_tensor(file, is_first)) return HeadKind::mtp;
  return std::nullopt;
}

// Which states it reads, under either of the names that converters gave the key.
std::vector<uint32_t> read_states(const GgufFields& fields) {
  const char* key = fields.has(".target_layers") ? ".target_layers" : ".extract_layers";
  const GgufValue* value = fields.find(key);
  const auto list = value != nullptr ? value->integers() : std::nullopt;
  std::vector<uint32_t> states;
  for (const int64_t id : list.value_or(std::vector<int64_t>())) {
    if (id < 1 || id > 100'000 || (!states.empty() && id <= states.back())) {
      fields.faults().invalid(fields.name(key) + " is " + value->describe() +
                              "; expected rising numbers of layers from 1 on");
      return {};
    }
    states.push_back(static_cast<uint32_t>(id));
  }
  if (states.empty()) {
    fields.faults().invalid(fields.name(key) + ", the states that the head reads, is no list");
  }
  return states;
}

Result<HeadConfig> read_config(const GgufParts& files, const std::string& path,
                               const Model& target) {
  const GgufFile& file = files.file();
  const GgufBytes bytes = [&files](const GgufTensor& tensor) { return files.bytes_of(tensor); };
  Faults faults;
  const GgufFields fields(file, kEagle3, faults);
  HeadConfig config;
  config.states = read_states(fields);
  if (fields.has(".target_hidden_size")) {
    config.target_hidden = fields.count(".target_hidden_size", 0, 1, 1'000'000);
  }
  if (fields.has(".norm_before_residual")) {
    config.norm_before_residual = fields.flag(".norm_before_residual", false) ? 1 : 0;
  }
  config.norm_before_fc = fields.flag(".norm_before_fc", false);
  for (const char* key : {".fc_norm", ".norm_output"}) {
    if (fields.flag(key, false)) {
      faults.unsupported(fields.name(key) + " is true, which is not built for GGUF files");
    }
  }
  if (faults.any()) return faults.status(path);
  const uint32_t vocabulary = fields.count(".vocab_size", target.plan.vocabulary, 1, 10'000'000);
  TENON_ASSIGN_OR_RETURN(GgufConfig layers,
                         gguf_layers_config(file, bytes, path, *find_family("llama"), vocabulary));
  config.plan = std::move(layers.plan);
  config.plan.tied_embeddings = false;
  const uint64_t ids = fields.tensor_rows("d2t");
  config.draft_vocabulary =
      ids > 0 ? static_cast<uint32_t>(std::min<uint64_t>(ids, vocabulary)) : config.plan.vocabulary;
  return config;
}

}  // namespace

std::optional<HeadKind> head_in_file(const std::string& path) {
  const Result<GgufParts> files = GgufParts::open(path);
  return files.ok() ? kind_of(files->file()) : std::nullopt;
}

Result<OpenedHead> open_head_file(const std::string& path, const Model& target) {
  if (head_in_file(path) == HeadKind::mtp) return open_own_head(target, path);
  OpenedHead opened{std::make_unique<Model>(), std::make_unique<Head>()};
  opened.model->path = path;
  opened.head->source = path;
  TENON_ASSIGN_OR_RETURN(const GgufParts files, GgufParts::open(path));
  TENON_ASSIGN_OR_RETURN(const HeadConfig config, read_config(files, path, target));
  opened.model->config_json = "{}";
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> tensors, open_gguf_tensors(path, config.plan));
  TENON_RETURN_IF_ERROR(
      take_head(config, std::make_unique<HeadFileCheckpoint>(std::move(tensors)), target, opened));
  return opened;
}

}  // namespace tenon
