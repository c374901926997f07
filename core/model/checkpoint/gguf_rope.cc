// The rotary settings of a GGUF file.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_config.h"
#include "core/model/checkpoint/gguf_source.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace {

using nlohmann::ordered_json;

// The exact settings behind stored rotary factors, where this program wrote the file.
ordered_json read_llama3(const GgufSource& source) {
  const GgufFields& fields = source.fields;
  const double low = fields.number("tenon.rope.llama3.low_freq_factor", 1.0, 1e-6, 1e30);
  const double high = fields.number("tenon.rope.llama3.high_freq_factor", 4.0, 1e-6, 1e30);
  if (high <= low) {
    source.faults().invalid("'tenon.rope.llama3.high_freq_factor' must be above the low one");
  }
  return {
      {"rope_type", "llama3"},
      {"factor", fields.number("tenon.rope.llama3.factor", 1.0, 1e-6, 1e30)},
      {"low_freq_factor", low},
      {"high_freq_factor", high},
      {"original_max_position_embeddings", fields.count("tenon.rope.llama3.original_context_length",
                                                        source.context_tokens, 1, kMaxWidth)}};
}

// A tensor of rotary factors, one a pair of a head; empty where it is not there, or faulty.
std::vector<float> read_factors(const GgufSource& source, const char* name) {
  const GgufTensor* factors = source.tensor(name);
  if (factors == nullptr) return {};
  const std::string tensor = "tensor '" + std::string(name) + "'";
  if (factors->type != kGgufF32 || factors->extents != std::vector<uint64_t>{source.turned / 2}) {
    source.faults().invalid(tensor + " is not " + std::to_string(source.turned / 2) +
                            " values of f32, one a pair of a head");
    return {};
  }
  std::vector<float> values(source.turned / 2);
  std::memcpy(values.data(), source.bytes(*factors).data(), values.size() * sizeof(float));
  const bool sound =
      std::ranges::all_of(values, [](float value) { return value >= 1e-6f && value <= 1e30f; });
  if (!sound) source.faults().invalid(tensor + " has a value outside of 1e-6 to 1e30");
  return values;
}

// The original context stands beside the settings, where it outweighs a family's default.
ordered_json read_longrope(GgufSource& source) {
  const GgufFields& fields = source.fields;
  source.config["original_max_position_embeddings"] =
      fields.count(".rope.scaling.original_context_length", source.context_tokens, 1, kMaxWidth);
  ordered_json scaling{{"rope_type", "longrope"},
                       {"short_factor", read_factors(source, "rope_factors_short.weight")},
                       {"long_factor", read_factors(source, "rope_factors_long.weight")}};
  if (fields.has(".rope.scaling.attn_factor")) {
    scaling["attention_factor"] = fields.number(".rope.scaling.attn_factor", 1.0, 1e-6, 1e30);
  }
  return scaling;
}

ordered_json read_yarn(const GgufSource& source) {
  const GgufFields& fields = source.fields;
  ordered_json scaling{
      {"rope_type", "yarn"},
      {"factor", fields.number(".rope.scaling.factor", 1.0, 1e-6, 1e30)},
      {"original_max_position_embeddings",
       fields.count(".rope.scaling.original_context_length", source.context_tokens, 1, kMaxWidth)}};
  for (const auto& [key, name] : {std::pair(".rope.scaling.yarn_beta_fast", "beta_fast"),
                                  std::pair(".rope.scaling.yarn_beta_slow", "beta_slow")}) {
    if (fields.has(key)) scaling[name] = fields.number(key, 1.0, 1e-6, 1e30);
  }
  return scaling;
}

}  // namespace

ordered_json read_gguf_rope_scaling(GgufSource& source) {
  const GgufFields& fields = source.fields;
  if (source.has_tensor("rope_factors_long.weight") ||
      source.has_tensor("rope_factors_short.weight")) {
    (void)fields.text(".rope.scaling.type", "");
    return read_longrope(source);
  }
  if (fields.has("tenon.rope.llama3.factor")) return read_llama3(source);
  const double old = fields.number(".rope.scale_linear", 1.0, 1e-6, 1e30);
  const std::string type = fields.text(".rope.scaling.type", old != 1.0 ? "linear" : "none");
  if (type == "linear") {
    return {{"rope_type", "linear"},
            {"factor", fields.number(".rope.scaling.factor", old, 1e-6, 1e30)}};
  }
  if (type == "yarn") return read_yarn(source);
  if (type != "none") {
    source.faults().unsupported(fields.name(".rope.scaling.type") + " is " + in_quotes(type) +
                                "; there are none, linear and yarn, and stored factors");
  }
  return nullptr;
}

std::vector<float> read_gguf_rope_factors(const GgufSource& source) {
  return read_factors(source, "rope_freqs.weight");
}

void apply_gguf_rope_factors(const GgufSource& source, std::vector<float> factors,
                             ModelPlan& plan) {
  if (factors.empty() || source.faults().any() || plan.ropes.empty()) return;
  RopePlan& rope = plan.ropes.front();
  factors.resize(std::min<size_t>(factors.size(), rope.dim / 2));
  if (rope.scaling.kind != RopeScalingKind::llama3) {
    rope.factors = std::move(factors);
    return;
  }
  const std::vector<float> expected = llama3_rope_factors(rope);
  for (size_t i = 0; i < factors.size(); ++i) {
    if (std::fabs(factors[i] - expected[i]) <= 1e-5f * expected[i]) continue;
    source.faults().invalid(
        "tensor 'rope_freqs.weight' and 'tenon.rope.llama3.factor' contradict each other");
    return;
  }
}

}  // namespace tenon
