// Experts, of which a router chooses some for each token.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/model/blocks/mlp.h"
#include "core/model/blocks/norm.h"

namespace tenon {

// What an expert's factor is made of.
//   softmax            the softmax of all scores, at the chosen experts  (arXiv:2401.06066)
//   softmax_of_chosen  the softmax of the chosen experts' scores alone   (arXiv:2401.04088)
//   sigmoid            each score's own                                  (arXiv:2412.19437)
enum class ExpertScoring : uint8_t { softmax, softmax_of_chosen, sigmoid };
inline std::string_view name_of(ExpertScoring value) {
  constexpr std::array<std::string_view, 3> kNames = {"softmax", "softmax of the chosen",
                                                      "sigmoid"};
  return kNames[static_cast<size_t>(value)];
}

// What a group of experts is judged by: its best expert, or the sum of its two best.
enum class GroupScore : uint8_t { best, best_two };

inline std::string_view name_of(GroupScore value) {
  constexpr std::array<std::string_view, 2> kNames = {"its best expert", "its two best experts"};
  return kNames[static_cast<size_t>(value)];
}

// A router chooses experts for each token; their results are added, each times its factor. Of
// experts that score alike the first ones are chosen. Beside them a shared expert may see every
// token: an MLP, gated like the experts.
struct ExpertsPlan {
  uint32_t count = 0;         // 0: the layer has its MLP alone (LayerPlan::mlp)
  uint32_t chosen = 0;        // for a token
  uint32_t width = 0;         // of each
  uint32_t idle = 0;          // further ones that the router knows: their result is what they read
  bool gated = true;          // down(act(gate(x)) · up(x)), else down(act(up(x)))
  uint32_t latent_width = 0;  // above 0: experts read Win · x, and Wout is on their sum
  Activation activation = Activation::silu;
  bool bias = false;
  // With a limit: (min(gate, limit)) · σ(alpha · min(gate, limit)) · (clamp(up, ±limit) + 1) in
  // place of act(gate) · up.
  float swiglu_alpha = 0.0f;
  float swiglu_limit = 0.0f;
  // As MlpPlan's, of experts and of the shared one.
  float limit = 0.0f, shared_limit = 0.0f;

  ExpertScoring scoring = ExpertScoring::softmax;
  bool router_bias = false;  // on the scores
  bool correction = false;   // added to what experts are chosen by, not to their factors
  bool normalised = false;   // a token's factors are divided by their sum and this
  float sum_more = 1e-20f;
  float scale = 1.0f;  // on the factors, behind that
  // Factors are on what experts read, not on what they make. Only without biases.
  bool factors_first = false;
  // Experts stand in equal groups; those of the best `groups_chosen` may be chosen.
  uint32_t groups = 1;
  uint32_t groups_chosen = 1;
  GroupScore group_score = GroupScore::best;

  uint32_t shared_width = 0;  // 0: no shared expert
  bool shared_gate = false;   // its result is multiplied by the sigmoid of a score of its own
  bool shared_bias = false;
  float shared_scale = 1.0f;  // on its result

  // With it the experts stand next to the layer's MLP. Router and experts read the stream, each
  // through a norm of its own; the MLP's result and the experts' have one each, and are added up
  // before the norm after the MLP.
  NormPlan beside_norm = {};
  // The experts stand next to the layer's MLP and read what that reads; their result joins the
  // stream at the end of the next layer (LayerPlan::joins_aside).
  bool aside = false;
  float score_scale = 1.0f;    // on scores
  float score_cap = 0.0f;      // 0: none; else scores are cap · tanh(score / cap)
  bool expert_scales = false;  // a number for each expert, on its factor at last

  uint32_t routed() const { return count + idle; }
  explicit operator bool() const { return count > 0; }
  friend bool operator==(const ExpertsPlan&, const ExpertsPlan&) = default;
};

template <>
struct PlanFields<ExpertsPlan> {
  using P = ExpertsPlan;
  static constexpr void list(auto field) {
    field(&P::count, "the number of experts", "'num_experts'");
    field(&P::chosen, "the experts of a token", "'num_experts_per_tok'");
    field(&P::width, "the width of experts", "'moe_intermediate_size'");
    field(&P::idle, "the number of experts that do nothing", "'zero_expert_num'");
    field(&P::gated, "whether experts are gated", "a tensor of each");
    field(&P::latent_width, "the width that experts read", "'moe_latent_size'; 0: the stream");
    field(&P::activation, "the experts' activation", "'hidden_act'");
    field(&P::bias, "the bias of experts", "a tensor of each");
    field(&P::swiglu_alpha, "the factor in the experts' gate", "'swiglu_alpha'; 0: none");
    field(&P::swiglu_limit, "the limit of the experts' gate", "'swiglu_limit'; 0: none");
    field(&P::limit, "the limit of experts", "'swiglu_limits'; 0: none");
    field(&P::shared_limit, "the limit of the shared expert", "'swiglu_limits_shared'; 0: none");
    field(&P::scoring, "the experts' factor", "'scoring_func'");
    field(&P::router_bias, "the bias of the router", "a tensor");
    field(&P::correction, "the correction of the router", "a tensor");
    field(&P::normalised, "whether factors are divided by their sum", "'norm_topk_prob'");
    field(&P::sum_more, "what is added to the sum of factors", "nothing");
    field(&P::scale, "the factor on experts", "'routed_scaling_factor'");
    field(&P::factors_first, "whether factors are on what experts read", "the family");
    field(&P::groups, "the number of groups of experts", "'n_group'");
    field(&P::groups_chosen, "the groups of a token", "'topk_group'");
    field(&P::group_score, "what judges a group", "'topk_method'");
    field(&P::shared_width, "the width of the shared expert",
          "'shared_expert_intermediate_size'; 0: none");
    field(&P::shared_gate, "the gate of the shared expert", "a tensor");
    field(&P::shared_bias, "the bias of the shared expert", "'use_bias', 'mlp_bias'");
    field(&P::shared_scale, "the factor on the shared expert",
          "'shared_expert_combination_strategy'");
    field(&P::beside_norm, "the norms of experts next to the MLP", "");
    field(&P::aside, "whether experts join a layer later", "the family");
    field(&P::score_scale, "the factor on the router's scores", "'hidden_size'");
    field(&P::score_cap, "the cap of the router's scores",
          "'moe_router_logit_softcapping'; 0: none");
    field(&P::expert_scales, "whether experts have factors of their own", "a tensor");
  }
};

// One of a layer's experts. Biases are empty where there are none.
struct ExpertWeights {
  Weight gate, up;  // [width, hidden or latent_width]
  Weight down;      // [hidden or latent_width, width]
  std::vector<float> gate_bias, up_bias, down_bias;
};

// In place of MlpWeights where the layer has experts, or next to them. Who is chosen is decided in
// f32: routers are widened on opening, like vectors.
struct ExpertsWeights {
  Weight router;                         // [routed, hidden]
  std::vector<float> router_bias;        // [routed]
  std::vector<float> router_correction;  // [routed]
  std::vector<ExpertWeights> experts;
  Weight shared_gate, shared_up, shared_down;
  std::vector<float> shared_gate_bias, shared_up_bias, shared_down_bias;  // empty: none
  Weight shared_router;                                                   // [1, hidden]
  // Next to an MLP, [hidden] each: of what router and experts read, of their result and of the
  // MLP's.
  std::vector<float> router_norm, experts_norm, experts_post_norm, mlp_own_norm;
  std::vector<float> expert_scales;  // [experts]
  Weight latent_in, latent_out;      // [latent_width, hidden], [hidden, latent_width]
};

}  // namespace tenon
