// The rotary settings of a config.json, in any of their spellings.
#include <algorithm>
#include <cmath>

#include "core/base/quote.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace {

using nlohmann::json;

// Beside the settings it outweighs what stands in them, as in transformers.
uint32_t read_original_context(const JsonFields& config, const JsonFields& rope,
                               const RopeDefaults& defaults, uint32_t context_tokens) {
  const char* key = "original_max_position_embeddings";
  const uint32_t own = defaults.original_context_tokens;
  const uint32_t usual = defaults.usual_context_tokens;
  const uint32_t inside = rope.count(key, usual != 0 ? usual : context_tokens, 1, kMaxWidth);
  return config.count(key, own != 0 ? own : inside, 1, kMaxWidth);
}

void read_llama3(const JsonFields& config, const JsonFields& rope, const RopeDefaults& defaults,
                 uint32_t context_tokens, RopeScaling& out) {
  out.kind = RopeScalingKind::llama3;
  out.factor = bounded_number(rope, "factor", 0.0);
  out.low_freq_factor = bounded_number(rope, "low_freq_factor", 0.0);
  out.high_freq_factor = bounded_number(rope, "high_freq_factor", 0.0);
  out.original_context_tokens = read_original_context(config, rope, defaults, context_tokens);
  if (out.high_freq_factor <= out.low_freq_factor && !rope.faults().any()) {
    rope.faults().invalid(rope.name("high_freq_factor") + " must be above 'low_freq_factor'");
  }
}

// arXiv:2309.00071, with the options that transformers reads.
void read_yarn(const JsonFields& config, const JsonFields& rope, const RopeDefaults& defaults,
               uint32_t context_tokens, RopeScaling& out) {
  out.kind = RopeScalingKind::yarn;
  out.original_context_tokens = read_original_context(config, rope, defaults, context_tokens);
  out.factor = rope.has("factor")
                   ? bounded_number(rope, "factor", 0.0)
                   : static_cast<double>(context_tokens) / out.original_context_tokens;
  out.beta_fast = rope.number("beta_fast", 0) == 0 ? 32.0 : bounded_number(rope, "beta_fast", 32.0);
  out.beta_slow = rope.number("beta_slow", 0) == 0 ? 1.0 : bounded_number(rope, "beta_slow", 1.0);
  out.truncate = truncates(rope);
  const auto raised = [&](double by) {
    return out.factor <= 1.0 ? 1.0 : 0.1 * by * std::log(out.factor) + 1.0;
  };
  out.mscale = rope.number("mscale", 0);
  out.mscale_all_dim = rope.number("mscale_all_dim", 0);
  const bool both = out.mscale != 0 && out.mscale_all_dim != 0;
  const double fallback = both ? raised(out.mscale) / raised(out.mscale_all_dim) : raised(1.0);
  out.attention_factor =
      rope.has("attention_factor") ? bounded_number(rope, "attention_factor", 0.0) : fallback;
}

std::vector<float> read_factors(const JsonFields& rope, const char* key, size_t count) {
  const json* value = rope.find(key);
  const auto sound = [](const json& item) {
    return item.is_number() && item.get<double>() >= 1e-6 && item.get<double>() <= 1e30;
  };
  if (value == nullptr || !value->is_array() || value->size() != count ||
      !std::ranges::all_of(*value, sound)) {
    rope.faults().invalid(rope.name(key) + " is " + (value ? describe(*value) : "missing") +
                          "; expected " + std::to_string(count) + " numbers from 1e-6 to 1e30");
    return {};
  }
  return value->get<std::vector<float>>();
}

// arXiv:2402.13753.
void read_longrope(const JsonFields& config, const JsonFields& rope, const RopeDefaults& defaults,
                   uint32_t context_tokens, uint32_t dim, RopeScaling& out) {
  out.kind = RopeScalingKind::longrope;
  out.short_factors = read_factors(rope, "short_factor", dim / 2);
  out.long_factors = read_factors(rope, "long_factor", dim / 2);
  out.original_context_tokens = read_original_context(config, rope, defaults, context_tokens);
  const double original = out.original_context_tokens;
  out.factor = rope.has("factor") ? bounded_number(rope, "factor", 0.0) : context_tokens / original;
  const double fallback = out.factor <= 1.0 || original <= 1.0
                              ? 1.0
                              : std::sqrt(1.0 + std::log(out.factor) / std::log(original));
  out.attention_factor =
      rope.has("attention_factor") ? bounded_number(rope, "attention_factor", 0.0) : fallback;
}

void read_scaling(const JsonFields& config, const JsonFields& rope, const RopeDefaults& defaults,
                  uint32_t context_tokens, RopePlan& out) {
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (rope.is_null("rope_type")) {
    rope.faults().invalid(rope.name("rope_type") + " is null; expected a rope type, or no key");
  }
  for (const char* key : {"full_attention", "sliding_attention", "mrope_section"}) {
    const bool of_images = std::string_view(key) == "mrope_section" && defaults.axes;
    if (!rope.has(key) || of_images) continue;
    rope.faults().unsupported(rope.name(key) + " is not built; one rotary setting for all layers");
  }
  if (type == "linear") {
    out.scaling.kind = RopeScalingKind::linear;
    out.scaling.factor = bounded_number(rope, "factor", 0.0);
  } else if (type == "dynamic") {
    out.scaling.kind = RopeScalingKind::dynamic;
    out.scaling.original_context_tokens = context_tokens;
    out.scaling.factor = bounded_number(rope, "factor", 0.0);
  } else if (type == "llama3") {
    read_llama3(config, rope, defaults, context_tokens, out.scaling);
  } else if (type == "yarn" && !rope.has("long_factor")) {
    read_yarn(config, rope, defaults, context_tokens, out.scaling);
    if (out.theta <= 1.0) rope.faults().invalid("'rope_theta' must be above 1 with rope type yarn");
  } else if (type == "longrope" || type == "su" || type == "yarn") {
    // Early Phi-3 files call it "su" or "yarn".
    read_longrope(config, rope, defaults, context_tokens, out.dim, out.scaling);
  } else if (type != "default") {
    rope.faults().unsupported(rope.name(rope.has("rope_type") ? "rope_type" : "type") +
                              ": rope type " + in_quotes(type, kMostValueBytes) +
                              " is not built; there are default, linear, dynamic, llama3, yarn, "
                              "longrope");
  }
}

// How much of a head turns. Families that overlook the key do so with the plain type alone: with
// another their reference computes too few angles and fails.
uint32_t read_dim(const JsonFields& config, const JsonFields& rope, const RopeDefaults& defaults,
                  uint32_t head_dim) {
  const char* key = defaults.partial_key;
  const double beside = config.number(key, defaults.partial_factor);
  const double part = rope.number("partial_rotary_factor", beside);
  if (part == 1.0) return head_dim;
  if (defaults.partial == PartialRotation::never) {
    const std::string type = rope.text("rope_type", rope.text("type", "default"));
    if (type == "default") return head_dim;
    config.faults().unsupported("'partial_rotary_factor' is " + std::to_string(part) +
                                "; only whole heads (1.0) are rotated with rope type " +
                                in_quotes(type));
    return head_dim;
  }
  const double turned = std::floor(part * head_dim);
  const bool odd = std::fmod(turned, 2.0) != 0.0;
  if (part > 0.0 && part < 1.0 && turned >= 1.0 && (!odd || defaults.odd_parts)) {
    return static_cast<uint32_t>(turned);
  }
  const JsonFields& from = rope.has("partial_rotary_factor") ? rope : config;
  const char* told = rope.has("partial_rotary_factor") ? "partial_rotary_factor" : key;
  config.faults().invalid(from.name(told) + ": " + std::to_string(part) + " of heads of " +
                          std::to_string(head_dim) +
                          " elements would turn; expected an even number of elements of a head");
  return head_dim;
}

// The reference makes a frequency for each element but every other one, and turns two elements by
// each: of an odd number one more turns, by frequencies that are spread over that number. As a base
// for one more, it is this.
void round_up_odd(const JsonFields& rope, RopePlan& out) {
  if (out.dim % 2 == 0) return;
  const RopeScalingKind kind = out.scaling.kind;
  if (kind != RopeScalingKind::none && kind != RopeScalingKind::linear &&
      kind != RopeScalingKind::llama3) {
    rope.faults().unsupported("an odd number of elements of a head, " + std::to_string(out.dim) +
                              ", would turn, with rope type '" + std::string(name_of(kind)) +
                              "', for which the reference fails");
  }
  out.theta = std::pow(out.theta, (out.dim + 1.0) / out.dim);
  ++out.dim;
}

}  // namespace

bool truncates(const JsonFields& rope) {
  return rope.truth("truncate", true);
}

// Frequencies of a head's first part, spread over all of it; the others are 0.
void read_proportional(const JsonFields& rope, uint32_t head_dim, RopePlan& out) {
  const double part = rope.number("partial_rotary_factor", 1.0);
  const double turning = std::floor(part * head_dim / 2.0);
  if (!(part > 0.0 && part <= 1.0 && turning >= 1.0)) {
    rope.faults().invalid(rope.name("partial_rotary_factor") + " is " + std::to_string(part) +
                          " of heads of " + std::to_string(head_dim) +
                          " elements; expected a pair at least and the head at most");
    return;
  }
  out.turning = turning * 2 < head_dim ? static_cast<uint32_t>(turning) : 0;
  const double factor = bounded_number(rope, "factor", 1.0);
  if (factor == 1.0) return;
  out.scaling.kind = RopeScalingKind::linear;
  out.scaling.factor = factor;
}

RopePlan read_rope_object(const JsonFields& config, const JsonFields& rope,
                          const RopeDefaults& defaults, uint32_t head_dim,
                          uint32_t context_tokens) {
  RopePlan out;
  out.pairs = defaults.pairs;
  out.theta = bounded_number(rope, "rope_theta",
                             bounded_number(config, defaults.theta_key, defaults.theta));
  if (defaults.proportional && rope.text("rope_type", rope.text("type", "")) == "proportional") {
    out.dim = head_dim;
    read_proportional(rope, head_dim, out);
    return out;
  }
  out.dim = read_dim(config, rope, defaults, head_dim);
  read_scaling(config, rope, defaults, context_tokens, out);
  if (out.dim < head_dim) round_up_odd(rope, out);
  return out;
}

void expect_whole_heads(const JsonFields& config, const RopePlan& rope, uint32_t head_dim) {
  if (rope.dim == head_dim) return;
  config.faults().unsupported("'partial_rotary_factor' lets " + std::to_string(rope.dim) + " of " +
                              std::to_string(head_dim) +
                              " elements of a head turn; in this family all of them do");
}

RopePlan plain_rope(const JsonFields& config, const RopeDefaults& defaults, uint32_t head_dim) {
  static const json kNothing = json::object();
  return read_rope_object(config, JsonFields(kNothing, config.faults()), defaults, head_dim, 0);
}

RopePlan read_rope_or(const JsonFields& config, std::string_view usual,
                      const RopeDefaults& defaults, uint32_t head_dim, uint32_t context_tokens) {
  if (config.has("rope_scaling") || config.has("rope_parameters")) {
    return read_rope(config, defaults, head_dim, context_tokens);
  }
  (void)config.find(defaults.theta_key);
  const json rope = json::parse(usual);
  const json nothing = json::object();
  return read_rope_object(JsonFields(nothing, config.faults()), JsonFields(rope, config.faults()),
                          defaults, head_dim, context_tokens);
}

// Old files have rope_theta beside rope_scaling, newer ones all of it in rope_parameters. Where
// both stand, rope_scaling counts, as in transformers.
std::optional<JsonFields> find_rope(const JsonFields& config) {
  const json* scaling = config.find("rope_scaling");
  const bool old_style = scaling != nullptr && !(scaling->is_object() && scaling->empty());
  return config.object(old_style ? "rope_scaling" : "rope_parameters");
}

RopePlan read_rope(const JsonFields& config, const RopeDefaults& defaults, uint32_t head_dim,
                   uint32_t context_tokens) {
  std::optional<JsonFields> rope = find_rope(config);
  if (!rope && defaults.settings != nullptr) rope.emplace(*defaults.settings, config.faults());
  if (!rope) return plain_rope(config, defaults, head_dim);
  return read_rope_object(config, *rope, defaults, head_dim, context_tokens);
}

}  // namespace tenon
