#include "core/model/plan_difference.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <type_traits>

namespace tenon {
namespace {

std::string_view name_of(Activation value) {
  constexpr std::array<std::string_view, 5> kNames = {"silu", "gelu", "gelu_pytorch_tanh", "relu",
                                                      "relu2"};
  return kNames[static_cast<size_t>(value)];
}
std::string_view name_of(NormKind value) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "an RMS norm", "a layer norm"};
  return kNames[static_cast<size_t>(value)];
}
std::string_view name_of(RopeScalingKind value) {
  constexpr std::array<std::string_view, 6> kNames = {"default", "linear", "dynamic",
                                                      "llama3",  "yarn",   "longrope"};
  return kNames[static_cast<size_t>(value)];
}
std::string_view name_of(QkNormExtent value) {
  constexpr std::array<std::string_view, 3> kNames = {
      "of each head, by one weight", "of each head, by its own weight", "of all heads together"};
  return kNames[static_cast<size_t>(value)];
}
std::string_view name_of(ExpertScoring value) {
  constexpr std::array<std::string_view, 3> kNames = {"softmax", "softmax of the chosen",
                                                      "sigmoid"};
  return kNames[static_cast<size_t>(value)];
}
std::string_view name_of(GroupScore value) {
  constexpr std::array<std::string_view, 2> kNames = {"its best expert", "its two best experts"};
  return kNames[static_cast<size_t>(value)];
}
std::string_view name_of(Recurrence value) {
  return value == Recurrence::none ? "none" : recurrence_name(value);
}

template <typename T>
std::string shown(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(name_of(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.7g", static_cast<double>(value));
    return text;
  } else {
    return std::to_string(value);
  }
}

// Keeps the first difference that it is shown.
class Difference {
 public:
  explicit Difference(std::string place = {}) : place_(std::move(place)) {}

  // `key`: of config.json.
  template <typename T>
  void compare(std::string_view what, std::string_view key, const T& written, const T& read) {
    if (!text_.empty() || written == read) return;
    text_ = std::string(what) + place_ + " (" + std::string(key) + ") is " + shown(written) +
            ", and would be read back as " + shown(read);
  }
  void norms(std::string_view what, const NormPlan& written, const NormPlan& read) {
    compare(what, "its kind", written.kind, read.kind);
    compare(what, "its epsilon", written.eps, read.eps);
    compare(what, "whether it has a bias", written.bias, read.bias);
    compare(what, "whether it has a weight", written.weight, read.weight);
    compare(what, "whether its weight is stored less one", written.plus_one, read.plus_one);
  }
  const std::string& text() const { return text_; }

 private:
  std::string place_;
  std::string text_;
};

void compare_attention(const SelfAttentionPlan& a, const SelfAttentionPlan& b, Difference& out) {
  out.compare("the number of heads", "'num_attention_heads'", a.heads, b.heads);
  out.compare("the number of KV heads", "'num_key_value_heads'", a.kv_heads, b.kv_heads);
  out.compare("the width of heads", "'head_dim'", a.head_dim, b.head_dim);
  out.compare("the window", "'sliding_window', 'layer_types'; 0: none", a.window_tokens,
              b.window_tokens);
  out.compare("the layer with the K and V", "'use_cla'; -1: its own", a.kv_from_layer,
              b.kv_from_layer);
  out.compare("the rotary setting", "'layer_types', 'no_rope_layers'; -1: nothing turns", a.rope,
              b.rope);
  out.compare("the factor on scores",
              "'query_pre_attn_scalar', 'attention_multiplier', 'softmax_scale', "
              "'scale_attn_weights', 'scale_attn_by_inverse_layer_idx'",
              a.scale, b.scale);
  out.compare("the cap of scores", "'attn_logit_softcapping'; 0: none", a.soft_cap, b.soft_cap);
  out.compare("the largest bias by distance", "'alibi_bias_max'; 0: none", a.alibi_max_bias,
              b.alibi_max_bias);
  out.compare("the bias of q, k and v", "'attention_bias'", a.qkv_bias, b.qkv_bias);
  out.compare("the bias behind attention", "'attention_bias'", a.output_bias, b.output_bias);
  out.compare("the limit of q, k and v", "'clip_qkv'; 0: none", a.clip, b.clip);
  out.compare("whether scores have sinks", "a learned one a head", a.sinks, b.sinks);
  out.norms("the norm of q and k", a.qk_norm, b.qk_norm);
  out.compare("the norm of q and k", "its extent", a.qk_norm_extent, b.qk_norm_extent);
}

void compare_latent(const LatentAttentionPlan& a, const LatentAttentionPlan& b, Difference& out) {
  out.compare("the rank of q", "'q_lora_rank'; 0: none", a.q_rank, b.q_rank);
  out.compare("the rank of K and V", "'kv_lora_rank'; 0: none", a.kv_rank, b.kv_rank);
  out.compare("the part of heads that stays", "'qk_nope_head_dim'", a.nope_dim, b.nope_dim);
  out.compare("the part of heads that turns", "'qk_rope_head_dim'", a.rope_dim, b.rope_dim);
  out.compare("the width of V", "'v_head_dim'", a.v_dim, b.v_dim);
  out.norms("the norm of low ranks", a.norm, b.norm);
  out.compare("the bias of low ranks", "'attention_bias'", a.bias, b.bias);
}

void compare_recurrent(const RecurrentPlan& a, const RecurrentPlan& b, Difference& out) {
  out.compare("the recurrence", "'layer_types'", a.kind, b.kind);
  out.compare("the number of its heads", "'num_heads'", a.heads, b.heads);
  out.compare("the width of its heads", "'head_dim'", a.head_dim, b.head_dim);
  out.compare("the size of its state", "'state_size'", a.state, b.state);
  out.compare("the number of its groups", "'n_groups'", a.groups, b.groups);
  out.compare("the width of its convolution", "'conv_kernel'", a.width, b.width);
  out.compare("the rank of its steps", "'time_step_rank'", a.step_rank, b.step_rank);
  out.compare("the bias of its projections", "'use_bias'", a.projection_bias, b.projection_bias);
  out.compare("the bias of its convolution", "'use_conv_bias'", a.convolution_bias,
              b.convolution_bias);
  out.compare("its least step", "'time_step_limit'", a.least_step, b.least_step);
  out.compare("its largest step", "'time_step_limit'", a.most_step, b.most_step);
  out.norms("the norm of its gated output", a.gate_norm, b.gate_norm);
}

void compare_experts(const ExpertsPlan& a, const ExpertsPlan& b, Difference& out) {
  out.compare("the number of experts", "'num_experts'", a.count, b.count);
  out.compare("the experts of a token", "'num_experts_per_tok'", a.chosen, b.chosen);
  out.compare("the width of experts", "'moe_intermediate_size'", a.width, b.width);
  out.compare("the experts' activation", "'hidden_act'", a.activation, b.activation);
  out.compare("the bias of experts", "a tensor of each", a.bias, b.bias);
  out.compare("the factor in the experts' gate", "'swiglu_alpha'; 0: none", a.swiglu_alpha,
              b.swiglu_alpha);
  out.compare("the limit of the experts' gate", "'swiglu_limit'; 0: none", a.swiglu_limit,
              b.swiglu_limit);
  out.compare("the experts' factor", "'scoring_func'", a.scoring, b.scoring);
  out.compare("the bias of the router", "a tensor", a.router_bias, b.router_bias);
  out.compare("the correction of the router", "a tensor", a.correction, b.correction);
  out.compare("whether factors are divided by their sum", "'norm_topk_prob'", a.normalised,
              b.normalised);
  out.compare("the factor on experts", "'routed_scaling_factor'", a.scale, b.scale);
  out.compare("the number of groups of experts", "'n_group'", a.groups, b.groups);
  out.compare("the groups of a token", "'topk_group'", a.groups_chosen, b.groups_chosen);
  out.compare("what judges a group", "'topk_method'", a.group_score, b.group_score);
  out.compare("the width of the shared expert", "'shared_expert_intermediate_size'; 0: none",
              a.shared_width, b.shared_width);
  out.compare("the gate of the shared expert", "a tensor", a.shared_gate, b.shared_gate);
}

std::string layer_difference(const LayerPlan& a, const LayerPlan& b, size_t index) {
  Difference out(" of layer " + std::to_string(index));
  out.norms("the norm before attention", a.attention_norm, b.attention_norm);
  out.norms("the norm behind attention", a.attention_post_norm, b.attention_post_norm);
  out.norms("the norm before the MLP", a.mlp_norm, b.mlp_norm);
  out.norms("the norm behind the MLP", a.mlp_post_norm, b.mlp_post_norm);
  compare_attention(a.attention, b.attention, out);
  compare_latent(a.latent, b.latent, out);
  compare_recurrent(a.recurrent, b.recurrent, out);
  out.compare("the width of the MLP", "'intermediate_size'; 0: none", a.mlp.width, b.mlp.width);
  out.compare("whether the MLP is gated", "a tensor", a.mlp.gated, b.mlp.gated);
  out.compare("the activation", "'hidden_act', 'activation_function'", a.mlp.activation,
              b.mlp.activation);
  out.compare("the bias of the MLP", "'mlp_bias'", a.mlp.bias, b.mlp.bias);
  compare_experts(a.experts, b.experts, out);
  out.compare("the factor on what is added", "'residual_multiplier'", a.residual_scale,
              b.residual_scale);
  out.compare("whether attention and MLP are parallel", "'use_parallel_residual'", a.parallel,
              b.parallel);
  return out.text();
}

std::string rope_difference(const RopePlan& a, const RopePlan& b) {
  Difference out(" of positions");
  const auto near = [](double p, double q) { return std::fabs(p - q) <= 1e-6 * p; };
  out.compare("the elements of a head that turn", "'partial_rotary_factor'", a.dim, b.dim);
  out.compare("whether neighbours turn together", "'rope_interleave'", a.pairs, b.pairs);
  out.compare("the base", "'rope_theta'", a.theta, b.theta);
  if (a.scaling.kind != RopeScalingKind::dynamic) {
    out.compare("the scaling", "'rope_type'", a.scaling.kind, b.scaling.kind);
  }
  if (!near(a.scaling.attention_factor, b.scaling.attention_factor)) {
    out.compare("the factor on cosines and sines", "'attention_factor', 'mscale'",
                a.scaling.attention_factor, b.scaling.attention_factor);
  }
  out.compare("whether yarn rounds its ends", "'truncate'", a.scaling.truncate, b.scaling.truncate);
  return out.text();
}

}  // namespace

std::string plan_difference(const ModelPlan& written, const ModelPlan& read_back) {
  Difference out;
  out.compare("the number of layers", "'num_hidden_layers'", written.layers.size(),
              read_back.layers.size());
  if (!out.text().empty()) return out.text();
  for (size_t i = 0; i < written.layers.size(); ++i) {
    std::string text = layer_difference(written.layers[i], read_back.layers[i], i);
    if (!text.empty()) return text;
  }
  out.compare("the number of rotary settings", "'rope_parameters'", written.ropes.size(),
              read_back.ropes.size());
  if (!out.text().empty()) return out.text();
  for (size_t i = 0; i < written.ropes.size(); ++i) {
    std::string text = rope_difference(written.ropes[i], read_back.ropes[i]);
    if (!text.empty()) return text;
  }
  out.norms("the last norm", written.final_norm, read_back.final_norm);
  out.norms("the norm of embeddings", written.embedding_norm, read_back.embedding_norm);
  out.compare("the factor on embeddings", "'embedding_multiplier'", written.embedding_scale,
              read_back.embedding_scale);
  out.compare("whether positions are learned", "a tensor", written.learned_positions,
              read_back.learned_positions);
  out.compare("the bias of logits", "a tensor", written.head_bias, read_back.head_bias);
  out.compare("the factor on logits", "'logits_scaling', 'logit_scale'", written.logit_scale,
              read_back.logit_scale);
  out.compare("the cap of logits", "'final_logit_softcapping'; 0: none", written.logit_soft_cap,
              read_back.logit_soft_cap);
  return out.text();
}

}  // namespace tenon
