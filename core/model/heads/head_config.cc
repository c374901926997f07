#include "core/model/heads/head_config.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/config/json_fields.h"
#include "core/model/config/model_config.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace {

using nlohmann::json;
using Keys = std::set<std::string, std::less<>>;

// What heads compute, by the names that speculators has for it; dspark is dflash with more.
enum class Algorithm : uint8_t { eagle3, peagle, dflash, dspark, mtp, eagle };
constexpr std::array<std::string_view, 6> kAlgorithms = {"eagle3", "peagle", "dflash",
                                                         "dspark", "mtp",    "eagle"};

// What folders name as their class: EAGLE and SpecForge, the authors of DFlash and DSpark, older
// and newer versions of speculators.
struct HeadClass {
  std::string_view name;
  Algorithm algorithm;
};
constexpr HeadClass kClasses[] = {{"LlamaForCausalLMEagle", Algorithm::eagle},
                                  {"Qwen2ForCausalLMEagle", Algorithm::eagle},
                                  {"EagleLlamaForCausalLM", Algorithm::eagle},
                                  {"EagleSpeculator", Algorithm::eagle},
                                  {"LlamaForCausalLMEagle3", Algorithm::eagle3},
                                  {"Eagle3LlamaForCausalLM", Algorithm::eagle3},
                                  {"Eagle3Speculator", Algorithm::eagle3},
                                  {"Eagle3DraftModel", Algorithm::eagle3},
                                  {"PEagleSpeculator", Algorithm::peagle},
                                  {"PEagleDraftModel", Algorithm::peagle},
                                  {"DFlashSpeculator", Algorithm::dflash},
                                  {"DFlashDraftModel", Algorithm::dflash},
                                  {"DSparkSpeculator", Algorithm::dspark},
                                  {"DSparkDraftModel", Algorithm::dspark},
                                  {"Qwen3DSparkModel", Algorithm::dspark},
                                  {"MTPSpeculator", Algorithm::mtp},
                                  {"MTPDraftModel", Algorithm::mtp}};

// Tokens that heads propose at once which were trained for no certain number, at most.
constexpr uint32_t kMostAtOnce = 32;

constexpr const char* kType = "speculators_model_type";
constexpr const char* kLayer = "transformer_layer_config";
constexpr const char* kStates = "eagle_aux_hidden_state_layer_ids";

// Keys of a head that stand among those of its layers.
constexpr std::array kOwnKeys = {"draft_vocab_size",
                                 "target_hidden_size",
                                 "norm_before_residual",
                                 "norm_before_fc",
                                 "fc_norm",
                                 "norm_output",
                                 "eagle_config",
                                 "architectures",
                                 kStates,
                                 "bias",
                                 "parallel_drafting",
                                 "ptd_token_id",
                                 "auto_map",
                                 "block_size",
                                 "mask_token_id",
                                 "dflash_config",
                                 "target_layer_ids",
                                 "num_target_layers",
                                 "num_anchors",
                                 "sample_from_anchor",
                                 "markov_rank",
                                 "markov_head_type",
                                 "enable_confidence_head",
                                 "confidence_head_with_markov",
                                 "num_nextn_predict_layers"};

const HeadClass* class_of_head(const json& value) {
  if (!value.is_string()) return nullptr;
  const auto found =
      std::ranges::find(kClasses, value.get_ref<const std::string&>(), &HeadClass::name);
  return found == std::end(kClasses) ? nullptr : found;
}

std::string in_words(std::span<const std::string_view> words) {
  std::vector<std::string> quoted;
  for (const std::string_view word : words) quoted.push_back(in_quotes(word));
  return join_and(quoted);
}

// EAGLE's own folders may have the class of the model whose layers they use.
bool is_whole_models(const json& value) {
  return value.is_string() && value.get_ref<const std::string&>().ends_with("ForCausalLM");
}

// By speculators' name of it, else by the class, else by the tensors.
Algorithm read_algorithm(const JsonFields& fields, bool normless) {
  const json* classes = fields.find("architectures");
  const bool named = classes != nullptr && classes->is_array() && !classes->empty();
  const HeadClass* by_class = named ? class_of_head(classes->front()) : nullptr;
  const auto by_name = std::ranges::find(kAlgorithms, fields.text(kType, ""));
  if (fields.has(kType) && by_name == kAlgorithms.end()) {
    fields.faults().unsupported("'" + std::string(kType) + "' is " + describe(*fields.find(kType)) +
                                "; heads of the kinds " + in_words(kAlgorithms) + " are built");
    return Algorithm::eagle3;
  }
  if (!fields.has(kType) && named && by_class == nullptr && is_whole_models(classes->front())) {
    return normless ? Algorithm::eagle : Algorithm::eagle3;
  }
  if (named && by_class == nullptr) {
    std::vector<std::string> names;
    for (const HeadClass& each : kClasses) names.emplace_back(each.name);
    fields.faults().unsupported("architecture " + describe(classes->front()) +
                                " is no head that is built; expected " + join_and(names));
    return Algorithm::eagle3;
  }
  if (by_name == kAlgorithms.end()) {
    return by_class == nullptr ? Algorithm::eagle3 : by_class->algorithm;
  }
  return static_cast<Algorithm>(by_name - kAlgorithms.begin());
}

// `first`: what the list calls the state after the target's first layer.
std::vector<uint32_t> read_states(const JsonFields& fields, const char* key = kStates,
                                  uint32_t first = 1) {
  const json* list = fields.find(key);
  if (list == nullptr) return {};
  std::vector<uint32_t> states;
  const auto refuse = [&](const char* verb, const json& value) {
    fields.faults().invalid(fields.name(key) + verb + describe(value) +
                            "; expected a list of numbers of layers");
    return std::vector<uint32_t>();
  };
  if (!list->is_array() || list->empty() || list->size() > 64) return refuse(" is ", *list);
  for (const json& id : *list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > 100'000) return refuse(" has ", id);
    states.push_back(id.get<uint32_t>() + 1 - first);
  }
  if (states.front() == 0) {
    fields.faults().unsupported(fields.name(key) +
                                " has 0, the embeddings; heads that read states between layers are "
                                "built");
  }
  for (size_t i = 1; i < states.size(); ++i) {
    if (states[i] > states[i - 1]) continue;
    fields.faults().unsupported(fields.name(key) +
                                " does not rise; expected numbers of layers "
                                "in their order");
    break;
  }
  return states;
}

// The layers' own config, as a model that consists of them would have it.
json layer_config(const json& config, Faults& faults) {
  const auto apart = config.find(kLayer);
  json layer = apart != config.end() ? *apart : config;
  if (!layer.is_object()) {
    faults.invalid("'" + std::string(kLayer) + "' is " + describe(layer) + "; expected an object");
    return json::object();
  }
  for (const char* key : kOwnKeys) layer.erase(key);
  if (!layer.contains("model_type")) layer["model_type"] = "llama";
  layer["tie_word_embeddings"] = false;
  return layer;
}

void read_own(const JsonFields& fields, HeadConfig& config) {
  if (fields.has("norm_before_residual")) {
    config.norm_before_residual = fields.flag("norm_before_residual", false) ? 1 : 0;
  }
  config.norm_before_fc = fields.flag("norm_before_fc", false);
  config.fc_norm = fields.flag("fc_norm", false);
  config.norm_output = fields.flag("norm_output", false);
  if (config.norm_before_fc && config.fc_norm) {
    fields.faults().invalid("'norm_before_fc' and 'fc_norm' are both true; expected one at most");
  }
  if (fields.has("target_hidden_size")) {
    config.target_hidden = fields.count("target_hidden_size", 0, 1, 1'000'000);
  }
  if (config.kind == HeadKind::eagle3) config.states = read_states(fields);
  // EAGLE's own form has the numbers one level deeper.
  const std::optional<JsonFields> eagle = fields.object("eagle_config");
  if (!eagle) return;
  if (!eagle->flag("use_aux_hidden_state", true)) {
    fields.faults().unsupported(
        "'eagle_config.use_aux_hidden_state' is false; heads that read states between layers are "
        "built");
  }
  if (config.states.empty()) config.states = read_states(*eagle);
}

// Rows after the last one that have read a mask: P-EAGLE.
void read_parallel(const JsonFields& fields, Algorithm algorithm, HeadConfig& config) {
  const bool parallel = fields.flag("parallel_drafting", false) || algorithm == Algorithm::peagle;
  if (!parallel) return;
  const char* key = fields.has("mask_token_id") ? "mask_token_id" : "ptd_token_id";
  const std::vector<int32_t> mask = fields.token_ids(key, {}, INT32_MAX);
  if (mask.size() != 1) {
    return fields.faults().invalid(
        "there is no 'mask_token_id', the token that stands for those "
        "that are not known; expected one");
  }
  config.block = {.tokens = kMostAtOnce, .mask = mask.front(), .mask_state = {}};
}

// DFlash and DSpark: their authors' form has most keys one level deeper, or none of speculators'.
void read_block(const JsonFields& fields, Algorithm algorithm, HeadConfig& config) {
  const std::optional<JsonFields> inner = fields.object("dflash_config");
  const auto where = [&](const char* key) -> const JsonFields& {
    return inner && inner->has(key) ? *inner : fields;
  };
  for (const char* key : {"block_size", "mask_token_id"}) {
    if (where(key).has(key)) continue;
    fields.faults().invalid(in_quotes(key) + " is not there; a head that drafts blocks needs it");
  }
  const uint32_t rows = where("block_size").count("block_size", 0, 2, kMostBlockRows);
  const JsonFields& masked = where("mask_token_id");
  const std::vector<int32_t> mask = masked.token_ids("mask_token_id", {}, INT32_MAX);
  if (const nlohmann::json* said = masked.find("mask_token_id");
      said != nullptr && said->is_array() && said->size() != 1) {
    masked.faults().invalid(masked.name("mask_token_id") + " is " + describe(*said) +
                            "; expected one token");
  }
  if (rows == 0 || mask.size() != 1) return;
  const bool from_anchor = fields.flag("sample_from_anchor", algorithm == Algorithm::dspark);
  config.block = {.tokens = from_anchor ? rows : rows - 1,
                  .mask = mask.front(),
                  .from_anchor = from_anchor,
                  .mask_state = {}};
  config.states = read_states(fields, "aux_hidden_state_layer_ids");
  if (config.states.empty()) {
    config.states = read_states(where("target_layer_ids"), "target_layer_ids", 0);
  }
  if (config.states.empty()) {
    fields.faults().invalid(
        "there are neither 'aux_hidden_state_layer_ids' nor "
        "'target_layer_ids', the states that the head reads; expected one");
  }
  config.markov_rank = where("markov_rank").count("markov_rank", 0, 0, 65'536);
  const std::string type = where("markov_head_type").text("markov_head_type", "vanilla");
  if (config.markov_rank > 0 && type == "gated") config.markov_kind = MarkovKind::gated;
  if (config.markov_rank > 0 && type != "vanilla" && type != "gated") {
    fields.faults().unsupported("'markov_head_type' is " + in_quotes(type) +
                                "; heads of the types 'vanilla' and 'gated' are built");
  }
  if (algorithm == Algorithm::dflash && config.markov_rank > 0) {
    fields.faults().unsupported("'markov_rank' is " + std::to_string(config.markov_rank) +
                                ", but the head is a DFlash one, which has no Markov head");
  }
  config.confidence = fields.flag("enable_confidence_head", false);
  config.confidence_with_markov = fields.flag("confidence_head_with_markov", false);
  if (config.confidence && config.confidence_with_markov && config.markov_rank == 0) {
    fields.faults().invalid("'confidence_head_with_markov' is true, but 'markov_rank' is 0");
  }
}

// Rows of a block see all of each other, and all the same tokens before them.
void refuse_windows(const json& layer, Faults& faults) {
  const auto types = layer.find("layer_types");
  const bool windows = types != layer.end() && types->is_array() &&
                       std::ranges::find(*types, json("sliding_attention")) != types->end();
  if (windows) {
    faults.unsupported(
        "'layer_types' has 'sliding_attention'; heads of blocks whose layers all attend to the "
        "whole text are built");
  }
}

// Layers of Llama with windows, by `layer_types`, which Llama itself does not read: speculators do.
void read_llamas_windows(const json& layer, bool of_speculators, Faults& faults, ModelPlan& plan) {
  if (plan.architecture != "llama" || !layer.contains("layer_types")) return;
  const JsonFields fields(layer, faults, "");
  const std::vector<bool> sliding = read_sliding_layers(fields, plan.layers.size());
  if (std::ranges::find(sliding, true) == sliding.end()) return;
  if (!of_speculators) {
    return faults.unsupported(
        "'layer_types' has 'sliding_attention'; layers of Llama have windows in heads of "
        "speculators alone");
  }
  const uint32_t window = fields.count("sliding_window", 0, 0, INT32_MAX);
  if (window == 0) {
    return faults.invalid("'layer_types' has sliding layers but there is no sliding window");
  }
  set_windows(sliding, window, plan);
}

// EAGLE 1 and 2: only what is between embedding, state and LM head.
void read_eagle(const JsonFields& fields, HeadConfig& config) {
  config.kind = HeadKind::eagle;
  config.norm_before_residual = 0;
  if (fields.flag("layernorms", false)) {
    fields.faults().unsupported(
        "'layernorms' is true; heads of EAGLE 1 and 2 without norms of their own are built");
  }
  for (const char* key : {"norm_before_fc", "fc_norm", "norm_output"}) {
    if (!fields.flag(key, false)) continue;
    fields.faults().unsupported(fields.name(key) + " is true, which heads of EAGLE 1 and 2 lack");
  }
}

// The layer of a module, where the config is that of the whole model that it is for: the last one
// that attends, to the whole text if any does.
void keep_modules_layer(ModelPlan& plan) {
  const auto attends = [](const LayerPlan& layer) { return layer.attends() && !layer.recurrent; };
  const auto everything = [&](const LayerPlan& layer) {
    return attends(layer) && layer.attention.window_tokens == 0;
  };
  auto found = std::ranges::find_if(plan.layers.rbegin(), plan.layers.rend(), everything);
  if (found == plan.layers.rend()) {
    found = std::ranges::find_if(plan.layers.rbegin(), plan.layers.rend(), attends);
  }
  if (found == plan.layers.rend()) return plan.layers.clear();
  plan.layers = {LayerPlan(*found)};
}

// Of folders that have the layers' keys apart: what stands next to them and nobody asked for.
void tell_of_unread(const json& config, const Keys& asked, const std::string& name) {
  constexpr std::string_view kBookkeeping[] = {"speculators_config",
                                               "speculators_version",
                                               "auto_map",
                                               "dtype",
                                               "torch_dtype",
                                               "tie_word_embeddings",
                                               "transformers_version",
                                               "transformer_layer_architecture",
                                               "embed_requires_grad",
                                               "model_type",
                                               "fusion_bias",
                                               "num_nextn_predict_layers",
                                               "sliding_window_non_causal"};
  if (!config.contains(kLayer)) return;
  std::vector<std::string> unread;
  for (const auto& [key, value] : config.items()) {
    const bool known =
        key == kLayer || std::ranges::find(kBookkeeping, key) != std::end(kBookkeeping);
    if (!known && !asked.contains(key) && !value.is_null()) unread.push_back(in_quotes(key));
  }
  if (unread.empty()) return;
  log(LogLevel::warning, "model", name + ": " + join_and(unread) + " is not read");
}

bool is_medusa(const json& config) {
  const auto type = config.find("model_type");
  return config.contains("medusa_num_heads") || (type != config.end() && *type == "medusa");
}

}  // namespace

bool is_medusa_config(std::string_view text) {
  const Result<json> config = parse_json_object(text);
  return config.ok() && is_medusa(*config);
}

bool is_head_config(const json& config) {
  if (is_medusa(config)) return true;
  if (config.contains(kType) || config.contains("draft_vocab_size")) return true;
  const auto classes = config.find("architectures");
  return classes != config.end() && classes->is_array() && !classes->empty() &&
         class_of_head(classes->front()) != nullptr;
}

Result<HeadConfig> parse_head_config(std::string_view text, const std::string& name,
                                     bool normless) {
  Result<json> parsed = parse_json_object(text);
  if (!parsed.ok()) return with_context(name, parsed.status());
  Faults faults;
  Keys asked;
  const JsonFields fields(*parsed, faults, "", &asked);
  const Algorithm algorithm = read_algorithm(fields, normless);
  const bool blocks = algorithm == Algorithm::dflash || algorithm == Algorithm::dspark;
  HeadConfig config;
  if (blocks) config.kind = HeadKind::dflash;
  read_own(fields, config);
  const json layer = layer_config(*parsed, faults);
  if (blocks) {
    read_block(fields, algorithm, config);
    refuse_windows(layer, faults);
    config.norm_before_residual = 0;
  } else if (algorithm == Algorithm::mtp) {
    config.kind = HeadKind::mtp;
  } else if (algorithm == Algorithm::eagle) {
    read_eagle(fields, config);
  } else {
    read_parallel(fields, algorithm, config);
  }
  if (faults.any()) return faults.status(name);
  TENON_ASSIGN_OR_RETURN(config.plan, parse_model_config(layer.dump(), name));
  config.draft_vocabulary =
      fields.count("draft_vocab_size", config.plan.vocabulary, 1, config.plan.vocabulary);
  const bool module = config.kind == HeadKind::mtp;
  read_llamas_windows(layer, parsed->contains(kType), faults, config.plan);
  if (module) keep_modules_layer(config.plan);
  const bool plain = std::ranges::all_of(config.plan.layers, [&](const LayerPlan& l) {
    return l.attends() && !l.latent && !l.recurrent && !l.parallel && !l.input &&
           l.attention_norm.kind == NormKind::rms &&
           (module || (!l.attention.output_gate && !l.experts));
  });
  if (!plain || config.plan.layers.empty() || config.plan.embedding_scale != 1.0f ||
      config.plan.learned_positions || config.plan.embedding_norm) {
    faults.unsupported("a head of layers of the family " + in_quotes(config.plan.architecture) +
                       "; heads of layers as Llama and Qwen3 have them are built");
  }
  if (config.block && static_cast<uint32_t>(config.block.mask) >= config.plan.vocabulary) {
    faults.invalid("'mask_token_id' is " + std::to_string(config.block.mask) +
                   ", but the vocabulary has " + std::to_string(config.plan.vocabulary) +
                   " tokens");
  }
  if (faults.any()) return faults.status(name);
  tell_of_unread(*parsed, asked, name);
  if (config.kind == HeadKind::eagle) {
    config.plan.layers.front().attention_norm = {};
    config.plan.final_norm = {};
  }
  return config;
}

}  // namespace tenon
