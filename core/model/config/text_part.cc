#include "core/model/config/text_part.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/model/checkpoint/renamed_checkpoint.h"
#include "core/model/families/family.h"
#include "core/model/families/nearest.h"

namespace tenon {
namespace {

using nlohmann::json;

// What says that the head is the embedding, as transformers 5 reads it: the whole's own
// `tie_word_embeddings`, which is true or false where it is missing, whatever the text model's
// says; or either of the two; or the text model's alone.
enum class Ties : uint8_t { whole_or_tied, whole_or_not, either, text };

struct WholeModel {
  std::string_view model_type;
  std::string_view class_name;
  std::string_view text_type;  // where text_config does not say, or has a name of its own for it
  Ties ties;
  bool plain_head = true;  // logits are what the whole's own head makes, with no factor and no cap
  std::string_view published_class = {};  // that other folders name instead
  // Keys that the text model has where they are missing, other than its family by itself.
  std::string_view defaults = {};
};
constexpr std::string_view kQwen2Defaults =
    R"({"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568,
        "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-5, "rope_theta": 1e6, "max_window_layers": 80})";
constexpr std::string_view kQwen3Defaults =
    R"({"max_position_embeddings": 128000, "rope_theta": 5e5})";
constexpr WholeModel kWholeModels[] = {
    {"aya_vision", "AyaVisionForConditionalGeneration", "cohere2", Ties::whole_or_tied},
    {"cohere2_vision", "Cohere2VisionForConditionalGeneration", "cohere2", Ties::whole_or_tied},
    {"exaone4_5", "Exaone4_5_ForConditionalGeneration", "exaone4", Ties::whole_or_not},
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", Ties::whole_or_tied},
    {"got_ocr2", "GotOcr2ForConditionalGeneration", "qwen2", Ties::whole_or_tied},
    {"idefics3", "Idefics3ForConditionalGeneration", "llama", Ties::whole_or_not},
    {"internvl", "InternVLForConditionalGeneration", "qwen2", Ties::whole_or_tied},
    {"lfm2_vl", "Lfm2VlForConditionalGeneration", "lfm2", Ties::whole_or_tied},
    {"lfm3_vl", "Lfm3VlForConditionalGeneration", "lfm3", Ties::whole_or_tied},
    {"kimi_k25", "Kimi_K25ForConditionalGeneration", "deepseek_v3", Ties::whole_or_tied, true,
     "KimiK25ForConditionalGeneration"},
    {"gemma3n", "Gemma3nForConditionalGeneration", "gemma3n_text", Ties::whole_or_tied, false},
    {"gemma4", "Gemma4ForConditionalGeneration", "gemma4_text", Ties::whole_or_tied, false},
    {"gemma4_unified", "Gemma4UnifiedForConditionalGeneration", "gemma4_unified_text",
     Ties::whole_or_tied, false},
    {"llama4", "Llama4ForConditionalGeneration", "llama4_text", Ties::text},
    {"llava", "LlavaForConditionalGeneration", "llama", Ties::either},
    {"llava_next", "LlavaNextForConditionalGeneration", "llama", Ties::either},
    {"llava_next_video", "LlavaNextVideoForConditionalGeneration", "llama", Ties::either},
    {"llava_onevision", "LlavaOnevisionForConditionalGeneration", "qwen2", Ties::either},
    {"lighton_ocr", "LightOnOcrForConditionalGeneration", "qwen3", Ties::whole_or_tied},
    {"minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", "qwen3_5_text", Ties::whole_or_not},
    {"minicpmv4_7", "MiniCPMV4_7ForConditionalGeneration", "qwen3_5_text", Ties::whole_or_not},
    {"mistral3", "Mistral3ForConditionalGeneration", "mistral", Ties::whole_or_tied},
    {"ovis2", "Ovis2ForConditionalGeneration", "qwen2", Ties::whole_or_tied},
    {"qwen2_vl",
     "Qwen2VLForConditionalGeneration",
     "qwen2",
     Ties::either,
     true,
     {},
     kQwen2Defaults},
    {"qwen2_5_vl",
     "Qwen2_5_VLForConditionalGeneration",
     "qwen2",
     Ties::either,
     true,
     {},
     kQwen2Defaults},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", Ties::whole_or_not},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", Ties::whole_or_not},
    {"qwen3_vl",
     "Qwen3VLForConditionalGeneration",
     "qwen3",
     Ties::whole_or_not,
     true,
     {},
     kQwen3Defaults},
    {"qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text", Ties::whole_or_not},
    {"smolvlm", "SmolVLMForConditionalGeneration", "llama", Ties::whole_or_not},
    {"step3p7", "Step3p7ForConditionalGeneration", "step3p5", Ties::whole_or_not},
    {"vipllava", "VipLlavaForConditionalGeneration", "llama", Ties::whole_or_not},
};

const WholeModel* find_whole(std::string_view model_type) {
  const auto* found = std::ranges::find(kWholeModels, model_type, &WholeModel::model_type);
  return found == std::end(kWholeModels) ? nullptr : found;
}

const WholeModel* find_whole(const json& config) {
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) return nullptr;
  return find_whole(std::string_view(type->get_ref<const std::string&>()));
}

void check_class(const json& config, const WholeModel& whole, Faults& faults) {
  const auto classes = config.find("architectures");
  if (classes == config.end() || !classes->is_array() || classes->empty()) return;
  if (classes->front() == whole.class_name) return;
  if (!whole.published_class.empty() && classes->front() == whole.published_class) return;
  faults.unsupported("architecture " + describe(classes->front()) +
                     " is not built for model_type '" + std::string(whole.model_type) +
                     "'; expected '" + std::string(whole.class_name) + "'");
}

// Positions of text are the same on all axes of a rotary embedding for images, which then is the
// plain one.
void drop_axes(json& text) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto rope = text.find(key);
    if (rope == text.end() || !rope->is_object()) continue;
    if (!rope->contains("mrope_section")) continue;
    rope->erase("mrope_section");
    rope->erase("mrope_interleaved");
    for (const char* type : {"type", "rope_type"}) {
      if (rope->contains(type) && (*rope)[type] == "mrope") (*rope)[type] = "default";
    }
  }
}

void name_family(const WholeModel& whole, json& text, Faults& faults) {
  const auto type = text.find("model_type");
  const std::string own =
      type == text.end() || !type->is_string() ? std::string() : type->get<std::string>();
  text.erase("architectures");
  if (find_family(own) != nullptr) return;
  const bool named_after_whole =
      own.empty() || own == whole.model_type || own == std::string(whole.model_type) + "_text";
  if (!named_after_whole) {
    faults.unsupported("'text_config.model_type' is " + in_quotes(own) + ", which is not built" +
                       nearest_family(own));
  }
  text["model_type"] = whole.text_type;
}

// Keys of a text model for its own head. Falcon-H1 scales embeddings where it looks them up itself;
// a whole does that in its place.
void drop_head_keys(json& text) {
  for (const char* key :
       {"final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier"}) {
    text.erase(key);
  }
  const std::string type = text["model_type"];
  if (type == "falcon_h1") text.erase("embedding_multiplier");
  // A folder that is written of the text part alone says so of what its family has where nothing
  // does.
  if (type.starts_with("cohere")) text["logit_scale"] = 1.0;
  for (const char* capped : {"gemma2", "vaultgemma", "nanochat"}) {
    if (type == capped) text["final_logit_softcapping"] = nullptr;
  }
}

void add_defaults(std::string_view defaults, json& text) {
  if (defaults.empty()) return;
  const json all = json::parse(defaults);
  for (const auto& [key, value] : all.items()) {
    if (!text.contains(key)) text[key] = value;
  }
}

bool is_true(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

void settle_ties(const json& config, const WholeModel& whole, json& text) {
  const char* key = "tie_word_embeddings";
  text.erase("tie_embedding");  // as LFM2 calls it
  const bool said = config.contains(key) && !config[key].is_null();
  bool tied = said ? is_true(config, key) : whole.ties == Ties::whole_or_tied;
  if (whole.ties == Ties::either) tied = tied || is_true(text, key);
  if (whole.ties == Ties::text) tied = is_true(text, key);
  text[key] = tied;
}

// Where a whole keeps the tensors that a text model calls "model.…" and "lm_head.…", of which
// "model.layers.…" may have another name still.
struct TextNames {
  std::string_view model;
  std::string_view head;
  std::string_view layers;
};
constexpr std::string_view kModel = "model.", kHead = "lm_head.", kLayers = "model.layers.",
                           kDrafts = "mtp.";
constexpr TextNames kTextNames[] = {
    {"language_model.model.", "language_model.lm_head.", "language_model.model.layers."},
    {"language_model.model.", "language_model.lm_head.", "language_model.model.blocks."},
    {"model.language_model.", kHead, "model.language_model.layers."},
    {"model.text_model.", kHead, "model.text_model.layers."},
    {kModel, kHead, kLayers}};

TextNames names_in(const Checkpoint& whole) {
  const std::vector<std::string> all = whole.names();
  for (const TextNames& names : kTextNames) {
    const auto is_of_layer = [&](const std::string& name) {
      return name.starts_with(names.layers);
    };
    if (std::ranges::any_of(all, is_of_layer)) return names;
  }
  return kTextNames[0];
}

std::string with_prefix(std::string_view name, std::string_view from, std::string_view to) {
  return std::string(to).append(name.substr(from.size()));
}

class TextCheckpoint final : public RenamedCheckpoint {
 public:
  explicit TextCheckpoint(std::unique_ptr<Checkpoint> whole)
      : RenamedCheckpoint(std::move(whole)), in_whole_(names_in(this->whole())) {}

 private:
  std::optional<std::string> in_whole(std::string_view name) const override {
    if (name.starts_with(kLayers)) return with_prefix(name, kLayers, in_whole_.layers);
    if (name.starts_with(kModel)) return with_prefix(name, kModel, in_whole_.model);
    if (name.starts_with(kHead)) return with_prefix(name, kHead, in_whole_.head);
    return std::string(name);
  }
  std::optional<std::string> name_of(std::string_view name) const override {
    if (name.starts_with(in_whole_.layers)) return with_prefix(name, in_whole_.layers, kLayers);
    if (name.starts_with(in_whole_.model)) return with_prefix(name, in_whole_.model, kModel);
    if (name.starts_with(in_whole_.head)) return with_prefix(name, in_whole_.head, kHead);
    if (name.starts_with(kDrafts)) return std::string(name);
    return std::nullopt;
  }

  TextNames in_whole_;
};

}  // namespace

std::vector<TextPartName> text_part_names() {
  std::vector<TextPartName> names;
  for (const WholeModel& whole : kWholeModels) names.push_back({whole.model_type, whole.text_type});
  return names;
}

bool is_whole_model(std::string_view model_type) {
  return find_whole(model_type) != nullptr;
}

TextPart find_text_part(const json& config, Faults& faults) {
  const WholeModel* whole = find_whole(config);
  if (whole == nullptr) return {};
  check_class(config, *whole, faults);
  TextPart part{
      .of = std::string(whole->model_type), .plain_head = whole->plain_head, .config = {}};
  const auto text = config.find("text_config");
  const bool apart = text != config.end() && !text->is_null();
  if (apart && !text->is_object()) {
    faults.invalid("'text_config' is " + describe(*text) + "; expected an object");
    return part;
  }
  // Old files of some have the keys of the text model beside those of the rest.
  part.config = apart ? *text : config;
  if (!apart) part.config.erase("vision_config");
  name_family(*whole, part.config, faults);
  if (whole->plain_head) drop_head_keys(part.config);
  drop_axes(part.config);
  add_defaults(whole->defaults, part.config);
  settle_ties(config, *whole, part.config);
  constexpr const char* kHow = "quantization_config";
  if (apart && config.contains(kHow) && part.config.contains(kHow) &&
      !part.config[kHow].is_null() && part.config[kHow] != config[kHow]) {
    faults.invalid(
        "'quantization_config' and 'text_config.quantization_config' are not the same; "
        "expected one – take out the one that is wrong");
  }
  if (part.config.contains(kHow) && part.config[kHow].is_null()) part.config.erase(kHow);
  for (const char* key : {kHow, "bos_token_id", "eos_token_id"}) {
    if (config.contains(key) && !part.config.contains(key)) part.config[key] = config[key];
  }
  return part;
}

std::unique_ptr<Checkpoint> text_checkpoint(std::unique_ptr<Checkpoint> whole) {
  return std::make_unique<TextCheckpoint>(std::move(whole));
}

}  // namespace tenon
