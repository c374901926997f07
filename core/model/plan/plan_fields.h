// Every member of a model plan and of the structs in it, once, with what it is called: what
// compares plans walks these tables, so that a new member cannot be forgotten (the assertions at
// the end).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/model/plan/model_plan.h"

namespace tenon {

// Whether a member is compared where a plan was written and read back.
//   yes    it is
//   made   what was made of it is, in another member
//   apart  it follows from other files, from the weights or from names, or changes no arithmetic
enum class Compared : uint8_t { yes, made, apart };

template <typename Struct, typename Member>
struct PlanField {
  Member Struct::*member;
  std::string_view what;  // "the window"; empty: as the struct itself is called
  std::string_view key;   // of config.json, or what else says it
  Compared compared = Compared::yes;
};
template <typename Struct, typename Member>
PlanField(Member Struct::*, std::string_view, std::string_view, Compared)
    -> PlanField<Struct, Member>;
template <typename Struct, typename Member>
PlanField(Member Struct::*, std::string_view, std::string_view) -> PlanField<Struct, Member>;

// `kAll`: a tuple of PlanField, in the order of the members.
template <typename Struct>
struct PlanFields;

template <>
struct PlanFields<NormPlan> {
  using P = NormPlan;
  static constexpr std::tuple kAll{
      PlanField{&P::kind, "", "its kind"}, PlanField{&P::eps, "", "its epsilon"},
      PlanField{&P::bias, "", "whether it has a bias"},
      PlanField{&P::plus_one, "", "whether its weight is stored less one"},
      PlanField{&P::weight, "", "whether it has a weight"}};
};

template <>
struct PlanFields<RopeScaling> {
  using P = RopeScaling;
  static constexpr std::tuple kAll{
      PlanField{&P::kind, "the scaling", "'rope_type'"},
      PlanField{&P::factor, "the factor of the scaling", "'factor'"},
      PlanField{&P::low_freq_factor, "the factor of low frequencies", "'low_freq_factor'"},
      PlanField{&P::high_freq_factor, "the factor of high frequencies", "'high_freq_factor'"},
      PlanField{&P::original_context_tokens, "the context before scaling",
                "'original_max_position_embeddings'"},
      PlanField{&P::beta_fast, "yarn's fast end", "'beta_fast'"},
      PlanField{&P::beta_slow, "yarn's slow end", "'beta_slow'"},
      PlanField{&P::truncate, "whether yarn rounds its ends", "'truncate'"},
      PlanField{&P::attention_factor, "the factor on cosines and sines",
                "'attention_factor', 'mscale'"},
      PlanField{&P::mscale, "yarn's scale", "'mscale'", Compared::made},
      PlanField{&P::mscale_all_dim, "yarn's scale of all", "'mscale_all_dim'", Compared::made},
      PlanField{&P::short_factors, "the divisors in short contexts", "'short_factor'"},
      PlanField{&P::long_factors, "the divisors in long contexts", "'long_factor'"}};
};

template <>
struct PlanFields<RopePlan> {
  using P = RopePlan;
  static constexpr std::tuple kAll{
      PlanField{&P::dim, "the elements of a head that turn", "'partial_rotary_factor'"},
      PlanField{&P::pairs, "whether neighbours turn together", "'rope_interleave'"},
      PlanField{&P::theta, "the base", "'rope_theta'"},
      PlanField{&P::scaling, "the scaling", "'rope_scaling'"},
      PlanField{&P::factors, "the divisors of frequencies", "a tensor"}};
};

template <>
struct PlanFields<SelfAttentionPlan> {
  using P = SelfAttentionPlan;
  static constexpr std::tuple kAll{
      PlanField{&P::heads, "the number of heads", "'num_attention_heads'"},
      PlanField{&P::kv_heads, "the number of KV heads", "'num_key_value_heads'"},
      PlanField{&P::head_dim, "the width of heads", "'head_dim'"},
      PlanField{&P::window_tokens, "the window", "'sliding_window', 'layer_types'; 0: none"},
      PlanField{&P::kv_from_layer, "the layer with the K and V", "'use_cla'; -1: its own"},
      PlanField{&P::rope, "the rotary setting",
                "'layer_types', 'no_rope_layers'; -1: nothing turns"},
      PlanField{&P::scale, "the factor on scores",
                "'query_pre_attn_scalar', 'attention_multiplier', 'softmax_scale', "
                "'scale_attn_weights', 'scale_attn_by_inverse_layer_idx'"},
      PlanField{&P::soft_cap, "the cap of scores", "'attn_logit_softcapping'; 0: none"},
      PlanField{&P::alibi_max_bias, "the largest bias by distance", "'alibi_bias_max'; 0: none"},
      PlanField{&P::qkv_bias, "the bias of q, k and v", "'attention_bias'"},
      PlanField{&P::output_bias, "the bias after attention", "'attention_bias'"},
      PlanField{&P::clip, "the limit of q, k and v", "'clip_qkv'; 0: none"},
      PlanField{&P::sinks, "whether scores have sinks", "a learned one a head"},
      PlanField{&P::qk_norm, "the norm of q and k", ""},
      PlanField{&P::qk_norm_extent, "the norm of q and k", "its extent"}};
};

template <>
struct PlanFields<LatentAttentionPlan> {
  using P = LatentAttentionPlan;
  static constexpr std::tuple kAll{
      PlanField{&P::q_rank, "the rank of q", "'q_lora_rank'; 0: none"},
      PlanField{&P::kv_rank, "the rank of K and V", "'kv_lora_rank'; 0: none"},
      PlanField{&P::nope_dim, "the part of heads that stays", "'qk_nope_head_dim'"},
      PlanField{&P::rope_dim, "the part of heads that turns", "'qk_rope_head_dim'"},
      PlanField{&P::v_dim, "the width of V", "'v_head_dim'"},
      PlanField{&P::norm, "the norm of low ranks", ""},
      PlanField{&P::bias, "the bias of low ranks", "'attention_bias'"}};
};

template <>
struct PlanFields<MlpPlan> {
  using P = MlpPlan;
  static constexpr std::tuple kAll{
      PlanField{&P::width, "the width of the MLP", "'intermediate_size'; 0: none"},
      PlanField{&P::gated, "whether the MLP is gated", "a tensor"},
      PlanField{&P::activation, "the activation", "'hidden_act', 'activation_function'"},
      PlanField{&P::bias, "the bias of the MLP", "'mlp_bias'"}};
};

template <>
struct PlanFields<ExpertsPlan> {
  using P = ExpertsPlan;
  static constexpr std::tuple kAll{
      PlanField{&P::count, "the number of experts", "'num_experts'"},
      PlanField{&P::chosen, "the experts of a token", "'num_experts_per_tok'"},
      PlanField{&P::width, "the width of experts", "'moe_intermediate_size'"},
      PlanField{&P::activation, "the experts' activation", "'hidden_act'"},
      PlanField{&P::bias, "the bias of experts", "a tensor of each"},
      PlanField{&P::swiglu_alpha, "the factor in the experts' gate", "'swiglu_alpha'; 0: none"},
      PlanField{&P::swiglu_limit, "the limit of the experts' gate", "'swiglu_limit'; 0: none"},
      PlanField{&P::scoring, "the experts' factor", "'scoring_func'"},
      PlanField{&P::router_bias, "the bias of the router", "a tensor"},
      PlanField{&P::correction, "the correction of the router", "a tensor"},
      PlanField{&P::normalised, "whether factors are divided by their sum", "'norm_topk_prob'"},
      PlanField{&P::scale, "the factor on experts", "'routed_scaling_factor'"},
      PlanField{&P::groups, "the number of groups of experts", "'n_group'"},
      PlanField{&P::groups_chosen, "the groups of a token", "'topk_group'"},
      PlanField{&P::group_score, "what judges a group", "'topk_method'"},
      PlanField{&P::shared_width, "the width of the shared expert",
                "'shared_expert_intermediate_size'; 0: none"},
      PlanField{&P::shared_gate, "the gate of the shared expert", "a tensor"}};
};

template <>
struct PlanFields<RecurrentPlan> {
  using P = RecurrentPlan;
  static constexpr std::tuple kAll{
      PlanField{&P::kind, "the recurrence", "'layer_types'"},
      PlanField{&P::heads, "the number of its heads", "'num_heads'"},
      PlanField{&P::head_dim, "the width of its heads", "'head_dim'"},
      PlanField{&P::state, "the size of its state", "'state_size'"},
      PlanField{&P::groups, "the number of its groups", "'n_groups'"},
      PlanField{&P::width, "the width of its convolution", "'conv_kernel'"},
      PlanField{&P::step_rank, "the rank of its steps", "'time_step_rank'"},
      PlanField{&P::projection_bias, "the bias of its projections", "'use_bias'"},
      PlanField{&P::convolution_bias, "the bias of its convolution", "'use_conv_bias'"},
      PlanField{&P::least_step, "its least step", "'time_step_limit'"},
      PlanField{&P::most_step, "its largest step", "'time_step_limit'"},
      PlanField{&P::gate_norm, "the norm of its gated output", ""}};
};

template <>
struct PlanFields<LayerPlan> {
  using P = LayerPlan;
  static constexpr std::tuple kAll{
      PlanField{&P::attention_norm, "the norm before attention", ""},
      PlanField{&P::attention_post_norm, "the norm after attention", ""},
      PlanField{&P::attention, "attention", ""},
      PlanField{&P::latent, "latent attention", ""},
      PlanField{&P::recurrent, "the recurrence", ""},
      PlanField{&P::mlp_norm, "the norm before the MLP", ""},
      PlanField{&P::mlp_post_norm, "the norm after the MLP", ""},
      PlanField{&P::mlp, "the MLP", ""},
      PlanField{&P::experts, "experts", ""},
      PlanField{&P::residual_scale, "the factor on what is added", "'residual_multiplier'"},
      PlanField{&P::parallel, "whether attention and MLP are parallel", "'use_parallel_residual'"}};
};

template <>
struct PlanFields<ModelPlan> {
  using P = ModelPlan;
  static constexpr std::tuple kAll{
      PlanField{&P::architecture, "the family", "'model_type'", Compared::apart},
      PlanField{&P::text_part_of, "the whole", "'model_type'", Compared::apart},
      PlanField{&P::hidden, "the width of the stream", "'hidden_size'"},
      PlanField{&P::vocabulary, "the number of tokens", "'vocab_size'"},
      PlanField{&P::context_tokens, "the context", "'max_position_embeddings'"},
      // What an opened checkpoint holds decides.
      PlanField{&P::tied_embeddings, "whether the head is the embedding", "'tie_word_embeddings'",
                Compared::apart},
      PlanField{&P::embedding_scale, "the factor on embeddings", "'embedding_multiplier'"},
      PlanField{&P::learned_positions, "whether positions are learned", "a tensor"},
      PlanField{&P::embedding_norm, "the norm of embeddings", ""},
      PlanField{&P::ropes, "the number of rotary settings", "'rope_parameters'"},
      PlanField{&P::layers, "the number of layers", "'num_hidden_layers'"},
      PlanField{&P::sinks, "the sinks of scores", "tensors", Compared::apart},
      PlanField{&P::final_norm, "the last norm", ""},
      PlanField{&P::head_bias, "the bias of logits", "a tensor"},
      PlanField{&P::logit_scale, "the factor on logits", "'logits_scaling', 'logit_scale'"},
      PlanField{&P::logit_soft_cap, "the cap of logits", "'final_logit_softcapping'; 0: none"},
      // A tokenizer's files have their own say in these.
      PlanField{&P::bos, "the first token", "'bos_token_id'", Compared::apart},
      PlanField{&P::eos, "the last tokens", "'eos_token_id'", Compared::apart},
      PlanField{&P::mask_token, "the token that stands for others", "'mask_token_id'"},
      PlanField{&P::ignored_keys, "keys that change nothing", "of any name", Compared::apart}};
};

// Calls visit(field, a's member, b's member) for each member of a struct.
template <typename Struct, typename Visit>
void visit_fields(const Struct& a, const Struct& b, Visit visit) {
  std::apply([&](const auto&... field) { (visit(field, a.*field.member, b.*field.member), ...); },
             PlanFields<Struct>::kAll);
}

// How many members an aggregate has: the most values that it can be made of.
namespace aggregate {
struct Anything {
  template <typename T>
  operator T() const noexcept;  // NOLINT(google-explicit-constructor)
};
template <typename T, size_t... Is>
constexpr bool can_hold(std::index_sequence<Is...>) {
  return requires {
    T{(static_cast<void>(Is), Anything{})...};
  };
}
template <typename T, size_t most = 40>
constexpr size_t members() {
  if constexpr (most == 0 || can_hold<T>(std::make_index_sequence<most>{})) {
    return most;
  } else {
    return members<T, most - 1>();
  }
}
}  // namespace aggregate

template <typename Struct>
inline constexpr bool kAllFieldsAreListed =
    aggregate::members<Struct>() == std::tuple_size_v<decltype(PlanFields<Struct>::kAll)>;

static_assert(kAllFieldsAreListed<NormPlan> && kAllFieldsAreListed<RopeScaling> &&
                  kAllFieldsAreListed<RopePlan> && kAllFieldsAreListed<SelfAttentionPlan> &&
                  kAllFieldsAreListed<LatentAttentionPlan> && kAllFieldsAreListed<MlpPlan> &&
                  kAllFieldsAreListed<ExpertsPlan> && kAllFieldsAreListed<RecurrentPlan> &&
                  kAllFieldsAreListed<LayerPlan> && kAllFieldsAreListed<ModelPlan>,
              "a struct of the plan has a member that its PlanFields do not list");

}  // namespace tenon
