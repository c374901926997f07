#include "core/model/heads/head_config.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/config/json_fields.h"
#include "core/model/config/model_config.h"

namespace tenon {
namespace {

using nlohmann::json;

// What folders name as their class: EAGLE and SpecForge, older and newer versions of speculators.
constexpr std::array<std::string_view, 4> kClasses = {
    "LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3Speculator", "Eagle3DraftModel"};

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
                                 "parallel_drafting",
                                 "ptd_token_id",
                                 "auto_map"};

bool is_class_of_head(const json& value) {
  return value.is_string() &&
         std::ranges::find(kClasses, value.get_ref<const std::string&>()) != kClasses.end();
}

void check_kind(const JsonFields& fields) {
  if (const json* classes = fields.find("architectures");
      classes != nullptr && classes->is_array() && !classes->empty() &&
      !is_class_of_head(classes->front())) {
    fields.faults().unsupported(
        "architecture " + describe(classes->front()) +
        " is no EAGLE-3 head that is built; expected " +
        join_and(std::vector<std::string>(kClasses.begin(), kClasses.end())));
  }
  const std::string type = fields.text(kType, "eagle3");
  if (type != "eagle3") {
    fields.faults().unsupported("'" + std::string(kType) + "' is " + in_quotes(type) +
                                "; heads of the kind 'eagle3' are built");
  }
  if (fields.flag("parallel_drafting", false)) {
    fields.faults().unsupported(
        "'parallel_drafting' is true; heads that draft token after token are built");
  }
}

std::vector<uint32_t> read_states(const JsonFields& fields) {
  const json* list = fields.find(kStates);
  if (list == nullptr) return {};
  std::vector<uint32_t> states;
  const bool whole = list->is_array() && !list->empty() && list->size() <= 64;
  for (size_t i = 0; whole && i < list->size(); ++i) {
    const json& id = (*list)[i];
    if (!id.is_number_unsigned() || id.get<uint64_t>() > 100'000) break;
    states.push_back(id.get<uint32_t>());
  }
  if (!whole || states.size() != list->size()) {
    fields.faults().invalid(fields.name(kStates) + " is " + describe(*list) +
                            "; expected a list of numbers of layers");
    return {};
  }
  if (states.front() == 0) {
    fields.faults().unsupported(fields.name(kStates) +
                                " has 0, the embeddings; heads that read states between layers are "
                                "built");
  }
  for (size_t i = 1; i < states.size(); ++i) {
    if (states[i] > states[i - 1]) continue;
    fields.faults().unsupported(fields.name(kStates) +
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
  config.states = read_states(fields);
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

}  // namespace

Result<HeadConfig> parse_head_config(std::string_view text, const std::string& name) {
  Result<json> parsed = parse_json_object(text);
  if (!parsed.ok()) return with_context(name, parsed.status());
  Faults faults;
  const JsonFields fields(*parsed, faults);
  check_kind(fields);
  HeadConfig config;
  read_own(fields, config);
  const json layer = layer_config(*parsed, faults);
  if (faults.any()) return faults.status(name);
  TENON_ASSIGN_OR_RETURN(config.plan, parse_model_config(layer.dump(), name));
  config.draft_vocabulary =
      fields.count("draft_vocab_size", config.plan.vocabulary, 1, config.plan.vocabulary);
  const bool plain = std::ranges::all_of(config.plan.layers, [](const LayerPlan& l) {
    return l.attends() && !l.latent && !l.recurrent && !l.experts && !l.parallel && !l.input &&
           l.attention_norm.kind == NormKind::rms && !l.attention.output_gate;
  });
  if (!plain || config.plan.layers.empty() || config.plan.embedding_scale != 1.0f ||
      config.plan.learned_positions || config.plan.embedding_norm) {
    faults.unsupported("a head of layers of the family " + in_quotes(config.plan.architecture) +
                       "; heads of layers as Llama and Qwen3 have them are built");
  }
  if (faults.any()) return faults.status(name);
  return config;
}

}  // namespace tenon
