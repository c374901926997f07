// A block: a part of a layer with tensors of its own. It is one module of this folder, which holds
// the struct of its plan with the list of its fields, what it keeps of weights, and one table of
// its tensors. Names of folders and of GGUF files, loading, converting and random models follow
// from the tables.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/model/blocks/recurrence.h"
#include "core/model/model.h"

namespace tenon {

enum class Role : uint8_t {
  // Outside the layers (stream.cc).
  embedding,
  positions,
  embedding_norm,
  layer_table,  // per-layer embeddings, with the two that follow
  layer_projection,
  layer_projection_norm,
  final_norm,
  head,
  // Norms of a layer (stream.cc).
  attention_norm,
  attention_post_norm,
  mlp_norm,
  mlp_post_norm,
  layer_scale,  // a number that the layer ends with
  attention_residual,
  mlp_residual,
  // streams.cc: outside the layers, then in them
  stream_in,  // a matrix for each stream but the first
  stream_out,
  stream_scale,
  stream_correction,
  stream_prediction,
  stream_router,
  stream_router_norm,
  low_left,
  low_right,
  low_norm,
  // attention.cc
  q,
  k,
  v,
  qkv,         // one tensor in place of the three
  q_and_gate,  // one tensor of q and output_gate, head by head
  output_gate,
  q_norm,
  k_norm,
  output,
  attended_norm,
  sinks,
  mask_in,
  mask_rate,
  // latent.cc, with q and output
  q_a,
  q_a_norm,
  q_b,  // in place of q where that is made in two steps
  kv_a,
  kv_a_norm,
  kv_b,  // for each head its rows of K, then those of V
  k_b,   // in GGUF files the two of kv_b by themselves: K [heads, kv_rank, nope]
  v_b,   // and V [heads, v, kv_rank]
  // index.cc
  index_q,
  index_k,
  index_k_norm,
  index_weights,
  // mlp.cc
  gate,
  up,
  gate_up,  // one tensor in place of the two
  down,
  inner_norm,
  xielu_alpha_p,
  xielu_alpha_n,
  xielu_beta,
  xielu_eps,
  // experts.cc
  router,
  router_correction,
  expert_gate,
  expert_up,
  expert_down,
  shared_gate,
  shared_up,
  shared_down,
  shared_gate_up,  // one tensor in place of the two
  shared_router,
  // … of experts next to an MLP
  router_norm,
  experts_norm,
  experts_post_norm,
  mlp_own_norm,   // of the MLP's result
  expert_scales,  // on the experts' factors
  latent_in,      // what experts of another width than the stream's read
  latent_out,
  // layer_input.cc
  input_gate,
  input_out,
  input_norm,
  // shared_block.cc: the block's, and what a layer has of its own
  block_norm,
  block_link,
  own_q_low,
  own_q_high,
  own_k_low,
  own_k_high,
  own_v_low,
  own_v_high,
  own_mlp_low,
  own_mlp_high,  // one tensor of the two that follow
  own_gate_high,
  own_up_high,
  // mamba.cc, mamba2.cc, gated_delta.cc, short_conv.cc
  ssm_in,  // one tensor of those that follow; mamba: x, gate; mamba2: gate, x with B and C, Δ
  ssm_in_gate,
  ssm_in_x,
  ssm_in_step,  // mamba2
  ssm_in_q,     // gated_delta: x in three tensors
  ssm_in_k,
  ssm_in_v,
  ssm_conv,
  ssm_conv_q,  // gated_delta: its parts, where q, k and v are apart
  ssm_conv_k,
  ssm_conv_v,
  ssm_x,      // mamba: one tensor of the two that follow
  ssm_x_low,  // what Δ is made of
  ssm_x_bc,
  ssm_dt,       // Δ of it, or decays
  ssm_dt_bias,  // mamba2, a tensor of its own
  ssm_a,        // folders store log(-a)
  ssm_rate,     // lightning: -a
  ssm_d,
  ssm_norm,
  ssm_dt_norm,  // mamba: of what Δ is made of, with the two that follow
  ssm_b_norm,
  ssm_c_norm,
  ssm_gate_low,         // gated_delta: what the gate is made of, where that takes two steps
  ssm_gate_of_low,      // … and the gate
  ssm_beta,             // gated_delta
  ssm_in_by_key_heads,  // gated_delta: x and gate in one tensor, key head by key head
  ssm_ba_by_key_heads,  // … and beta and step
  ssm_out,
};

// What a matrix multiplies. Matrices of a block that read the same are calibrated together.
enum class Reads : uint8_t {
  other,        // nothing that calibration looks at
  mixer_input,  // what enters the layer's mixer
  query_low,    // latent attention: what q is made of, where that takes two steps
  gate_low,     // gated_delta: what its gate is made of, where that takes two steps
  step_low,     // … and its decays
  mixed,        // what a mixer made
  mlp_input,
  mlp_inner,
};

// What a dimension of a tensor counts.
enum class Axis : uint8_t {
  none,
  vocabulary,
  hidden,
  heads,
  kv_heads,
  head_dim,
  intermediate,
  other
};

// How large a layer's tensor is.
struct Extent {
  uint64_t rows = 0;     // of a vector its length; 0: the layer has no such tensor
  uint64_t columns = 0;  // 0: a vector
  bool bias = false;     // one number for each row goes with it
  Axis rows_axis = Axis::other;
  Axis columns_axis = Axis::none;
  bool weight = true;    // false: only the bias is stored
  uint32_t experts = 0;  // above 0: so many matrices or vectors of that shape
  // The extents of a vector in folders and in GGUF files, where it stands in several dimensions.
  std::vector<uint64_t> shape = {}, stored_shape = {};

  uint64_t bias_rows() const { return shape.empty() ? rows : shape.front(); }
};

// A matrix that reads the residual stream.
Extent from_stream(const ModelPlan& model, uint64_t rows, bool bias = false,
                   Axis rows_axis = Axis::other);
// A matrix whose product is added to the stream.
Extent to_stream(const ModelPlan& model, uint64_t columns, bool bias = false,
                 Axis columns_axis = Axis::other);
// A norm's weight and bias, of which a checkpoint may have neither.
Extent of_norm(const NormPlan& norm, uint64_t width, Axis axis = Axis::other);
// Numbers that stand in several dimensions: extents in folders, and in GGUF files.
Extent of_numbers(std::vector<uint64_t> shape, std::vector<uint64_t> stored_shape);

// Of any recurrence: the convolution's weights, and the matrix after it.
Extent convolution_extent(const ModelPlan& model, const LayerPlan& layer);
Extent recurrence_out_extent(const ModelPlan& model, const LayerPlan& layer);

// Rows of a matrix or a vector of a model, one after the other where a tensor holds several. The
// other is null.
struct TensorPlace {
  uint64_t rows = 0;
  Weight* matrix = nullptr;
  std::vector<float>* vector = nullptr;
  bool transposed = false;  // the tensor's rows are the matrix's columns
  uint64_t first = 0;       // of the rows, in the matrix or the vector
};

// Rows of one of the parts that a tensor holds.
struct PartRows {
  uint32_t part = 0;   // index in BlockTensor::parts
  uint64_t first = 0;  // in the part
  uint64_t rows = 0;
};

// The members that keep a tensor: a matrix and the bias that goes with it, or a vector and its
// bias.
template <typename Owner>
struct Members {
  Weight Owner::*matrix = nullptr;
  std::vector<float> Owner::*vector = nullptr;
  std::vector<float> Owner::*bias = nullptr;

  constexpr explicit operator bool() const { return matrix != nullptr || vector != nullptr; }
};

// What random models draw: normal values of this mean and deviation.
struct Draw {
  double mean = 0.0;
  double deviation = 0.0;  // 0: as the tensor's kind and size make it
};

// A tensor of a block.
struct BlockTensor {
  Role role;
  // As Llama calls it in folders, after the layer's number, with a * for an expert's; empty: only
  // families that name it have it. `stored` is what GGUF files call it. Both without ".weight" and
  // ".bias" unless `whole`.
  std::string_view name = {};
  std::string_view stored = {};
  bool whole = false;
  bool scalar = false;  // folders store its one number without a dimension
  // In this layer of the model; null: the tensor is a name alone.
  Extent (*extent)(const ModelPlan& model, const LayerPlan& layer) = nullptr;
  // The tensors of the block that it holds one after the other: with a name for it, a family has
  // none of them by themselves.
  std::span<const Role> parts = {};
  // Where they do not stand one after the other: appends rows of the parts in the tensor's order.
  void (*pieces)(const LayerPlan& layer, std::vector<PartRows>& out) = nullptr;
  // GGUF files have the parts by themselves, unless they are old.
  bool stored_in_parts = false;
  // The norm that it is the weight of.
  const NormPlan& (*norm)(const ModelPlan& model, const LayerPlan& layer) = nullptr;
  // Where it goes: one of the five. `places` appends to `out` those of layer `layer`.
  Members<LayerWeights> in_layer = {};
  Members<ExpertWeights> in_experts = {};
  Members<Model> in_model = {};
  std::vector<Weight> Model::*in_model_list = nullptr;  // of Extent::experts matrices
  void (*places)(Model& model, uint32_t layer, std::vector<TensorPlace>& out) = nullptr;
  // The matrices of single heads that it makes.
  std::vector<Weight> LayerWeights::*in_heads = nullptr;

  Reads reads = Reads::other;
  bool adapters = false;        // executors multiply by it as it is, so that adapters may be added
  bool exact = false;           // kept in f32, since it decides who is chosen
  bool log_in_folders = false;  // folders store log(-x)
  Draw draw = {};
  Draw bias_draw = {};
};

struct Block {
  bool (*is_in)(const LayerPlan& layer);
  std::span<const BlockTensor> tensors;
  const RecurrenceKind* recurrence = nullptr;  // that it is; null: none
};

// Each block is defined by the file of its name.
#define TENON_BLOCK(name) extern const Block name;
#include "core/model/blocks/blocks.def"
#undef TENON_BLOCK

// All of them, in the order in which a layer uses them.
std::span<const Block* const> layer_blocks();
// What is outside the layers: before the first one, and after the last.
std::span<const BlockTensor> tensors_before_layers();
std::span<const BlockTensor> tensors_after_layers();

// The first tensor of a role in the blocks that the layer has, or in any block; null: none has one.
const BlockTensor* find_tensor(Role role, const LayerPlan& layer);
const BlockTensor* find_tensor(Role role);
// Whether tensors of a role stand outside the layers.
bool is_outside_layers(Role role);

}  // namespace tenon
