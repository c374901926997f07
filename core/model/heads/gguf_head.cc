#include "core/model/heads/gguf_head.h"

#include <algorithm>
#include <span>
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

constexpr const char *kEagle3 = "eagle3", *kDFlash = "dflash";

// A name of a head's tensor, and what a file's tensor is called once it has the name of a model's.
using Renamed = std::pair<std::string_view, std::string_view>;
constexpr Renamed kNamesOfEagle3[] = {
    {"model.layers.0.hidden_norm.weight", "model.layers.0.attn_norm_2.weight"},
    {"input_norm.weight", "enc.output_norm.weight"},
};
constexpr Renamed kNamesOfBlocks[] = {
    {"hidden_norm.weight", "enc.output_norm.weight"},
    {"markov_head.markov_w1.weight", "markov_w1.weight"},
    {"markov_head.markov_w2.weight", "markov_w2.weight"},
    {"confidence_head.proj.weight", "conf_proj.weight"},
    {"confidence_head.proj.bias", "conf_proj.bias"},
};

class HeadFileCheckpoint final : public RenamedCheckpoint {
 public:
  HeadFileCheckpoint(std::unique_ptr<Checkpoint> whole, std::span<const Renamed> renamed)
      : RenamedCheckpoint(std::move(whole)), renamed_(renamed) {}

 private:
  std::optional<std::string> in_whole(std::string_view name) const override {
    for (const auto& [own, stored] : renamed_) {
      if (name == own) return std::string(stored);
    }
    return std::string(name);
  }
  // Those outside the layers are asked for by name.
  std::optional<std::string> name_of(std::string_view stored) const override {
    const bool outside = std::ranges::any_of(
        renamed_, [&](const Renamed& renamed) { return renamed.second == stored; });
    return outside ? std::nullopt : std::optional(std::string(stored));
  }

  std::span<const Renamed> renamed_;
};

bool has_tensor(const GgufFile& file, auto&& is_wanted) {
  return std::ranges::any_of(file.tensors(), is_wanted, &GgufTensor::name);
}

std::optional<HeadKind> kind_of(const GgufFile& file) {
  Faults faults;
  const std::string architecture = GgufFields(file, "", faults).text("general.architecture", "");
  if (architecture == kEagle3) return HeadKind::eagle3;
  if (architecture == kDFlash) return HeadKind::dflash;
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

void read_eagle3(const GgufFields& fields, HeadConfig& config) {
  if (fields.has(".norm_before_residual")) {
    config.norm_before_residual = fields.flag(".norm_before_residual", false) ? 1 : 0;
  }
  config.norm_before_fc = fields.flag(".norm_before_fc", false);
  for (const char* key : {".fc_norm", ".norm_output"}) {
    if (!fields.flag(key, false)) continue;
    fields.faults().unsupported(fields.name(key) + " is true, which is not built for GGUF files");
  }
}

const GgufTensor* find_tensor(const GgufFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.tensors(), name, &GgufTensor::name);
  return found == file.tensors().end() ? nullptr : &*found;
}

// What llama.cpp computes for such a file and this program does not.
void refuse_other_blocks(const GgufFields& fields, const GgufFile& file) {
  Faults& faults = fields.faults();
  if (fields.count(".attention.sliding_window", 0, 0, UINT32_MAX) > 0) {
    faults.unsupported(fields.name(".attention.sliding_window") +
                       " is not 0; heads of blocks whose layers all attend to the whole text are "
                       "built");
  }
  if (fields.flag(".attention.causal", false)) {
    faults.unsupported(fields.name(".attention.causal") +
                       " is true; heads are built whose rows of a block all see each other");
  }
  if (find_tensor(file, "selector_hidden.weight") != nullptr || fields.has(".selector_rank")) {
    faults.unsupported(
        "it is a head of DFlash2, with convolutions and a selector; heads of "
        "DFlash and DSpark are built");
  }
  if (fields.has(".hyper_connection.count")) {
    faults.unsupported(fields.name(".hyper_connection.count") +
                       " is there, so its layers are those of DeepSeek-V4; heads of layers as "
                       "Qwen3 has them are built");
  }
  for (const char* key : {".logit_scale", ".final_logit_softcapping"}) {
    const double value = fields.number(key, 0.0, -1e30, 1e30);
    const bool plain = value == 0.0 || (value == 1.0 && key[1] == 'l');
    if (!plain) faults.unsupported(fields.name(key) + " is set, which is not built for heads");
  }
}

// Whether DSpark's own parts are there, their tensors tell.
void read_dspark(const GgufFields& fields, const GgufFile& file, uint32_t hidden,
                 HeadConfig& config) {
  const GgufTensor* markov = find_tensor(file, "markov_w1.weight");
  if (markov != nullptr && markov->extents.size() == 2) {
    config.markov_rank = static_cast<uint32_t>(std::min<uint64_t>(markov->extents[1], 65'536));
  }
  const GgufTensor* confidence = find_tensor(file, "conf_proj.weight");
  config.confidence = confidence != nullptr && fields.flag(".has_confidence_head", true);
  config.confidence_with_markov =
      config.confidence && confidence->extents.back() != uint64_t{hidden};
}

void read_block(const GgufFields& fields, const GgufFile& file, HeadConfig& config) {
  refuse_other_blocks(fields, file);
  config.kind = HeadKind::dflash;
  config.norm_before_residual = 0;
  const uint32_t rows = fields.count(".block_size", 0, 2, kMostBlockRows);
  const char* key = fields.has("tokenizer.ggml.mask_token_id") ? "tokenizer.ggml.mask_token_id"
                                                               : ".mask_token_id";
  for (const char* needed : {".block_size", key}) {
    if (fields.has(needed)) continue;
    const char* said = needed == key ? "tokenizer.ggml.mask_token_id" : needed;
    fields.faults().invalid(fields.name(said) +
                            " is not there; a head that drafts blocks needs it");
  }
  if (rows == 0 || !fields.has(key)) return;
  read_dspark(fields, file, fields.count(".embedding_length", 0, 0, 1'000'000), config);
  // Missing, as llama.cpp takes it.
  const bool from_anchor = fields.flag(".sample_from_anchor", config.markov_rank > 0);
  config.block = {.tokens = from_anchor ? rows : rows - 1,
                  .mask = static_cast<TokenId>(fields.count(key, 0, 0, INT32_MAX)),
                  .from_anchor = from_anchor,
                  .mask_state = {}};
}

// A file without an embedding says by its tokens how many there are, if it says so at all.
uint32_t vocabulary_of(const GgufFields& fields, const GgufFile& file, const Model& target) {
  const GgufValue* tokens = file.find("tokenizer.ggml.tokens");
  const uint64_t listed = tokens == nullptr ? 0 : tokens->count();
  const auto said = static_cast<uint32_t>(std::min<uint64_t>(listed, 10'000'000));
  return fields.count(".vocab_size", said > 0 ? said : target.plan.vocabulary, 1, 10'000'000);
}

Result<HeadConfig> read_config(const GgufParts& files, const std::string& path, HeadKind kind,
                               const Model& target) {
  const GgufFile& file = files.file();
  const GgufBytes bytes = [&files](const GgufTensor& tensor) { return files.bytes_of(tensor); };
  const bool blocks = kind == HeadKind::dflash;
  Faults faults;
  const GgufFields fields(file, blocks ? kDFlash : kEagle3, faults);
  HeadConfig config;
  config.states = read_states(fields);
  if (fields.has(".target_hidden_size")) {
    config.target_hidden = fields.count(".target_hidden_size", 0, 1, 1'000'000);
  }
  if (blocks) {
    read_block(fields, file, config);
  } else {
    read_eagle3(fields, config);
  }
  const uint32_t vocabulary = vocabulary_of(fields, file, target);
  if (faults.any()) return faults.status(path);
  const Family& family = *find_family(blocks ? "qwen3" : "llama");
  TENON_ASSIGN_OR_RETURN(GgufConfig layers,
                         gguf_layers_config(file, bytes, path, family, vocabulary));
  config.plan = std::move(layers.plan);
  config.plan.tied_embeddings = false;
  if (config.block && static_cast<uint32_t>(config.block.mask) >= config.plan.vocabulary) {
    faults.invalid("the mask is token " + std::to_string(config.block.mask) +
                   ", but the vocabulary has " + std::to_string(config.plan.vocabulary) +
                   " tokens");
    return faults.status(path);
  }
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
  const HeadKind kind = kind_of(files.file()).value_or(HeadKind::eagle3);
  TENON_ASSIGN_OR_RETURN(const HeadConfig config, read_config(files, path, kind, target));
  opened.model->config_json = "{}";
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> tensors, open_gguf_tensors(path, config.plan));
  const std::span<const Renamed> renamed =
      kind == HeadKind::dflash ? std::span<const Renamed>(kNamesOfBlocks) : kNamesOfEagle3;
  auto checkpoint = std::make_unique<HeadFileCheckpoint>(std::move(tensors), renamed);
  TENON_RETURN_IF_ERROR(take_head(config, std::move(checkpoint), target, opened));
  return opened;
}

}  // namespace tenon
