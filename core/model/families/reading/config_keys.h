// What families have in common when they read config.json. Keys that are missing or null take the
// values that Hugging Face transformers takes for the same model_type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/families/family.h"

namespace tenon {

// Widths are 32-bit in the boundary; their products are checked where they are formed.
constexpr uint32_t kMaxWidth = 0x7fffffff;
constexpr uint32_t kMaxLayers = 65535;

// The values that a family takes where config.json says nothing.
struct ShapeDefaults {
  uint32_t vocabulary = 32000;
  uint32_t hidden = 4096;
  uint32_t intermediate = 11008;
  uint32_t layers = 32;
  uint32_t heads = 32;
  std::optional<uint32_t> kv_heads = {};  // absent: as many as heads
  uint32_t head_dim = 0;                  // 0: hidden / heads
  uint32_t context_tokens = 2048;
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  bool tied = false;
  bool rotates = true;  // rotary embedding needs heads of an even size
};
// Their keys, where a family calls them otherwise.
struct ShapeKeys {
  const char* hidden = "hidden_size";
  const char* intermediate = "intermediate_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* kv_heads = "num_key_value_heads";  // null: as many as heads
  const char* head_dim = "head_dim";             // null: hidden / heads
  const char* context_tokens = "max_position_embeddings";
};
struct Shape {
  uint32_t hidden = 0, intermediate = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
};

// The first of the two keys that is there, else the second.
const char* general_or(const JsonFields& config, const char* general, const char* own);

// Also sets what the plan has of it, and the ends of a text.
Shape read_shape(const JsonFields& config, const ShapeDefaults& defaults, ModelPlan& plan,
                 const ShapeKeys& keys = {});

// bos_token_id and eos_token_id, among the plan's vocabulary.
void read_ends(const JsonFields& config, const ShapeDefaults& defaults, ModelPlan& plan);

// Several ends of a text, of a family whose configs need not name them.
void read_default_ends(const JsonFields& config, std::initializer_list<TokenId> ends,
                       ModelPlan& plan);
// The size of heads of a family that has `fallback` where the key is missing, but hidden / heads (0
// in ShapeDefaults) where it is null.
uint32_t head_dim_unless_null(const JsonFields& config, uint32_t fallback);

// `key` as a number in (0, 1).
float read_eps(const JsonFields& config, const char* key, double fallback);
// "silu", "gelu_pytorch_tanh", …, at the first of the keys that is there.
Activation read_activation(const JsonFields& config, std::initializer_list<const char*> keys,
                           std::string_view fallback);

enum class PartialRotation { never, by_key };  // never: transformers overlooks the key by default
struct RopeDefaults {
  double theta = 10000.0;
  PartialRotation partial = PartialRotation::never;
  double partial_factor = 1.0;
  const char* partial_key = "partial_rotary_factor";
  const char* theta_key = "rope_theta";
  bool pairs = false;
  bool proportional = false;             // "proportional" is among the types
  bool axes = false;                     // positions of images have several, which for text are one
  bool odd_parts = true;                 // an odd number of elements turns as one more does
  uint32_t original_context_tokens = 0;  // next to the settings, unless a key says so; 0: none is
  uint32_t usual_context_tokens = 0;     // original one where nothing says so; 0: the model's
  const nlohmann::json* settings = nullptr;  // of a config.json without any; null: the plain ones
};
// The rotary settings in any of their three spellings.
RopePlan read_rope(const JsonFields& config, const RopeDefaults& defaults, uint32_t head_dim,
                   uint32_t context_tokens);
// As above; a config without either object has `usual`, JSON, whatever else it says.
RopePlan read_rope_or(const JsonFields& config, std::string_view usual,
                      const RopeDefaults& defaults, uint32_t head_dim, uint32_t context_tokens);
// The object that those stand in, if there is one.
std::optional<JsonFields> find_rope(const JsonFields& config);
// Whether yarn's ends are whole numbers. Only where the key is missing does that go without
// saying: transformers takes a null for no.
bool truncates(const JsonFields& rope);
// Those of one object: rope_parameters, or what it has for a type of layers.
RopePlan read_rope_object(const JsonFields& config, const JsonFields& rope,
                          const RopeDefaults& defaults, uint32_t head_dim, uint32_t context_tokens);

// Settings by kind of layer: rope_parameters is {"full_attention": {…}, "sliding_attention": {…}}.
// `full` and `sliding` are what a config without it has, `part` how much of a head turns where a
// setting does not say it.
struct KindRopes {
  RopeDefaults full, sliding;
  double part = 1.0;
};
// Sets the plan's settings, and each layer's by whether it is `sliding` ([layers]).
void read_kind_ropes(const JsonFields& config, const KindRopes& usual,
                     const std::vector<bool>& sliding, uint32_t head_dim, ModelPlan& plan);
// The same of a GGUF file, whose settings are those of layers without a window; the others have a
// base, and maybe a number of elements that turn, of their own, and no scaling.
void kind_ropes_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config);
void kind_ropes_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out);

// Settings of layers without and with a window, as OLMo 3 and Gemma 3 have them: rope_scaling is
// added to the first one's, and of what stands in rope_parameters for neither only `truncate`
// counts. A base next to the object, by `theta_key` (null: none), counts where the setting has
// none.
void read_two_ropes(const JsonFields& config, const RopeDefaults& full, const RopeDefaults& sliding,
                    uint32_t head_dim, ModelPlan& plan);

// [layers] whole numbers from 1, of a list with one for each layer; empty: the key is not there.
std::vector<uint32_t> read_layer_counts(const JsonFields& config, const char* key, size_t layers);

// For families whose reference fails where less than whole heads would turn: refuses it.
void expect_whole_heads(const JsonFields& config, const RopePlan& rope, uint32_t head_dim);

// Without any scaling.
RopePlan plain_rope(const JsonFields& config, const RopeDefaults& defaults, uint32_t head_dim);

// A number from 1e-6 to 1e30; `fallback` 0: the key must be there.
double bounded_number(const JsonFields& fields, const char* key, double fallback);
// Such a factor; 1 where it is not there.
float read_multiplier(const JsonFields& config, const char* key);

// [layers] whether each is "sliding_attention" in layer_types; empty where the key is not there.
std::vector<bool> read_sliding_layers(const JsonFields& config, size_t layers);
// Refuses layers that slide without a window; the reference fails, or masks all that they could
// see.
void expect_window(const JsonFields& config, const std::vector<bool>& sliding, uint32_t window);
// The window of those layers whose flag is set.
void set_windows(const std::vector<bool>& sliding, uint32_t window, ModelPlan& plan);

// For families whose windows decide more than what a layer sees: config.json's `sliding_window` and
// `layer_types` as a GGUF file has them, also where the context ends before the window does.
void windows_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config);

// ALiBi in place of rotary embedding. `heads_key` is what config.json calls the heads.
void use_alibi(const JsonFields& config, const char* heads_key, float max_bias,
               SelfAttentionPlan& attention);

// Llama's layer, which many others vary: RMS norms before attention and MLP, rotary embedding by
// the plan's first setting, an MLP gated by SiLU, no biases.
LayerPlan llama_layer(const Shape& shape, float eps);

}  // namespace tenon
