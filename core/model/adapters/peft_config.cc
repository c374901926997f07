#include "core/model/adapters/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/base/quote.h"
#include "core/model/config/json_fields.h"

namespace tenon {
namespace {

using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr uint32_t kMaxRank = 1u << 16;
constexpr uint32_t kMaxLayerIndex = 1u << 20;
constexpr size_t kMaxPatternBytes = 512;

// Keys that say how an adapter was trained or where it is from, or what an unmerged product does
// not depend on.
constexpr std::string_view kHarmless[] = {
    "peft_type",      "task_type",         "auto_mapping",       "base_model_name_or_path",
    "revision",       "inference_mode",    "lora_dropout",       "peft_version",
    "fan_in_fan_out", "loftq_config",      "eva_config",         "corda_config",
    "lora_ga_config", "runtime_config",    "megatron_config",    "megatron_core",
    "layers_pattern", "qalora_group_size", "ensure_weight_tying"};

// Keys that would change the arithmetic, with what they mean.
struct ChangesArithmetic {
  std::string_view key;
  std::string_view meaning;
};
constexpr ChangesArithmetic kNotBuilt[] = {
    {"use_dora", "DoRA scales every column anew"},
    {"use_qalora", "QA-LoRA pools what enters"},
    {"use_bdlora", "block-diagonal factors are multiplied otherwise"},
    {"lora_bias", "biases beside lora_B"},
    {"modules_to_save", "whole modules in place of the base model's"},
    {"layer_replication", "layers that stand in the model several times"},
    {"trainable_token_indices", "rows of the embedding in place of the base model's"},
    {"target_parameters", "adapters of parameters, such as those of experts, that are no modules"},
    {"alora_invocation_tokens", "an adapter that begins to act within a text"},
    {"arrow_config", "a choice between adapters for each token"},
};

// null, false, 0, and what is empty: as if it had not been written.
bool says_nothing(const json& value) {
  if (value.is_null() || value == false) return true;
  if (value.is_array() || value.is_object() || value.is_string()) return value.empty();
  return value.is_number() && value == 0;
}

class Reader {
 public:
  Reader(const json& object, const OrderedJson& ordered)
      : object_(object), ordered_(ordered), fields_(object, faults_, "", &asked_) {}

  Result<PeftConfig> read(std::string_view where) {
    if (const std::string type = fields_.text("peft_type", "LORA"); type != "LORA") {
      faults_.unsupported("'peft_type' is " + in_quotes(type) + "; LORA adapters are read");
      return faults_.status(where);
    }
    PeftConfig config;
    config.rank = fields_.count("r", 8, 1, kMaxRank);
    config.alpha = fields_.number("lora_alpha", 8.0);
    config.rank_stabilised = fields_.flag("use_rslora", false);
    config.ranks = patterns("rank_pattern");
    config.alphas = patterns("alpha_pattern");
    read_modules(config);
    read_layers(config);
    check_init();
    check_bias();
    check_others();
    if (faults_.any()) return faults_.status(where);
    return config;
  }

 private:
  const json* find(const char* key) {
    asked_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  // PEFT matches from the front of the module's name or behind one of its points, to the end.
  // Numbers of repetitions are refused because they can make a short pattern very large.
  void add_pattern(const char* key, const std::string& text, double value,
                   std::vector<PeftConfig::Pattern>& out) {
    const std::string where = "'" + std::string(key) + "' has the pattern " + in_quotes(text);
    if (text.size() > kMaxPatternBytes || text.find('{') != text.npos) {
      return faults_.unsupported(where + "; expected at most " + std::to_string(kMaxPatternBytes) +
                                 " bytes without '{'");
    }
    try {
      // Without backtracking: the time is bounded by the lengths of pattern and name.
      const auto flags = std::regex::ECMAScript | std::regex_constants::__polynomial;
      out.push_back({std::regex("(.*\\.)?(" + text + ")", flags), value});
    } catch (const std::regex_error&) {
      faults_.unsupported(where + ", which is no regular expression that can be read here");
    }
  }

  // In the order of the file.
  std::vector<PeftConfig::Pattern> patterns(const char* key) {
    std::vector<PeftConfig::Pattern> out;
    const json* found = find(key);
    if (found == nullptr) return out;
    if (!found->is_object()) {
      faults_.invalid("'" + std::string(key) + "' is " + describe(*found) +
                      "; expected an object of module names and numbers");
      return out;
    }
    const bool ranks = std::string_view(key) == "rank_pattern";
    for (const auto& [text, value] : ordered_[key].items()) {
      const bool number = value.is_number() && std::isfinite(value.get<double>());
      const bool rank = number && value.is_number_integer() && value.get<double>() >= 1 &&
                        value.get<double>() <= kMaxRank;
      if (ranks ? rank : number) {
        add_pattern(key, text, value.get<double>(), out);
        continue;
      }
      faults_.invalid("'" + std::string(key) + "' gives " + in_quotes(text) + " the value " +
                      describe(json(value)) + "; expected " +
                      (ranks ? "a rank of at least 1" : "a number"));
    }
    return out;
  }

  void read_modules(PeftConfig& config) {
    if (const json* excluded = find("exclude_modules")) {
      config.excludes_modules = !says_nothing(*excluded);
    }
    const json* modules = find("target_modules");
    // One text is "all-linear" or a regular expression.
    if (modules == nullptr || modules->is_string()) return;
    if (!modules->is_array()) {
      return faults_.invalid("'target_modules' is " + describe(*modules) +
                             "; expected a list of module names or a text");
    }
    for (const json& module : *modules) {
      if (!module.is_string() || module.get_ref<const std::string&>().empty()) {
        return faults_.invalid("'target_modules' has " + describe(module) +
                               "; expected names of modules");
      }
      config.modules.push_back(module.get<std::string>());
    }
  }

  void read_layers(PeftConfig& config) {
    const json* layers = find("layers_to_transform");
    if (layers == nullptr || (layers->is_array() && layers->empty())) return;
    config.layers.emplace();
    const auto add = [&](const json& index) {
      const bool fits = index.is_number_integer() && index >= 0 && index <= kMaxLayerIndex;
      if (fits) config.layers->push_back(index.get<uint32_t>());
      return fits;
    };
    const bool good = layers->is_array() ? std::ranges::all_of(*layers, add) : add(*layers);
    if (good) return;
    faults_.invalid("'layers_to_transform' is " + describe(*layers) +
                    "; expected the number of a layer, or a list of them");
  }

  // What an adapter began with does not matter, unless the base model was changed as well.
  void check_init() {
    const json* init = find("init_lora_weights");
    if (init == nullptr || init->is_boolean()) return;
    constexpr std::array<std::string_view, 3> kPlain = {"gaussian", "eva", "orthogonal"};
    const bool plain =
        init->is_string() &&
        std::ranges::find(kPlain, init->get_ref<const std::string&>()) != kPlain.end();
    if (plain) return;
    faults_.unsupported("'init_lora_weights' is " + describe(*init) +
                        ", which may have changed the base model's own weights; expected true, "
                        "false, gaussian, eva or orthogonal (PEFT can save such an adapter for "
                        "the unchanged model: path_initial_model_for_weight_conversion)");
  }

  void check_bias() {
    const std::string bias = fields_.text("bias", "none");
    if (bias == "none") return;
    faults_.unsupported("'bias' is " + in_quotes(bias) +
                        ", which trains the base model's biases too; expected none");
  }

  void check_others() {
    for (const std::string_view key : kHarmless) asked_.emplace(key);
    for (const auto& [key, value] : object_.items()) {
      if (asked_.contains(key) || says_nothing(value)) continue;
      const auto* known = std::ranges::find(kNotBuilt, key, &ChangesArithmetic::key);
      if (known != std::end(kNotBuilt)) {
        faults_.unsupported("'" + key + "' is " + describe(value) + ": " +
                            std::string(known->meaning) + ", which is not built");
      } else {
        faults_.unsupported(in_quotes(key) + " is " + describe(value) +
                            ", and nothing is known of this key; remove it if it does not change "
                            "what the adapter computes");
      }
    }
  }

  const json& object_;
  const OrderedJson& ordered_;
  Faults faults_;
  std::set<std::string, std::less<>> asked_;
  JsonFields fields_;
};

std::optional<double> first_match(const std::vector<PeftConfig::Pattern>& patterns,
                                  const std::string& module) {
  for (const PeftConfig::Pattern& pattern : patterns) {
    if (std::regex_match(module, pattern.module)) return pattern.value;
  }
  return std::nullopt;
}

}  // namespace

uint32_t PeftConfig::rank_of(const std::string& module) const {
  return static_cast<uint32_t>(first_match(ranks, module).value_or(rank));
}

float PeftConfig::scale_of(const std::string& module) const {
  const double own = rank_of(module);
  const double divisor = rank_stabilised ? std::sqrt(own) : own;
  return static_cast<float>(first_match(alphas, module).value_or(alpha) / divisor);
}

bool PeftConfig::names(std::string_view module) const {
  if (modules.empty()) return true;
  return std::ranges::any_of(modules, [&](const std::string& end) {
    return module == end || module.ends_with("." + end);
  });
}

bool PeftConfig::has_layer(uint32_t layer) const {
  return !layers || std::ranges::find(*layers, layer) != layers->end();
}

Result<PeftConfig> parse_peft_config(std::string_view text, std::string_view where) {
  Result<json> object = parse_json_object(text);
  if (!object.ok()) return with_context(where, object.status());
  const OrderedJson ordered = in_order(text);
  return Reader(*object, ordered).read(where);
}

}  // namespace tenon
