// A model as data: what the decoder needs to know of each layer, made from a checkpoint's own
// config by its family (core/model/families). Nothing else of a family is known behind this.
#pragma once

#include <tenon/model.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

// rms    x / sqrt(mean(x²) + eps) · weight                        (arXiv:1910.07467)
// layer  (x - mean(x)) / sqrt(var(x) + eps) · weight + bias       (arXiv:1607.06450)
enum class NormKind : uint8_t { none, rms, layer };
struct NormPlan {
  NormKind kind = NormKind::none;
  float eps = 1e-5f;
  bool bias = false;      // layer norms only
  bool plus_one = false;  // folders store the weight less one
  bool weight = true;     // else the checkpoint has none, and all of it is 1

  explicit operator bool() const { return kind != NormKind::none; }
  friend bool operator==(const NormPlan&, const NormPlan&) = default;
};

enum class RopeScalingKind : uint8_t { none, linear, dynamic, llama3, yarn, longrope };
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  double factor = 1.0;
  double low_freq_factor = 1.0;  // llama3 only, as the next
  double high_freq_factor = 4.0;
  uint32_t original_context_tokens = 0;  // all but linear
  double beta_fast = 32.0;               // yarn only, as the two below
  double beta_slow = 1.0;
  bool truncate = true;
  double attention_factor = 1.0;                   // yarn, longrope: on cosines and sines
  double mscale = 0.0, mscale_all_dim = 0.0;       // yarn, as given: what it was made of; 0 = not
  std::vector<float> short_factors, long_factors;  // longrope: [dim / 2] divisors
};

// One setting of the rotary embedding (arXiv:2104.09864).
struct RopePlan {
  uint32_t dim = 0;    // leading elements of a head that turn, even; the others stay
  bool pairs = false;  // neighbours (0, 1), (2, 3), … turn together; else the halves' elements
  double theta = 10000.0;
  RopeScaling scaling;
  std::vector<float> factors;  // [dim / 2] divide the frequencies; empty = none
};

// The norm of q and k in front of the rotation: of each head with one weight for all, of each head
// with its own weight, or of all heads together.
enum class QkNormExtent : uint8_t { head, own_head, whole };

// What the cache and its kernel see. A layer with latent attention is to them one KV head, whose
// rows all query heads read (LatentAttentionPlan).
struct SelfAttentionPlan {
  uint32_t heads = 0;  // 0: the layer does not attend
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;       // may differ from hidden / heads
  uint32_t window_tokens = 0;  // 0 = unlimited
  int32_t kv_from_layer = -1;  // the earlier layer whose K and V this one reads; -1: its own
  int32_t rope = 0;            // index in ModelPlan::ropes; -1: nothing turns here
  float scale = 0.0f;
  float soft_cap = 0.0f;        // 0 = none
  float alibi_max_bias = 0.0f;  // 0 = none; else biases that fall with distance, see alibi_slopes
  bool qkv_bias = false;
  bool output_bias = false;
  float clip = 0.0f;   // 0 = none; else q, k and v are held in [-clip, clip], behind the norm
  bool sinks = false;  // a learned score a head that takes part in the softmax only
  NormPlan qk_norm;
  QkNormExtent qk_norm_extent = QkNormExtent::head;

  uint32_t q_width() const { return heads * head_dim; }
  uint32_t kv_width() const { return kv_heads * head_dim; }
  friend bool operator==(const SelfAttentionPlan&, const SelfAttentionPlan&) = default;
};

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): K and V of all heads
// follow from one row a token, c = norm(Wc · x) of `kv_rank` elements with one rotated k of
// `rope_dim` behind it, which is what the cache keeps. Heads of q are q_nope and q_rope side by
// side:
//
//   k = (Wuk · c, k_rope)    v = Wuv · c    q · k = q_nope · Wuk · c + q_rope · k_rope
//
// so that (Wukᵀ · q_nope, q_rope) is a query of the row itself (absorbed), and what the softmax
// makes of the rows' c becomes a head's output by Wuv.
struct LatentAttentionPlan {
  uint32_t q_rank = 0;   // q = Wqb · norm(Wqa · x); 0: one product
  uint32_t kv_rank = 0;  // 0: the layer has none of this
  uint32_t nope_dim = 0;
  uint32_t rope_dim = 0;
  uint32_t v_dim = 0;
  NormPlan norm;      // of c, and of what q is made of
  bool bias = false;  // of Wqa and Wc

  uint32_t q_dim() const { return nope_dim + rope_dim; }
  uint32_t row_dim() const { return kv_rank + rope_dim; }
  explicit operator bool() const { return kv_rank > 0; }
  friend bool operator==(const LatentAttentionPlan&, const LatentAttentionPlan&) = default;
};

enum class Activation : uint8_t { silu, gelu, gelu_tanh, relu, relu_squared };

// gated: down(act(gate(x)) · up(x)); plain: down(act(up(x)))
struct MlpPlan {
  uint32_t width = 0;  // 0: the layer has none
  bool gated = true;
  Activation activation = Activation::silu;
  bool bias = false;

  friend bool operator==(const MlpPlan&, const MlpPlan&) = default;
};

// What an expert's factor is made of.
//   softmax            the softmax of all scores, at the chosen experts  (arXiv:2401.06066)
//   softmax_of_chosen  the softmax of the chosen experts' scores alone   (arXiv:2401.04088)
//   sigmoid            each score's own                                  (arXiv:2412.19437)
enum class ExpertScoring : uint8_t { softmax, softmax_of_chosen, sigmoid };
// What a group of experts is judged by: its best expert, or the sum of its two best.
enum class GroupScore : uint8_t { best, best_two };

// A router chooses experts for each token; their results are added, each times its factor. Of
// experts that score alike the first ones are chosen. Beside them a shared expert may see every
// token: a gated MLP without biases.
struct ExpertsPlan {
  uint32_t count = 0;   // 0: the layer has one MLP (LayerPlan::mlp) instead
  uint32_t chosen = 0;  // for a token
  uint32_t width = 0;   // of each, a gated MLP
  Activation activation = Activation::silu;
  bool bias = false;
  // With a limit: (min(gate, limit)) · σ(alpha · min(gate, limit)) · (clamp(up, ±limit) + 1) in
  // place of act(gate) · up.
  float swiglu_alpha = 0.0f;
  float swiglu_limit = 0.0f;

  ExpertScoring scoring = ExpertScoring::softmax;
  bool router_bias = false;  // on the scores
  bool correction = false;   // added to what experts are chosen by, not to their factors
  bool normalised = false;   // a token's factors are divided by their sum
  float scale = 1.0f;        // on the factors, behind that
  // Experts stand in equal groups; those of the best `groups_chosen` may be chosen.
  uint32_t groups = 1;
  uint32_t groups_chosen = 1;
  GroupScore group_score = GroupScore::best;

  uint32_t shared_width = 0;  // 0: no shared expert
  bool shared_gate = false;   // its result is multiplied by the sigmoid of a score of its own

  explicit operator bool() const { return count > 0; }
  friend bool operator==(const ExpertsPlan&, const ExpertsPlan&) = default;
};

// mamba   a selective scan: each channel decays by steps of its own          (arXiv:2312.00752)
// mamba2  one decay a head; heads of a group share what is written and read  (arXiv:2405.21060)
// docs/futures.md, "State kinds", has the formulas of what lies between the projections.
enum class Recurrence : uint8_t { none, mamba, mamba2 };
std::string_view recurrence_name(Recurrence kind);

struct RecurrentPlan {
  Recurrence kind = Recurrence::none;
  uint32_t heads = 0;      // mamba: channels, as heads of 1
  uint32_t head_dim = 0;   // mamba: 1
  uint32_t state = 0;      // numbers that are kept for each element of a head
  uint32_t groups = 0;     // of heads that share B and C; mamba: 1
  uint32_t width = 0;      // of the convolution, in tokens
  uint32_t step_rank = 0;  // mamba: of the product that makes Δ
  bool projection_bias = false;
  bool convolution_bias = false;
  float least_step = 0.0f;  // mamba2: Δ is held between the two
  float most_step = std::numeric_limits<float>::infinity();
  // mamba2: of the gated output, the heads of a group together.
  NormPlan gate_norm;

  explicit operator bool() const { return kind != Recurrence::none; }
  uint32_t inner() const { return heads * head_dim; }
  // That are convolved: x, in Mamba-2 with B and C.
  uint32_t channels() const {
    return kind == Recurrence::mamba ? inner() : inner() + 2 * groups * state;
  }
  // Of one sequence: the last width-1 rows of the channels, and the state behind them.
  uint64_t state_bytes() const {
    return sizeof(float) * (uint64_t{width - 1} * channels() + uint64_t{inner()} * state);
  }
  friend bool operator==(const RecurrentPlan&, const RecurrentPlan&) = default;
};

// x += scale · post_norm(mixer(norm(x))), then the same with the MLP. The mixer is attention, a
// recurrence, or both side by side. In parallel, mixer and MLP read the x that the layer began
// with; without a norm of its own the MLP reads what the mixer reads.
struct LayerPlan {
  NormPlan attention_norm, attention_post_norm;  // the mixer's, whatever it is
  SelfAttentionPlan attention;
  LatentAttentionPlan latent;
  RecurrentPlan recurrent;
  NormPlan mlp_norm, mlp_post_norm;
  MlpPlan mlp;
  ExpertsPlan experts;  // in place of the MLP, where there are any
  float residual_scale = 1.0f;
  bool parallel = false;

  bool attends() const { return attention.heads > 0; }
  bool has_mlp() const { return mlp.width > 0 || experts; }
  // What the MLP reads through.
  const NormPlan& mlp_input_norm() const {
    return parallel && !mlp_norm ? attention_norm : mlp_norm;
  }
  // Elements of a row that comes out of the cache's kernel, and of one that the output's product
  // reads.
  uint32_t kernel_out_width() const {
    return latent ? attention.heads * latent.kv_rank : attention.q_width();
  }
  uint32_t attended_width() const {
    return latent ? attention.heads * latent.v_dim : attention.q_width();
  }
  // Whether products are added to the stream as they are.
  bool adds_plainly(const NormPlan& post_norm) const {
    return !post_norm && residual_scale == 1.0f;
  }
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
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
};

// The rotary embedding's angular frequencies, [dim / 2], scaling applied. `context_tokens` is the
// longest that a sequence may become: where that is beyond the original context, LongRoPE takes its
// long factors and dynamic scaling raises theta, whatever the length of a text at hand, so that
// chunks change no bit.
std::vector<float> rope_frequencies(const RopePlan& rope, uint32_t context_tokens);

// What ALiBi (arXiv:2108.12409) adds to a score for each token of distance, less its sign: the
// powers of one number that end at 2^-max_bias; where the heads are no power of two, every other
// one of twice as many fills them up. [heads]
std::vector<float> alibi_slopes(uint32_t heads, float max_bias);

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
