// A model's weights in device memory: matrices as products read them, of 8 and 4 bits as integers
// with their scales, vectors in f32.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/exec/cuda/weight_upload.h"
#include "core/model/model.h"

namespace tenon::cuda {

// Matrices that read the same input, and their biases, as one, where they go together: all of one
// layout, and all with a bias or none. Else the matrix is empty.
struct DeviceStack {
  DeviceMatrix matrix;
  const float* bias;  // null = absent
};

struct DeviceLayer {
  DeviceMatrix q, k, v, output_gate, output, gate, up, down;
  DeviceStack qkv, gate_up, shared_gate_up;  // of what stands beside them
  // Of recurrences: x, gate, Δ but for Mamba, and β; what Mamba makes Δ, B and C of.
  DeviceMatrix ssm_in, ssm_gate, ssm_step, ssm_beta, ssm_low, ssm_bc, ssm_dt, ssm_out;
  DeviceStack ssm_inputs, ssm_low_bc;
  // All experts, one below the other; routers are f32.
  DeviceMatrix expert_gate, expert_up, expert_down;
  DeviceMatrix shared_gate, shared_up, shared_down;
  DeviceMatrix router, shared_router;
  // Of latent attention; those of all heads one below the other.
  DeviceMatrix q_a, kv_a, k_absorb, v_expand;
  // null = absent
  const float *attention_norm, *attention_norm_bias, *attention_post_norm,
      *attention_post_norm_bias;
  const float *mlp_norm, *mlp_norm_bias, *mlp_post_norm, *mlp_post_norm_bias;
  const float *q_norm, *k_norm, *q_norm_bias, *k_norm_bias;
  const float *q_bias, *k_bias, *v_bias, *output_gate_bias, *output_bias, *gate_bias, *up_bias,
      *down_bias;
  const float *sinks, *slopes;
  const float *q_a_norm, *kv_a_norm, *q_a_bias, *kv_a_bias;
  const float *router_bias, *router_correction;
  const float *ssm_in_bias, *ssm_gate_bias, *ssm_step_bias, *ssm_out_bias;
  const float *ssm_conv, *ssm_conv_bias, *ssm_a, *ssm_dt_bias, *ssm_d, *ssm_norm;
  const float* ssm_key_norm;  // gated_delta: of q and k, [2·groups, state]
  const float *expert_gate_bias, *expert_up_bias, *expert_down_bias;
};

struct DeviceArrays {
  DeviceMatrix embedding, positions, head;
  const float *embedding_norm, *embedding_norm_bias, *final_norm, *final_norm_bias, *head_bias;
  std::vector<DeviceLayer> layers;
};

// What a model's weights take, and how many of the matrices that a step multiplies all its rows
// with are elements, or packed.
struct WeightNeeds {
  uint64_t bytes = 0;
  uint32_t dense_matrices = 0;
  uint32_t packed_matrices = 0;
};

class DeviceWeights : public DeviceArrays {
 public:
  // Elements of a row of a product's input: whole pieces of 16 bytes.
  static int input_stride(uint32_t width) { return static_cast<int>((width + 7) / 8 * 8); }
  // f32 where all matrices are f32, so that nothing is rounded; else bf16.
  static Input type_for(const Model& model);
  // Of what `load` will allocate. Formats that `readable_by_rows` refuses are its error, and
  // `load`'s.
  static Result<WeightNeeds> needs_of(const Model& model);

  explicit DeviceWeights(Driver& driver) : DeviceArrays(), memory_(driver) {}
  Status load(const Model& model);
  uint64_t bytes() const { return memory_.held_bytes(); }
  // Of matrices that are not packed, and of what products read.
  Input type() const { return type_; }
  std::string_view numerics() const;

 private:
  DeviceMemory memory_;
  Input type_ = Input::bf16;
  bool has_packed_ = false;
};

}  // namespace tenon::cuda
