// What recurrent mixers have in common: what lies between their projections is a state kernel's.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/blocks/norm.h"
#include "core/model/blocks/weight.h"

namespace tenon {

// mamba   a selective scan: each channel decays by steps of its own          (arXiv:2312.00752)
// mamba2  one decay a head; heads of a group share what is written and read  (arXiv:2405.21060)
// gated_delta  what a key reads is taken out before its value is written     (arXiv:2412.06464)
// short_conv   a few tokens of x, gated before and after                     (LFM2)
// lightning    linear attention whose heads decay by rates of their own       (arXiv:2501.08313)
// mlstm        keys and values with exponential gates, and their divisor      (arXiv:2405.04517)
// docs/futures.md, "State kinds", has the formulas of what lies between the projections.
#define TENON_BLOCK(name)
#define TENON_RECURRENCE(block, kind) kind,
enum class Recurrence : uint8_t {
  none,
#include "core/model/blocks/blocks.def"
};
#undef TENON_BLOCK
// As kernels are asked for it; empty: none.
std::string_view recurrence_name(Recurrence kind);

// mamba2: factors on what its projections make, and on what is added to the stream.
struct RecurrentScales {
  float gate = 1.0f, x = 1.0f, b = 1.0f, c = 1.0f, step = 1.0f;
  float output = 1.0f;
  // Of all but `output`, the part that is a factor on what the mixer reads. The bias of its first
  // projection is kept divided by it.
  float input = 1.0f;

  friend bool operator==(const RecurrentScales&, const RecurrentScales&) = default;
};

template <>
struct PlanFields<RecurrentScales> {
  using P = RecurrentScales;
  static constexpr void list(auto field) {
    field(&P::gate, "the factor on its gate", "'ssm_multipliers', 'ssm_in_multiplier'");
    field(&P::x, "the factor on its x", "'ssm_multipliers', 'ssm_in_multiplier'");
    field(&P::b, "the factor on its B", "'ssm_multipliers', 'ssm_in_multiplier'");
    field(&P::c, "the factor on its C", "'ssm_multipliers', 'ssm_in_multiplier'");
    field(&P::step, "the factor on its steps", "'ssm_multipliers', 'ssm_in_multiplier'");
    field(&P::output, "the factor on its result", "'ssm_out_multiplier'");
    field(&P::input, "the factor on its input", "'ssm_in_multiplier'");
  }
};

struct RecurrentPlan {
  Recurrence kind = Recurrence::none;
  uint32_t heads = 0;      // mamba, short_conv: channels, as heads of 1; gated_delta: of values
  uint32_t head_dim = 0;   // mamba, short_conv: 1; gated_delta: of values
  uint32_t state = 0;      // numbers that are kept for each element of a head; the width of keys
  uint32_t groups = 0;     // of heads that share B and C; mamba: 1; gated_delta: heads of keys
  uint32_t width = 0;      // of the convolution, in tokens
  uint32_t step_rank = 0;  // of the two products that make Δ, or of decays; 0: one makes them
  uint32_t gate_rank = 0;  // gated_delta: … that make the gate
  bool projection_bias = false;  // of the first projection
  bool output_bias = false;
  bool convolution_bias = false;
  float least_step = 0.0f;  // mamba2: Δ is held between the two
  float most_step = std::numeric_limits<float>::infinity();
  // gated_delta: the factors that a head's state decays by, one or one for each element of a key.
  uint32_t decays = 1;
  // gated_delta: 0, or the logarithm of the strongest decay, which is then σ's limit in place of
  // softplus.
  float strongest_decay = 0.0f;
  float beta_scale = 1.0f;    // gated_delta: on β, which σ holds below 1
  bool inputs_apart = false;  // gated_delta: q, k and v have a matrix each
  bool sigmoid_gate = false;  // the output's gate is σ in place of SiLU
  float gate_cap = 0.0f;      // mlstm: on what its gates are made of; 0: none
  float divisor_eps = 0.0f;   // mlstm: added to what its output is divided by
  // mamba2: of the gated output, the heads of a group together. gated_delta: of the output before
  // its gate, each head by the same weight.
  NormPlan gate_norm;
  bool norm_first = false;  // mamba2, lightning: of the output before its gate, too
  NormPlan low_norm = {};   // mamba: of what Δ is made of, of B and of C
  RecurrentScales scales = {};

  explicit operator bool() const { return kind != Recurrence::none; }
  uint32_t inner() const { return heads * head_dim; }
  // That are convolved: x, in Mamba-2 with B and C; of gated_delta q, k and v.
  uint32_t channels() const {
    return kind == Recurrence::mamba ? inner() : inner() + 2 * groups * state;
  }
  // Numbers of a state besides: of mlstm the normaliser of each head, and the logarithm of both's
  // scale.
  uint64_t normalisers() const {
    return kind == Recurrence::mlstm ? uint64_t{heads} * (state + 1) : 0;
  }
  // Of one sequence: the last width-1 rows of the channels, and the state behind them.
  uint64_t state_bytes() const {
    return sizeof(float) *
           (uint64_t{width - 1} * channels() + uint64_t{inner()} * state + normalisers());
  }
  uint32_t steps() const { return heads * decays; }
  // Norms of gate_norm in a row of the output.
  uint32_t norms() const {
    return kind == Recurrence::gated_delta ? heads : kind == Recurrence::lightning ? 1 : groups;
  }
  bool norm_before_gate() const { return kind == Recurrence::gated_delta || norm_first; }
  bool scales_inputs() const {
    RecurrentScales inputs = scales;
    inputs.output = inputs.input = 1.0f;
    return inputs != RecurrentScales();
  }
  friend bool operator==(const RecurrentPlan&, const RecurrentPlan&) = default;
};

template <>
struct PlanFields<RecurrentPlan> {
  using P = RecurrentPlan;
  static constexpr void list(auto field) {
    field(&P::kind, "the recurrence", "'layer_types'");
    field(&P::heads, "the number of its heads", "'num_heads'");
    field(&P::head_dim, "the width of its heads", "'head_dim'");
    field(&P::state, "the size of its state", "'state_size'");
    field(&P::groups, "the number of its groups", "'n_groups'");
    field(&P::width, "the width of its convolution", "'conv_kernel'");
    field(&P::step_rank, "the rank of its steps", "'time_step_rank'");
    field(&P::gate_rank, "the rank of its gate", "a tensor; 0: none");
    field(&P::projection_bias, "the bias of its first projection", "'use_bias'");
    field(&P::output_bias, "the bias of its last projection", "'use_bias'");
    field(&P::convolution_bias, "the bias of its convolution", "'use_conv_bias'");
    field(&P::least_step, "its least step", "'time_step_limit'");
    field(&P::most_step, "its largest step", "'time_step_limit'");
    field(&P::decays, "the decays of its heads", "a tensor");
    field(&P::strongest_decay, "its strongest decay", "'lower_bound'; 0: none");
    field(&P::beta_scale, "the factor on what is written", "'linear_allow_neg_eigval'");
    field(&P::inputs_apart, "whether q, k and v are apart", "tensors");
    field(&P::sigmoid_gate, "whether its gate is a sigmoid", "'model_type'");
    field(&P::gate_cap, "the cap of its gates", "'gate_soft_cap'; 0: none");
    field(&P::divisor_eps, "what is added to its divisor", "'eps'");
    field(&P::gate_norm, "the norm of its gated output", "");
    field(&P::norm_first, "whether that is before its gate", "'mamba_norm_before_gate'");
    field(&P::low_norm, "the norm of its Δ, B and C", "");
    field(&P::scales, "its factors", "");
  }
};

// Vectors are as docs/futures.md has them, "State kinds".
struct RecurrentWeights {
  std::vector<float> ssm_gate_bias, ssm_in_bias, ssm_step_bias, ssm_beta_bias, ssm_out_bias;
  std::vector<float> ssm_conv, ssm_conv_bias, ssm_a, ssm_dt_bias, ssm_d;
  std::vector<float> ssm_norm;                             // [inner]; gated_delta: [head_dim]
  std::vector<float> ssm_dt_norm, ssm_b_norm, ssm_c_norm;  // mamba: [step_rank], [state], [state]
  Weight ssm_in;               // [channels, hidden]; short_conv: [3·channels, hidden]
  Weight ssm_q, ssm_k, ssm_v;  // ssm_in's rows in three matrices, in place of it
  Weight ssm_gate;             // [inner, hidden], or [inner, gate_rank]
  Weight ssm_gate_low;         // [gate_rank, hidden]
  Weight ssm_step;         // mamba2, gated_delta: [steps, hidden]; of low rank [steps, step_rank]
  Weight ssm_beta;         // gated_delta: [heads, hidden]; mlstm: of i, and ssm_step of f
  Weight ssm_low, ssm_bc;  // [step_rank, inner], [2·state, inner]; gated_delta: [step_rank, hidden]
  Weight ssm_dt;           // mamba: [inner, step_rank]
  Weight ssm_out;          // [hidden, inner]
};

inline constexpr size_t kMostRecurrentInputs = 3;  // of both calls

// A product that enters a state kernel, or the gate.
struct RecurrentProduct {
  Weight RecurrentWeights::*matrix = nullptr;
  std::vector<float> RecurrentWeights::*bias = nullptr;  // null: never one
  // Where the layer has it, it multiplies first, and `matrix` its product.
  Weight RecurrentWeights::*low = nullptr;
  // Where the layer has no `matrix`: their products side by side.
  std::span<Weight RecurrentWeights::*const> apart = {};

  bool is_low(const RecurrentWeights& weights) const {
    return low != nullptr && (weights.*low).n_out > 0;
  }
  bool is_apart(const RecurrentWeights& weights) const {
    return !apart.empty() && (weights.*matrix).n_out == 0;
  }
  // Not null: there is no such matrix, and so many zeros are a row.
  uint32_t (*zeros)(const RecurrentPlan& recurrent) = nullptr;
  // Numbers in a row of the result.
  uint64_t width(const RecurrentWeights& weights) const {
    if (!is_apart(weights)) return (weights.*matrix).n_out;
    uint64_t sum = 0;
    for (const auto part : apart) sum += (weights.*part).n_out;
    return sum;
  }
};

// A parameter as state kernels take it.
struct RecurrentParameter {
  std::vector<uint64_t> extents;
  std::span<const float> values = {};  // the weights'; empty: `own`, or zeros where that is, too
  std::vector<float> own = {};
};

// A row of a sequence in one call of a state kernel, as formulas take it. Arrays are as
// docs/futures.md has them, "State kinds".
struct RecurrentRow {
  std::array<uint32_t, 8> dims = {};
  std::span<const std::vector<float>> parameters = {};
  std::span<const float* const> inputs = {};
  float* state = nullptr;  // before the row, and then after it; of two calls each has its part
  float* out = nullptr;    // [inner]; may be the first input
};

// A recurrence of small odd sizes, by which kernels are checked.
struct RecurrenceExample {
  std::string_view what;  // in messages
  RecurrentPlan plan;
};

// What executors and checks need to know of a kind. The file of its block defines it, and the block
// points to it; docs/futures.md, "State kinds", says what a kernel does with all of this.
struct RecurrenceKind {
  Recurrence kind = Recurrence::none;
  std::string_view name;  // as kernels are asked for it
  std::array<uint32_t, 8> (*dims)(const RecurrentPlan& recurrent) = nullptr;
  std::vector<RecurrentParameter> (*parameters)(const RecurrentPlan& recurrent,
                                                const RecurrentWeights& weights) = nullptr;
  // Products of what the layer reads, which are the kernel's inputs.
  std::span<const RecurrentProduct> inputs;
  // Where the executor multiplies in between: products of what the kernel made of the first inputs,
  // which are those of a second call, after that itself.
  std::span<const RecurrentProduct> later_inputs = {};
  bool gated = true;  // the output is multiplied by SiLU or σ of kRecurrentGate
  // Numbers in a row of each input; those of a second call are its later ones, after its first.
  std::array<uint32_t, kMostRecurrentInputs> (*input_widths)(const RecurrentPlan& recurrent) =
      nullptr;
  // The formula, which the oracle runs and checks compare kernels with: sums are in double, and
  // what a state holds is rounded to f32 after every row, so that it does not matter where steps
  // end.
  void (*advance)(const RecurrentRow& row) = nullptr;
  // Empty where the kind is one of another name's.
  std::span<const RecurrenceExample> examples = {};
  // Turns numbers in [-1, 1] into what parameters may be; null: they may be those.
  void (*settle)(std::span<std::vector<float>> parameters) = nullptr;
};
inline constexpr RecurrentProduct kRecurrentGate{
    &RecurrentWeights::ssm_gate, &RecurrentWeights::ssm_gate_bias, &RecurrentWeights::ssm_gate_low};

// `kind` is not none.
const RecurrenceKind& recurrence_kind(Recurrence kind);
// "mamba, mamba2 and …": of all blocks.
std::vector<std::string> recurrence_names();

}  // namespace tenon
