// A model as data: what the decoder needs to know of each layer, made from a checkpoint's own
// config by its family (core/model/families). Nothing else of a family is known after
// this. Each block has a file of its own in core/model/blocks.
#pragma once

#include <tenon/model.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/blocks/attention.h"
#include "core/model/blocks/experts.h"
#include "core/model/blocks/index.h"
#include "core/model/blocks/latent.h"
#include "core/model/blocks/layer_input.h"
#include "core/model/blocks/mlp.h"
#include "core/model/blocks/norm.h"
#include "core/model/blocks/recurrence.h"
#include "core/model/blocks/rope.h"
#include "core/model/blocks/shared_block.h"
#include "core/model/blocks/streams.h"

namespace tenon {

// x += scale · post_norm(mixer(norm(x))), then the same with the MLP. The mixer is attention, a
// recurrence, or both side by side; each and the MLP may have a factor of its own besides. In
// parallel, mixer and MLP read the x that the layer began with; without a norm of its own the MLP
// reads what the mixer reads. At last what the layer is given by itself is added, and all of x is
// multiplied by a number.
struct LayerPlan {
  NormPlan attention_norm, attention_post_norm;  // the mixer's, whatever it is
  SelfAttentionPlan attention;
  LatentAttentionPlan latent;
  IndexPlan index;  // of attention's positions
  RecurrentPlan recurrent;
  NormPlan mlp_norm, mlp_post_norm;
  MlpPlan mlp;
  ExpertsPlan experts;  // in place of the MLP, or next to it, where there are any
  float residual_scale = 1.0f;
  bool parallel = false;
  LayerInputPlan input;
  bool scaled = false;  // x is multiplied by a number of the checkpoint at the layer's end
  StreamsPlan streams;  // of which x is one
  LowResidualPlan low_residual;
  // Above 0, the halves are added not to what a norm reads but to this times what it makes, which
  // becomes the stream: x = kept · norm(x), then x += scale · mixer(norm(x)).
  float mixer_keeps = 0.0f, mlp_keeps = 0.0f;
  bool joins_aside = false;  // what the experts of the layer before made is added at the end
  // What a half is added to is multiplied by a vector of the checkpoint first.
  bool weighs_stream = false;
  // Attention and the MLP are a block that several layers share, before the recurrence.
  SharedBlockPlan shared;

  bool attends() const { return attention.heads > 0; }
  bool has_mlp() const { return mlp.width > 0 || experts; }
  bool has_dense_mlp() const {
    return mlp.width > 0 && (!experts || experts.beside_norm || experts.aside);
  }
  // What the MLP reads through.
  const NormPlan& mlp_input_norm() const {
    return parallel && !mlp_norm ? attention_norm : mlp_norm;
  }
  // Elements of a row that comes out of the cache's kernel, and of one that the output's product
  // reads.
  uint32_t kernel_out_width() const {
    return latent ? attention.heads * latent.kv_rank : attention.attended_width();
  }
  uint32_t attended_width() const {
    return latent ? attention.heads * latent.v_dim : attention.attended_width();
  }
  // The factors on what is added to the stream.
  float attention_scale() const { return residual_scale * attention.output_scale; }
  float recurrent_scale() const { return residual_scale * recurrent.scales.output; }
  float mlp_scale() const {
    return residual_scale * (experts && !experts.aside ? 1.0f : mlp.scale);
  }
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

template <>
struct PlanFields<LayerPlan> {
  using P = LayerPlan;
  static constexpr void list(auto field) {
    field(&P::attention_norm, "the norm before attention", "");
    field(&P::attention_post_norm, "the norm after attention", "");
    field(&P::attention, "attention", "");
    field(&P::latent, "latent attention", "");
    field(&P::index, "the index of positions", "");
    field(&P::recurrent, "the recurrence", "");
    field(&P::mlp_norm, "the norm before the MLP", "");
    field(&P::mlp_post_norm, "the norm after the MLP", "");
    field(&P::mlp, "the MLP", "");
    field(&P::experts, "experts", "");
    field(&P::residual_scale, "the factor on what is added", "'residual_multiplier'");
    field(&P::parallel, "whether attention and MLP are parallel", "'use_parallel_residual'");
    field(&P::input, "per-layer embeddings", "");
    field(&P::scaled, "whether layers end with a factor", "a tensor");
    field(&P::streams, "several streams", "");
    field(&P::low_residual, "the learned residual", "");
    field(&P::mixer_keeps, "the factor on the norm before attention",
          "'full_attn_alpha_factor', 'linear_attn_alpha_factor'; 0: none");
    field(&P::mlp_keeps, "the factor on the norm before the MLP", "'mlp_alpha_factor'; 0: none");
    field(&P::joins_aside, "whether experts of the layer before join", "the family");
    field(&P::weighs_stream, "whether the stream has weights", "tensors");
    field(&P::shared, "the shared block", "");
  }
};

struct ModelPlan {
  std::string architecture;  // the family: "llama", "qwen3", …
  std::string text_part_of;  // the model of text and images that this is a part of: "gemma3"
  uint32_t hidden = 0;
  uint32_t vocabulary = 0;
  uint32_t context_tokens = 0;   // that the model was made for
  bool tied_embeddings = false;  // the LM head is the embedding matrix
  float embedding_scale = 1.0f;
  bool learned_positions = false;  // a vector for each of context_tokens, added to the embedding
  NormPlan embedding_norm;         // of what enters the first layer
  // Rows of the table of per-layer embeddings; tokens behind them read the first.
  uint32_t layer_input_tokens = 0;
  std::vector<RopePlan> ropes;
  std::vector<LayerPlan> layers;
  std::vector<std::vector<float>> sinks;  // [layers][heads], from the opened checkpoint
  NormPlan final_norm;
  bool head_bias = false;
  float logit_scale = 1.0f;     // logits = cap(scale · (head(x) + bias))
  float logit_soft_cap = 0.0f;  // 0 = none; else cap·tanh(x/cap)
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;  // any of them ends a text
  // A diffusion model's: every token sees the whole text, logits are for a row's own place, and
  // where this token stands they say what belongs there.
  std::optional<TokenId> mask_token;
  std::vector<std::string> ignored_keys;  // of config.json, that change nothing we know of

  // What layers are given by themselves, and how many elements all of them together.
  const LayerInputPlan& input() const {
    static constexpr LayerInputPlan kNone{};
    return layers.empty() ? kNone : layers.front().input;
  }
  const StreamsPlan& streams() const {
    static constexpr StreamsPlan kNone{};
    return layers.empty() ? kNone : layers.front().streams;
  }
  // Whether layers read what entered the first one.
  bool reads_embedded() const {
    for (const LayerPlan& layer : layers) {
      if (layer.shared) return true;
    }
    return false;
  }
  uint32_t layer_input_row(TokenId token) const {
    const auto row = static_cast<uint32_t>(token);
    return row < layer_input_tokens ? row : 0;
  }
  uint64_t layer_inputs_width() const { return uint64_t{input().width} * layers.size(); }
};

template <>
struct PlanFields<ModelPlan> {
  using P = ModelPlan;
  static constexpr void list(auto field) {
    field(&P::architecture, "the family", "'model_type'", Compared::apart);
    field(&P::text_part_of, "the whole", "'model_type'", Compared::apart);
    field(&P::hidden, "the width of the stream", "'hidden_size'");
    field(&P::vocabulary, "the number of tokens", "'vocab_size'");
    field(&P::context_tokens, "the context", "'max_position_embeddings'");
    // What an opened checkpoint holds decides.
    field(&P::tied_embeddings, "whether the head is the embedding", "'tie_word_embeddings'",
          Compared::apart);
    field(&P::embedding_scale, "the factor on embeddings", "'embedding_multiplier'");
    field(&P::learned_positions, "whether positions are learned", "a tensor");
    field(&P::embedding_norm, "the norm of embeddings", "");
    field(&P::layer_input_tokens, "the tokens with per-layer embeddings",
          "'vocab_size_per_layer_input'");
    field(&P::ropes, "the number of rotary settings", "'rope_parameters'");
    field(&P::layers, "the number of layers", "'num_hidden_layers'");
    field(&P::sinks, "the sinks of scores", "tensors", Compared::apart);
    field(&P::final_norm, "the last norm", "");
    field(&P::head_bias, "the bias of logits", "a tensor");
    field(&P::logit_scale, "the factor on logits", "'logits_scaling', 'logit_scale'");
    field(&P::logit_soft_cap, "the cap of logits", "'final_logit_softcapping'; 0: none");
    // A tokenizer's files have their own say in these.
    field(&P::bos, "the first token", "'bos_token_id'", Compared::apart);
    field(&P::eos, "the last tokens", "'eos_token_id'", Compared::apart);
    field(&P::mask_token, "the token that stands for others", "'mask_token_id'");
    field(&P::ignored_keys, "keys that change nothing", "of any name", Compared::apart);
  }
};

// The shape that crosses the boundary, with the arrays it points to. Not movable once made. Layers
// that keep the same, windows included, form a group; those with a recurrent state form another,
// whose slots hold the states of all of them.
class ModelShapeStorage {
 public:
  ModelShapeStorage(const ModelPlan& plan, uint32_t context_tokens);
  // The target's groups and layers, then the draft's, for who keeps K/V of both; the rest is the
  // target's. Slopes and sinks stay where they are: both must live as long.
  ModelShapeStorage(const ModelShape& target, const ModelShape& draft);
  ModelShapeStorage(const ModelShapeStorage&) = delete;
  ModelShapeStorage& operator=(const ModelShapeStorage&) = delete;
  const ModelShape& shape() const { return shape_; }

 private:
  GroupId group_of(const KvGroup& kept);
  void add_attention(const LayerPlan& plan, LayerShape& layer);
  void add_recurrence(const RecurrentPlan& recurrent, LayerShape& layer);
  void point_to_arrays();

  std::vector<KvGroup> groups_;
  std::vector<LayerShape> layers_;
  std::map<std::pair<uint32_t, float>, std::vector<float>> slopes_;  // of heads and max_bias
  std::vector<std::vector<float>> sinks_;                            // [layers], as the plan's
  ModelShape shape_;
};

}  // namespace tenon
