// Rotary settings by kind of layer.
#include <algorithm>
#include <cmath>

#include "core/model/checkpoint/gguf_config.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";
constexpr const char* kPart = "partial_rotary_factor";

// The object of a kind of layers in rope_parameters, or the plain setting.
json rope_of(const std::optional<JsonFields>& parameters, const char* kind) {
  const json* own = parameters ? parameters->find(kind) : nullptr;
  if (own != nullptr && own->is_object()) return *own;
  if (own != nullptr) (void)parameters->object(kind);  // which tells the fault
  return {{"rope_type", "default"}};
}

// The keys of a config that count for a setting by kind: the base, and that only a part would turn.
json beside(const JsonFields& config, const char* theta_key) {
  json flat = json::object();
  for (const char* key : {theta_key, kPart}) {
    const json* value = key != nullptr ? config.find(key) : nullptr;
    if (value != nullptr) flat[key] = *value;
  }
  return flat;
}

// transformers looks for `truncate` next to the kinds alone, and of what stands next to
// rope_parameters it takes these two.
RopePlan read_kind(const JsonFields& config, const JsonFields& settings, const char* kind,
                   double part, uint32_t head_dim, uint32_t context_tokens) {
  const auto own = settings.object(kind);
  if (!own) {
    config.faults().invalid(settings.name(kind) + " is missing; some layers are of that kind");
    return {};
  }
  json flat = json::object();
  for (const char* key : {"rope_theta", kPart}) {
    if (const json* value = config.find(key)) flat[key] = *value;
  }
  // Where the key is missing, only the plain type takes the family's part of a head.
  const bool plain = own->text("rope_type", own->text("type", "default")) == "default";
  const RopeDefaults defaults{.partial = PartialRotation::by_key,
                              .partial_factor = plain ? part : 1.0};
  RopePlan rope =
      read_rope_object(JsonFields(flat, config.faults()), *own, defaults, head_dim, context_tokens);
  rope.scaling.truncate = truncates(settings);
  return rope;
}

}  // namespace

void read_two_ropes(const JsonFields& config, const RopeDefaults& full, const RopeDefaults& sliding,
                    uint32_t head_dim, ModelPlan& plan) {
  const std::optional<JsonFields> parameters = config.object("rope_parameters");
  const std::optional<JsonFields> scaling = config.object("rope_scaling");
  json of_full = rope_of(parameters, kFull);
  const json of_sliding = rope_of(parameters, kSliding);
  if (scaling) of_full.update(*config.find("rope_scaling"));
  Faults& faults = config.faults();
  const bool apart = parameters && parameters->has(kFull);
  const JsonFields first(of_full, faults,
                         scaling && !apart ? "rope_scaling." : "rope_parameters.full_attention.");
  const JsonFields second(of_sliding, faults, "rope_parameters.sliding_attention.");
  const auto read = [&](const JsonFields& rope, RopeDefaults defaults) {
    const json flat = beside(config, defaults.theta_key);
    if (defaults.theta_key == nullptr) defaults.theta_key = "rope_theta";
    return read_rope_object(JsonFields(flat, faults), rope, defaults, head_dim,
                            plan.context_tokens);
  };
  plan.ropes = {read(first, full), read(second, sliding)};
  // transformers looks for it beside the kinds of layers alone.
  const bool truncate = !parameters || truncates(*parameters);
  for (RopePlan& rope : plan.ropes) rope.scaling.truncate = truncate;
}

void read_kind_ropes(const JsonFields& config, const KindRopes& usual,
                     const std::vector<bool>& sliding, uint32_t head_dim, ModelPlan& plan) {
  static const json kNothing = json::object();
  const auto settings = config.object("rope_parameters");
  plan.ropes.clear();
  for (const bool slides : {false, true}) {
    const bool any = std::ranges::find(sliding, slides) != sliding.end();
    if (any && settings) {
      plan.ropes.push_back(read_kind(config, *settings, slides ? kSliding : kFull, usual.part,
                                     head_dim, plan.context_tokens));
    } else {
      RopeDefaults defaults = slides ? usual.sliding : usual.full;
      if (!any) defaults.partial_factor = 1.0;
      plan.ropes.push_back(plain_rope(JsonFields(kNothing, config.faults()), defaults, head_dim));
    }
  }
  for (size_t i = 0; i < sliding.size() && i < plan.layers.size(); ++i) {
    plan.layers[i].attention.rope = sliding[i] ? 1 : 0;
  }
}

void kind_ropes_from_gguf(const GgufFields& fields, ordered_json& config) {
  ordered_json full = config["rope_scaling"];
  if (!full.is_object()) full = {{"rope_type", "default"}};
  full["rope_theta"] = config["rope_theta"];
  full[kPart] = config.value(kPart, 1.0);
  const double theta = config["rope_theta"];
  const auto head_dim = config["head_dim"].get<uint32_t>();
  ordered_json local{{"rope_type", "default"},
                     {"rope_theta", fields.number(".rope.freq_base_swa", theta, 1e-6, 1e30)},
                     {kPart, full[kPart]}};
  if (fields.has(".rope.dimension_count_swa")) {
    const uint32_t turned = fields.count(".rope.dimension_count_swa", head_dim, 2, head_dim);
    double part = static_cast<double>(turned) / head_dim;
    if (std::floor(part * head_dim) < turned) part = std::nextafter(part, 1.0);
    local[kPart] = part;
  }
  config["rope_parameters"] = {{kFull, std::move(full)}, {kSliding, std::move(local)}};
  for (const char* key : {"rope_scaling", "rope_theta", kPart}) config.erase(key);
}

void kind_ropes_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  out.add_real(architecture + ".rope.freq_base_swa", static_cast<float>(plan.ropes[1].theta));
  out.add_count(architecture + ".rope.dimension_count_swa", plan.ropes[1].dim);
}

std::vector<uint32_t> read_layer_counts(const JsonFields& config, const char* key, size_t layers) {
  const json* value = config.find(key);
  if (value == nullptr) return {};
  const auto sound = [](const json& item) {
    return item.is_number_unsigned() && item.get<uint64_t>() >= 1 &&
           item.get<uint64_t>() <= kMaxWidth;
  };
  if (value->is_array() && value->size() == layers && std::ranges::all_of(*value, sound)) {
    return value->get<std::vector<uint32_t>>();
  }
  config.faults().invalid(config.name(key) + " is " + describe(*value) + "; expected a list of " +
                          std::to_string(layers) + " whole numbers from 1, one a layer");
  return {};
}

}  // namespace tenon
