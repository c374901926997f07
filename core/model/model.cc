#include "core/model/model.h"

#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/hub/cache.h"
#include "core/hub/not_a_model.h"
#include "core/model/blocks/block.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/config/json_fields.h"
#include "core/model/config/model_config.h"
#include "core/model/config/text_part.h"
#include "core/model/families/family.h"
#include "core/model/heads/tensors_again.h"
#include "core/model/published/reader.h"
#include "core/model/tensors/tensor_places.h"
#include "core/model/tensors/tensor_taker.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

bool same_bytes(const Weight& a, const Weight& b) {
  const TensorView &x = a.parts.front(), &y = b.parts.front();
  const std::span<const std::byte> left = bytes_of(x), right = bytes_of(y);
  return a.format == b.format && left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size()) == 0;
}

// Embedding and LM head. Tied models have either tensor, or both: they count as tied only when
// both are equal, as in transformers.
void take_embeddings(TensorTaker& tensors, Model& model) {
  ModelPlan& plan = model.plan;
  const TensorNames names(plan);
  const std::string embedding = tensors.name(names.stem(Role::embedding, -1) + ".weight");
  const std::string head = tensors.name(names.stem(Role::head, -1) + ".weight");
  const bool swapped = plan.tied_embeddings && !tensors.has(embedding) && tensors.has(head);
  model.embedding = tensors.matrix(swapped ? head : embedding, plan.vocabulary, plan.hidden);
  if (plan.tied_embeddings && (swapped || !tensors.has(head))) {
    model.head = model.embedding;
    return;
  }
  model.head = tensors.matrix(head, plan.vocabulary, plan.hidden);
  if (!plan.tied_embeddings || !tensors.ok()) return;
  plan.tied_embeddings = same_bytes(model.embedding, model.head);
  model.checkpoint->release(model.head.parts.front());
  model.checkpoint->release(model.embedding.parts.front());
  if (plan.tied_embeddings) model.head = model.embedding;
}

// Norms that the checkpoint has no weights for.
void fill_plain_norms(Model& model) {
  const auto fill = [&](std::span<const BlockTensor> tensors, const LayerPlan& layer,
                        int32_t index) {
    for (const BlockTensor& tensor : tensors) {
      if (tensor.norm == nullptr) continue;
      const NormPlan& norm = tensor.norm(model.plan, layer);
      if (!norm || norm.weight) continue;
      for (const TensorPlace& place : places_of(model, tensor, index, false)) {
        place.vector->assign(place.rows, 1.0f);
      }
    }
  };
  fill(tensors_before_layers(), {}, -1);
  fill(tensors_after_layers(), {}, -1);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerPlan& layer = model.plan.layers[i];
    for (const Block* block : layer_blocks()) {
      if (block->is_in(layer)) fill(block->tensors, layer, static_cast<int32_t>(i));
    }
  }
}

}  // namespace

Status take_weights(Model& model) {
  TensorTaker tensors(model);
  take_embeddings(tensors, model);
  model.layers.resize(model.plan.layers.size());
  model.plan.sinks.resize(model.plan.layers.size());
  for (const TensorSpec& spec : list_tensors(model.plan)) {
    if (spec.role == Role::embedding || (spec.role == Role::head && !spec.bias)) continue;
    if (tensors.enough_faults()) break;
    tensors.take(spec);
  }
  fill_plain_norms(model);
  tensors.refuse_leftovers();
  tensors.refuse_strangers();
  model.vector_bytes = tensors.vector_bytes();
  return tensors.status();
}

namespace {

Status read_configs(Model& model, std::string_view as) {
  const std::string config_path = model.path + "/config.json";
  Result<std::string> config = read_text_file(config_path, kMaxConfigBytes);
  if (!config.ok()) return no_model_folder(model.path, config.take_status());
  TENON_ASSIGN_OR_RETURN(
      model.config_json,
      published::with_modelopt_config(with_spelled_infinity(*std::move(config)), model.path));
  if (!as.empty()) {
    TENON_ASSIGN_OR_RETURN(model.config_json, read_config_as(model.config_json, as, config_path));
  }
  TENON_ASSIGN_OR_RETURN(model.plan, parse_model_config(model.config_json, config_path));
  const std::string generation_path = model.path + "/generation_config.json";
  if (!is_there(generation_path)) return {};
  TENON_ASSIGN_OR_RETURN(model.generation_json, read_text_file(generation_path, kMaxConfigBytes));
  TENON_ASSIGN_OR_RETURN(model.generation,
                         parse_generation_config(model.generation_json, generation_path));
  return {};
}

Status check_id(const Model& model, const char* key, TokenId id) {
  if (id < static_cast<int64_t>(model.plan.vocabulary)) return {};
  return invalid_argument(model.generation.source + ": " + in_quotes(key) + " is " +
                          std::to_string(id) + "; the vocabulary has " +
                          std::to_string(model.plan.vocabulary) + " tokens");
}

// What is recommended, held against the model itself.
Status check_generation(Model& model) {
  GenerationDefaults& defaults = model.generation;
  // As in config.json, where the same id was warned of.
  std::erase_if(defaults.eos, [&](TokenId id) {
    const Status status = check_id(model, "eos_token_id", id);
    if (!status.ok()) log(LogLevel::warning, "model", std::string(status.message()));
    return !status.ok();
  });
  for (const std::vector<TokenId>& word : defaults.bad_words) {
    for (const TokenId id : word) {
      TENON_RETURN_IF_ERROR(check_id(model, defaults.said_by.at("bad_words").c_str(), id));
    }
  }
  // As long as the context allows anyway.
  if (defaults.max_length.value_or(UINT32_MAX) < model.plan.context_tokens) {
    defaults.unused.emplace_back("max_length");
  }
  return {};
}

// Who of the folder's files names the ends of a text.
Status name_ends(Model& model) {
  TENON_ASSIGN_OR_RETURN(const nlohmann::json config, parse_json_object(model.config_json));
  if (config.contains("eos_token_id")) {
    for (const TokenId id : model.plan.eos) add_text_end(model.ends, id, "config.json");
  }
  for (const TokenId id : model.generation.eos) {
    add_text_end(model.ends, id, "generation_config.json");
  }
  return {};
}

// What is left of a model of text and images: the text model, as if it had been saved alone.
Status keep_text_part(Model& model) {
  if (model.plan.text_part_of.empty()) return {};
  TENON_ASSIGN_OR_RETURN(const nlohmann::json config, parse_json_object(model.config_json));
  Faults faults;
  model.config_json = find_text_part(config, faults).config.dump();
  const size_t all = model.checkpoint->names().size();
  model.checkpoint = text_checkpoint(std::move(model.checkpoint));
  model.other_tensors = all - model.checkpoint->names().size();
  log(LogLevel::warning, "model",
      model.path + ": a " + model.plan.text_part_of + " model, of which the text part is run; " +
          std::to_string(model.other_tensors) + " tensors of its other parts are not loaded");
  return {};
}

// Counts the tensors that say how activations are rounded, and names the first of them.
void note_activation_scales(Model& model) {
  constexpr std::string_view kSuffixes[] = {".input_scale", ".activation_scale",
                                            ".input_global_scale", ".input_zero_point"};
  std::string first;
  for (const std::string& name : model.checkpoint->names()) {
    if (std::ranges::none_of(kSuffixes, [&](auto suffix) { return name.ends_with(suffix); })) {
      continue;
    }
    if (++model.activation_scales == 1) first = model.checkpoint->stored_name(name);
  }
  if (model.activation_scales == 0) return;
  log(LogLevel::info, "model",
      model.path + ": " + std::to_string(model.activation_scales) +
          " tensors say how activations are rounded, " + in_quotes(first) +
          " first; they are not used, since kernels round activations in their own way");
}

Status read_blocks(Model& model, const published::Reader& reader) {
  note_activation_scales(model);
  Result<std::unique_ptr<Checkpoint>> read =
      published::published_checkpoint(std::move(model.checkpoint), reader);
  if (!read.ok()) return with_context(model.path, read.status());
  model.checkpoint = std::move(*read);
  return {};
}

// Quantised matrices of a folder are read into blocks that kernels know.
Status read_published(Model& model) {
  TENON_ASSIGN_OR_RETURN(const nlohmann::json config, parse_json_object(model.config_json));
  Faults faults;
  const std::optional<JsonFields> how = JsonFields(config, faults).object("quantization_config");
  if (!how) return {};
  const std::unique_ptr<published::Reader> reader = published::make_reader(*how);
  if (reader == nullptr) return faults.status(model.path + "/config.json");
  return read_blocks(model, *reader);
}

// NVFP4 in a GGUF file becomes such blocks too: a matrix's factor is a tensor of its own there.
Status read_gguf_nvfp4(Model& model) {
  const auto is_nvfp4 = [&model](const std::string& name) {
    return model.checkpoint->quant_format(name) == kGgufNvFp4;
  };
  if (std::ranges::none_of(model.checkpoint->names(), is_nvfp4)) return {};
  return read_blocks(model, *published::make_gguf_nvfp4());
}

// Calls `visit(weight)` for each matrix, the head only where it is a tensor of its own.
template <typename Visit>
void for_each_matrix(const Model& model, Visit visit) {
  visit(model.embedding);
  visit(model.positions);
  visit(model.layer_table);
  visit(model.layer_projection);
  for (const auto* streams : {&model.stream_in, &model.stream_out}) {
    for (const Weight& weight : *streams) visit(weight);
  }
  if (!model.plan.tied_embeddings) visit(model.head);
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) visit(*weight);
  }
}

}  // namespace

std::vector<const Weight*> LayerWeights::matrices() const {
  std::vector<const Weight*> all;
  // Blocks share members: latent attention has the q and the output of attention.
  const auto add = [&all](const Weight& weight) {
    if (std::ranges::find(all, &weight) == all.end()) all.push_back(&weight);
  };
  for (const Block* block : layer_blocks()) {
    for (const BlockTensor& tensor : block->tensors) {
      if (tensor.in_layer.matrix != nullptr) add(this->*tensor.in_layer.matrix);
      if (tensor.in_heads == nullptr) continue;
      for (const Weight& weight : this->*tensor.in_heads) all.push_back(&weight);
    }
  }
  for (const ExpertWeights& expert : experts) {
    for (const BlockTensor& tensor : kExperts.tensors) {
      if (tensor.in_experts.matrix != nullptr) all.push_back(&(expert.*tensor.in_experts.matrix));
    }
  }
  std::erase_if(all, [](const Weight* weight) { return weight->n_out == 0; });
  return all;
}

uint64_t Model::parameter_count() const {
  uint64_t count = 0;
  for_each_matrix(*this,
                  [&](const Weight& weight) { count += uint64_t{weight.n_out} * weight.k_in; });
  for (const TensorSpec& spec : list_tensors(plan)) {
    for (const ConstTensorPlace& place : places_of(*this, spec)) {
      if (place.vector != nullptr) count += place.rows;
    }
  }
  return count;
}

uint64_t Model::weight_bytes() const {
  uint64_t bytes = 0;
  for_each_matrix(*this, [&](const Weight& weight) {
    for (const TensorView& part : weight.parts) bytes += bytes_of(part).size();
  });
  return bytes + vector_bytes;
}

Result<std::unique_ptr<Checkpoint>> open_tensors_again(const Model& model, const ModelPlan& plan) {
  Model again;
  again.path = model.path;
  again.config_json = model.config_json;
  if (is_model_file(model.path)) {
    TENON_ASSIGN_OR_RETURN(again.checkpoint, open_gguf_tensors(model.path, plan));
    TENON_RETURN_IF_ERROR(read_gguf_nvfp4(again));
    return std::move(again.checkpoint);
  }
  TENON_ASSIGN_OR_RETURN(again.checkpoint, open_safetensors_folder(model.path));
  if (!model.plan.text_part_of.empty()) {
    again.checkpoint = text_checkpoint(std::move(again.checkpoint));
  }
  TENON_RETURN_IF_ERROR(read_published(again));
  return std::move(again.checkpoint);
}

namespace {

Result<std::unique_ptr<Model>> open_checkpoint(const std::string& path, std::string_view as) {
  auto model = std::make_unique<Model>();
  model->path = path;
  if (is_model_file(path)) {
    if (!as.empty()) {
      return unsupported(path_in_quotes(path) +
                         " is a GGUF file, whose family its metadata names; "
                         "only a folder can be read as another family's ('" +
                         std::string(as) + "')");
    }
    TENON_ASSIGN_OR_RETURN(OpenedGguf opened, open_gguf(path));
    model->plan = std::move(opened.config.plan);
    model->config_json = std::move(opened.config.json);
    model->ends = std::move(opened.config.ends);
    model->generation = std::move(opened.generation);
    model->generation_json = std::move(opened.generation_json);
    TENON_RETURN_IF_ERROR(check_generation(*model));
    model->checkpoint = std::move(opened.checkpoint);
    TENON_RETURN_IF_ERROR(read_gguf_nvfp4(*model));
  } else {
    TENON_RETURN_IF_ERROR(read_configs(*model, as));
    TENON_ASSIGN_OR_RETURN(model->checkpoint, open_safetensors_folder(path));
    TENON_RETURN_IF_ERROR(check_generation(*model));
    TENON_RETURN_IF_ERROR(keep_text_part(*model));
    TENON_RETURN_IF_ERROR(name_ends(*model));
    TENON_RETURN_IF_ERROR(read_published(*model));
  }
  TENON_RETURN_IF_ERROR(take_weights(*model));
  return model;
}

}  // namespace

Result<std::unique_ptr<Model>> open_model(const std::string& path, std::string_view as) {
  Result<std::unique_ptr<Model>> opened = open_checkpoint(path, as);
  if (opened.ok() || opened.status().code() != StatusCode::not_found) return opened;
  return not_found(message_of(opened.status()) + hub::hint(path));
}

}  // namespace tenon
