// DeepSeek-V3.2 and GLM-5: DeepSeek-V3 with an index that chooses which positions a token attends
// to (IndexPlan). GLM's layers may take the choice of one before them, and its index turns
// neighbours.
#include <algorithm>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/latent.h"

namespace tenon {
namespace deepseek_index_family {

constexpr ShapeDefaults kDeepseekShape{.vocabulary = 129280,
                                       .hidden = 7168,
                                       .intermediate = 18432,
                                       .layers = 61,
                                       .heads = 128,
                                       .context_tokens = 163840,
                                       .bos = 0,
                                       .eos = 1};
constexpr ShapeDefaults kGlmShape{.vocabulary = 154880,
                                  .hidden = 6144,
                                  .intermediate = 12288,
                                  .layers = 78,
                                  .heads = 64,
                                  .context_tokens = 202752,
                                  .bos = 0,
                                  .eos = 1};
constexpr LatentDefaults kGlmLatent{
    .q_rank = 2048, .kv_rank = 512, .nope_dim = 192, .rope_dim = 64, .v_dim = 256, .eps = 1e-5};
constexpr ExpertDefaults kExperts{.count = 256,
                                  .chosen = 8,
                                  .width = 2048,
                                  .width_key = "moe_intermediate_size",
                                  .count_key = "n_routed_experts"};
// transformers hard-codes the epsilon.
constexpr NormPlan kKeyNorm{.kind = NormKind::layer, .eps = 1e-6f, .bias = true};

IndexPlan read_index(const JsonFields& config, uint32_t heads, bool pairs,
                     const LatentAttentionPlan& latent) {
  IndexPlan index{.chosen = config.count("index_topk", 2048, 1, kMaxWidth),
                  .heads = config.count("index_n_heads", heads, 1, kMaxWidth),
                  .dim = config.count("index_head_dim", 128, 1, kMaxWidth),
                  .rope_dim = latent.rope_dim,
                  .pairs = pairs,
                  .norm = kKeyNorm};
  if (index.dim < index.rope_dim || uint64_t{index.heads} * index.dim > kMaxWidth) {
    config.faults().invalid("an index of " + std::to_string(index.heads) + " heads of " +
                            std::to_string(index.dim) + " elements; expected at least the " +
                            std::to_string(index.rope_dim) +
                            " of 'qk_rope_head_dim' that turn, "
                            "and at most " +
                            std::to_string(kMaxWidth) + " together");
    index.heads = 1;
    index.dim = index.rope_dim;
  }
  if (latent.q_rank == 0) {
    config.faults().unsupported(config.name("q_lora_rank") +
                                " is null; an index runs with a q of two steps alone");
  }
  return index;
}

// Layers that say what they do with positions must all have an index.
void check_layer_types(const JsonFields& config) {
  const nlohmann::json* types = config.find("layer_types");
  if (types == nullptr) return;
  const auto indexed = [](const nlohmann::json& type) { return type == "indexed_attention"; };
  if (types->is_array() && std::ranges::all_of(*types, indexed)) return;
  config.faults().unsupported(config.name("layer_types") + " is " + describe(*types) +
                              "; this family runs with \"indexed_attention\" alone");
}

void read_layers(const JsonFields& config, const Shape& shape, LatentDefaults latent,
                 const RouterDefaults& router, uint32_t index_heads, bool pairs, ModelPlan& plan) {
  latent.head_dim_counts = false;
  read_latent_layers(config, shape, latent, true, plan);
  check_layer_types(config);
  const IndexPlan index = read_index(config, index_heads, pairs, plan.layers.front().latent);
  for (LayerPlan& layer : plan.layers) layer.index = index;
  const ExpertsPlan experts = read_sigmoid_router(config, router);
  set_checked_experts(config, read_mlp_types(config, 3, shape.layers), experts, plan);
}

void read_deepseek(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_latent_shape(config, kDeepseekShape, plan);
  read_layers(config, shape, {},
              {.experts = kExperts, .scale = 2.5f, .groups = 8, .groups_chosen = 4}, 64, false,
              plan);
}

// [layers] whether each makes a choice of its own: a list of words, a pattern of F and S, or every
// so many layers after the first ones. Empty: a fault.
std::vector<bool> read_makers(const JsonFields& config, uint32_t layers) {
  const char* key = config.has("indexer_types") ? "indexer_types" : "index_topk_pattern";
  for (const char* other : {"index_topk_pattern", "index_topk_freq", "index_skip_topk_offset"}) {
    (void)config.find(other);
  }
  std::vector<bool> makers;
  if (const nlohmann::json* types = config.find(key)) {
    std::vector<std::string> words;
    if (types->is_string()) {
      for (const char letter : types->get<std::string>()) words.emplace_back(1, letter);
    } else if (types->is_array()) {
      for (const auto& type : *types) words.push_back(type.is_string() ? type : "?");
    }
    const bool letters = types->is_string();
    for (const std::string& word : words) {
      if (word != (letters ? "F" : "full") && word != (letters ? "S" : "shared")) break;
      makers.push_back(word == (letters ? "F" : "full"));
    }
    if (makers.size() != words.size()) makers.clear();
  } else {
    const uint32_t every = std::max(config.count("index_topk_freq", 1, 0, kMaxLayers), 1u);
    const uint32_t offset = config.count("index_skip_topk_offset", 2, 0, kMaxLayers);
    for (uint32_t i = 0; i < layers; ++i) {
      makers.push_back((i + 1 > offset ? i + 1 - offset : 0) % every == 0);
    }
  }
  if (makers.size() == layers && makers.front()) return makers;
  config.faults().invalid(config.name(key) + " is " +
                          (config.has(key) ? describe(*config.find(key)) : "missing") +
                          "; expected \"full\" or \"shared\" for each of " +
                          std::to_string(layers) + " layers, the first one full");
  return {};
}

void read_glm(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_latent_shape(config, kGlmShape, plan);
  read_layers(config, shape, kGlmLatent, {.experts = kExperts, .scale = 2.5f}, 32, true, plan);
  const std::vector<bool> makers = read_makers(config, shape.layers);
  for (size_t i = 0; i < makers.size(); ++i) {
    if (makers[i]) continue;
    IndexPlan shared;
    shared.chosen = plan.layers[i].index.chosen;
    plan.layers[i].index = shared;
  }
}

// Flags, or words as in config.json. Files of models for a million tokens and more that lack them
// were made before there was a key for them, of layers that may share.
void types_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  const char* key = ".attention.indexer.types";
  const auto layers = config["num_hidden_layers"].get<size_t>();
  const GgufValue* types = fields.find(key);
  if (types == nullptr) {
    if (config["max_position_embeddings"].get<uint32_t>() < 1u << 20) return;
    fields.faults().unsupported(fields.name(key) + " is missing in a model for " +
                                config["max_position_embeddings"].dump() +
                                " tokens, whose layers may share choices of positions – convert "
                                "it anew");
    return;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  if (const auto words = types->texts()) {
    for (const std::string_view word : *words) list.push_back(word);
  } else if (const auto flags = types->integers()) {
    for (const int64_t full : *flags) list.push_back(full != 0 ? "full" : "shared");
  }
  // Those of layers for drafts may be among them.
  if (list.size() > layers) list.erase(list.begin() + static_cast<ptrdiff_t>(layers), list.end());
  config["indexer_types"] = std::move(list);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  latent_from_gguf(fields, config);
  if (fields.count(".expert_count", 0, 0, kMaxWidth) == 0) {
    config["first_k_dense_replace"] = config["num_hidden_layers"];
  } else {
    router_from_gguf(fields, kGgufSigmoid, config);
  }
  config["index_n_heads"] = fields.need_count(".attention.indexer.head_count", 1, kMaxWidth);
  config["index_head_dim"] = fields.need_count(".attention.indexer.key_length", 1, kMaxWidth);
  config["index_topk"] = fields.need_count(".attention.indexer.top_k", 1, kMaxWidth);
}

void glm_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  from_gguf(fields, config);
  types_from_gguf(fields, config);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  latent_to_gguf(plan, architecture, out);
  const bool any =
      std::ranges::any_of(plan.layers, [](const LayerPlan& layer) { return bool{layer.experts}; });
  if (any) {
    router_to_gguf(plan, architecture, out);
  } else {
    out.add_count(architecture + ".leading_dense_block_count",
                  static_cast<uint32_t>(plan.layers.size()));
  }
  const IndexPlan& index = plan.layers.front().index;
  out.add_count(architecture + ".attention.indexer.head_count", index.heads);
  out.add_count(architecture + ".attention.indexer.key_length", index.dim);
  out.add_count(architecture + ".attention.indexer.top_k", index.chosen);
}

void glm_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  to_gguf(plan, architecture, out);
  std::vector<bool> makers;
  for (const LayerPlan& layer : plan.layers) makers.push_back(layer.index.heads > 0);
  out.add_flags(architecture + ".attention.indexer.types", makers);
}

}  // namespace deepseek_index_family

const Family kDeepseekV32{.model_type = "deepseek_v32",
                          .class_stem = "DeepseekV32",
                          .architecture = "deepseek32",
                          .read = deepseek_index_family::read_deepseek,
                          .tensors = {.names = kLatentNames},
                          .gguf_latent = true,
                          .from_gguf = deepseek_index_family::from_gguf,
                          .to_gguf = deepseek_index_family::to_gguf};
const Family kGlmMoeDsa{.model_type = "glm_moe_dsa",
                        .class_stem = "GlmMoeDsa",
                        .architecture = "glm-dsa",
                        .read = deepseek_index_family::read_glm,
                        .tensors = {.names = kLatentNames},
                        .gguf_latent = true,
                        .from_gguf = deepseek_index_family::glm_from_gguf,
                        .to_gguf = deepseek_index_family::glm_to_gguf};

}  // namespace tenon
