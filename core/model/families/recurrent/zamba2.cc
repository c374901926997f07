// Zamba 2: layers with a Mamba-2 mixer, before some of which stands a block of attention and an MLP
// that these layers share. The block reads the stream and the embeddings side by side.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace zamba2_family {

using nlohmann::json;

// A ~ is "mamba_decoder." in layers with a block; a # is which of them it is.
constexpr TensorName kNames[] = {
    {Role::final_norm, "model.final_layernorm"},
    {Role::attention_norm, "~input_layernorm"},
    {Role::ssm_in, "~mamba.in_proj"},
    {Role::ssm_conv, "~mamba.conv1d"},
    {Role::ssm_dt_bias, "~mamba.dt_bias"},
    {Role::ssm_a, "~mamba.A_log"},
    {Role::ssm_d, "~mamba.D"},
    {Role::ssm_norm, "~mamba.norm"},
    {Role::ssm_out, "~mamba.out_proj"},
    {Role::block_norm, "shared_transformer.input_layernorm"},
    {Role::q, "shared_transformer.self_attn.q_proj"},
    {Role::k, "shared_transformer.self_attn.k_proj"},
    {Role::v, "shared_transformer.self_attn.v_proj"},
    {Role::output, "shared_transformer.self_attn.o_proj"},
    {Role::own_q_low, "shared_transformer.self_attn.linear_q_adapter_list.#.0"},
    {Role::own_q_high, "shared_transformer.self_attn.linear_q_adapter_list.#.1"},
    {Role::own_k_low, "shared_transformer.self_attn.linear_k_adapter_list.#.0"},
    {Role::own_k_high, "shared_transformer.self_attn.linear_k_adapter_list.#.1"},
    {Role::own_v_low, "shared_transformer.self_attn.linear_v_adapter_list.#.0"},
    {Role::own_v_high, "shared_transformer.self_attn.linear_v_adapter_list.#.1"},
    {Role::mlp_norm, "shared_transformer.pre_ff_layernorm"},
    {Role::gate_up, "shared_transformer.feed_forward.gate_up_proj"},
    {Role::own_mlp_low, "shared_transformer.feed_forward.gate_up_proj_adapter_list.#.0"},
    {Role::own_mlp_high, "shared_transformer.feed_forward.gate_up_proj_adapter_list.#.1"},
    {Role::down, "shared_transformer.feed_forward.down_proj"},
    {Role::block_link, "linear"},
};

constexpr Mamba2Keys kMamba{.heads = "n_mamba_heads",
                            .head_dim = "mamba_headdim",
                            .state = "mamba_d_state",
                            .groups = "mamba_ngroups",
                            .width = "mamba_d_conv",
                            .expand = "mamba_expand",
                            .projection_bias = "add_bias_linear"};
constexpr Mamba2Defaults kDefaults{.heads = 8, .head_dim = 0, .state = 64, .groups = 1};

// [54] those of the 2.7B, which count where nothing else says which.
std::vector<bool> usual_layers() {
  std::vector<bool> blocks(54);
  for (const size_t layer : {6, 12, 18, 24, 30, 36, 42, 47, 51}) blocks[layer] = true;
  return blocks;
}

// [layers] whether each has a block. The list's length is the number of layers.
std::vector<bool> read_blocks(const JsonFields& config) {
  const char* key = general_or(config, "layer_types", "layers_block_type");
  const json* types = config.find(key);
  const json* own = config.find("layers_block_type");
  // The reference runs half of it by the one, half by the other.
  if (own != nullptr && *own != *types) {
    config.faults().invalid("'layers_block_type' and 'layer_types' are not the same");
  }
  if (types == nullptr) return usual_layers();
  std::vector<bool> blocks;
  for (const json& type : types->is_array() ? *types : json::array()) {
    blocks.push_back(type == "hybrid");
    if (blocks.back() || type == "linear_attention" || type == "mamba") continue;
    config.faults().unsupported(config.name(key) + " has " + describe(type) +
                                "; there are \"hybrid\" and \"linear_attention\"");
    return {false};
  }
  if (!blocks.empty() && blocks.size() <= kMaxLayers) return blocks;
  config.faults().invalid(config.name(key) + " is " + describe(*types) +
                          "; expected the type of each layer");
  return {false};
}

// transformers overlooks these keys: what they say follows from others.
void check_overlooked(const JsonFields& config, const std::vector<bool>& blocks,
                      const LayerPlan& layer, uint32_t hidden) {
  json ids = json::array();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i]) ids.push_back(i);
  }
  const std::pair<const char*, json> follows[] = {{"num_hidden_layers", blocks.size()},
                                                  {"hybrid_layer_ids", ids},
                                                  {"attention_hidden_size", 2 * uint64_t{hidden}},
                                                  {"attention_head_dim", layer.attention.head_dim},
                                                  {"use_conv_bias", true},
                                                  {"use_shared_mlp_adapter", true}};
  for (const auto& [key, expected] : follows) {
    const json* value = config.find(key);
    if (value == nullptr || *value == expected) continue;
    config.faults().unsupported(config.name(key) + " is " + describe(*value) +
                                ", which by the other keys is " + expected.dump());
  }
  // Of kernels, of training, and of caches.
  for (const char* key :
       {"chunk_size", "use_mamba_kernels", "use_mem_eff_path", "time_step_max", "time_step_floor",
        "num_logits_to_keep", "kv_channels", "num_query_groups"}) {
    (void)config.find(key);
  }
}

// Steps are bounded below by "time_step_min"; "time_step_limit" counts for nothing here.
RecurrentPlan read_mixer(const JsonFields& config, uint32_t hidden) {
  RecurrentPlan mamba = read_mamba2(config, hidden, 1e-5f, kDefaults, kMamba);
  mamba.convolution_bias = true;
  mamba.least_step = static_cast<float>(config.number("time_step_min", 0.001));
  mamba.most_step = std::numeric_limits<float>::infinity();
  if (!(mamba.least_step >= 0.0f)) {
    config.faults().invalid(config.name("time_step_min") + " is below 0");
  }
  return mamba;
}

Shape read_sizes(const JsonFields& config, bool rotates, ModelPlan& plan) {
  const uint32_t hidden = config.count("hidden_size", 2560, 1, kMaxWidth / 4);
  const uint32_t heads = config.count("num_attention_heads", 32, 1, kMaxWidth);
  return read_shape(config,
                    {.hidden = 2560,
                     .intermediate = 4 * hidden,
                     .layers = 54,
                     .head_dim = std::max(2 * hidden / heads, 1u),
                     .context_tokens = 4096,
                     .bos = 1,
                     .eos = 2,
                     .tied = true,
                     .rotates = rotates},
                    plan, {.head_dim = nullptr});
}

// What each use of the block adds has the shape of what the block makes of all it reads.
void check_low_rank(const JsonFields& config, const SelfAttentionPlan& attention, uint32_t hidden) {
  if (attention.q_width() == 2 * uint64_t{hidden} && attention.kv_heads == attention.heads) return;
  config.faults().invalid(
      "'use_shared_attention_adapter' is true, which takes as many KV heads as "
      "heads, and heads that divide twice 'hidden_size'");
}

void read(const JsonFields& config, ModelPlan& plan) {
  const bool rotates = config.flag("use_mem_rope", false);
  const Shape shape = read_sizes(config, rotates, plan);
  if (config.flag("use_long_context", false)) plan.context_tokens = 16384;
  const float eps = read_eps(config, "rms_norm_eps", 1e-5);
  const std::vector<bool> blocks = read_blocks(config);
  const LayerPlan plain = recurrent_layer(read_mixer(config, shape.hidden), eps);
  plan.final_norm = plain.attention_norm;

  LayerPlan layer = llama_layer(shape, eps);
  layer.recurrent = plain.recurrent;
  layer.attention.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim) / 2.0f);
  layer.attention.rope = rotates ? 0 : -1;
  if (rotates) plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "gelu");
  layer.mlp.bias = plain.recurrent.projection_bias;
  const uint32_t rank = config.count("adapter_rank", 128, 1, kMaxWidth);
  layer.shared = {.mlp_rank = rank, .norm = layer.mlp_norm};
  if (config.flag("use_shared_attention_adapter", false)) {
    layer.shared.qkv_rank = rank;
    check_low_rank(config, layer.attention, shape.hidden);
  }
  check_overlooked(config, blocks, layer, shape.hidden);

  const uint32_t apart = config.count("num_mem_blocks", 1, 1, kMaxLayers);
  std::vector<int32_t> having;  // the layers that have a block's tensors
  uint32_t uses = 0;
  for (const bool has_block : blocks) {
    plan.layers.push_back(has_block ? layer : plain);
    if (!has_block) continue;
    SharedBlockPlan& shared = plan.layers.back().shared;
    if (uses < apart) {
      having.push_back(static_cast<int32_t>(plan.layers.size()) - 1);
    } else {
      shared.from_layer = having[uses % apart];
    }
    shared.use = ++uses;
  }
}

}  // namespace zamba2_family

const Family kZamba2{.model_type = "zamba2",
                     .class_stem = "Zamba2",
                     .architecture = "",
                     .read = zamba2_family::read,
                     .tensors = {.names = zamba2_family::kNames, .in_shared = "mamba_decoder."}};

}  // namespace tenon
