// What families with latent attention have in common (LatentAttentionPlan).
#pragma once

#include "core/model/families/reading/experts.h"

namespace tenon {

// The values that a family takes where config.json says nothing.
struct LatentDefaults {
  uint32_t q_rank = 1536;  // 0: q is made in one step
  uint32_t kv_rank = 512;
  uint32_t nope_dim = 128;
  uint32_t rope_dim = 64;
  uint32_t v_dim = 128;
  double eps = 1e-6;  // of the norms of the stream
  double theta = 10000.0;
  // The rotary settings count from whole heads, of which "partial_rotary_factor" says how much
  // turns; they say as much as "qk_rope_head_dim".
  bool rope_of_heads = false;
  const nlohmann::json* rope_settings = nullptr;  // RopeDefaults::settings
  bool head_dim_counts = true;                    // false: the reference overlooks "head_dim"
};
// Tensors that Llama has and these families have not.
inline constexpr TensorName kLatentNames[] = {
    {Role::k, ""}, {Role::v, ""}, {Role::q_norm, ""}, {Role::k_norm, ""}};

// The shape without what heads have of their own. Of `keys`, those of heads do not count.
Shape read_latent_shape(const JsonFields& config, ShapeDefaults defaults, ModelPlan& plan,
                        ShapeKeys keys = {});
// Sizes, biases and norms; and that K and V are those of all heads.
LatentAttentionPlan read_latent(const JsonFields& config, const Shape& shape,
                                const LatentDefaults& defaults);
// The layer's attention, whose heads share rows of the latent's width.
void set_latent(const LatentAttentionPlan& latent, float scale, LayerPlan& layer);
// Layers with their MLPs and the rotary setting; experts come later. `pairs`: neighbours turn
// together.
void read_latent_layers(const JsonFields& config, const Shape& shape,
                        const LatentDefaults& defaults, bool pairs, ModelPlan& plan);
// Whether "rope_interleave" says that neighbours turn together, which goes without saying.
bool read_interleave(const JsonFields& config);
// 1 / sqrt(head), raised where the context is stretched and the settings say by how much.
float latent_scale(const LatentAttentionPlan& latent, const RopeScaling& scaling);

// Sizes of heads, ranks and yarn's factors; GGUF's keys of experts are the families' own.
void latent_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config);
void latent_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out);

}  // namespace tenon
