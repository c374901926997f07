// A model's weights in device memory: matrices as products read them, of 8 and 4 bits as integers
// with their scales, vectors in f32.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/exec/cuda/weights/weight_cut.h"
#include "core/exec/cuda/weights/weight_upload.h"
#include "core/model/heads/head.h"
#include "core/model/model.h"

namespace tenon::cuda {

struct DevicePart {
  DeviceMatrix matrix;
  const float* bias = nullptr;  // null = absent
};

// Matrices that read the same input, and the same as one with their biases, where they go together:
// all of one layout, and all with a bias or none. Else `matrix` is empty.
struct DeviceStack {
  std::vector<DevicePart> parts;
  DeviceMatrix matrix;
  const float* bias = nullptr;
};

// Of a layer with a recurrence. The lists follow from its RecurrenceKind.
struct DeviceRecurrence {
  DeviceStack inputs;                    // x, the gate, and the kind's other inputs
  std::vector<const float*> parameters;  // null = absent
  DeviceStack low_bc;                    // mamba: what Δ is made of, and B with C
  DeviceMatrix dt;                       // mamba: of Δ
  DevicePart out;
  const float* norm = nullptr;
  const float* key_norm = nullptr;  // gated_delta: of q and k, [2·groups, state]
};

// What a layer adds to a block that it shares (SharedBlockPlan): its own matrices of low rank.
// Those of the block, and its norm, are in the layer that has it.
struct DeviceSharedBlock {
  const float* norm = nullptr;
  DeviceStack qkv_low;
  DeviceMatrix q_high, k_high, v_high;
  DeviceMatrix mlp_low, gate_high, up_high;
  DeviceMatrix link;
};

struct DeviceLayer {
  // With the gate after attention, where there is one; of latent attention q is the only part.
  DeviceStack qkv;
  DeviceStack gate_up, shared_gate_up;
  DeviceMatrix output, down, shared_down;
  DeviceRecurrence recurrence;
  DeviceSharedBlock shared;
  // All experts, one below the other; routers are f32.
  DeviceMatrix expert_gate, expert_up, expert_down;
  DeviceMatrix router, shared_router;
  // Of latent attention; those of all heads one below the other.
  DeviceMatrix q_a, kv_a, k_absorb, v_expand;
  // null = absent
  const float *attention_norm, *attention_norm_bias, *attention_post_norm,
      *attention_post_norm_bias;
  const float *mlp_norm, *mlp_norm_bias, *mlp_post_norm, *mlp_post_norm_bias;
  const float *q_norm, *k_norm, *q_norm_bias, *k_norm_bias;
  const float *output_bias, *down_bias;
  const float *sinks, *slopes;
  const float *q_a_norm, *kv_a_norm, *q_a_bias, *kv_a_bias;
  const float *router_bias, *router_correction;
  const float *expert_gate_bias, *expert_up_bias, *expert_down_bias;
};

// What stands before a head's layers; null and empty where the head has none, or there is no head.
struct DeviceHead {
  DeviceMatrix fc;
  const float *fc_bias, *token_norm, *features_norm, *state_norm;
};

struct DeviceArrays {
  DeviceMatrix embedding, positions, head;
  const float *embedding_norm, *embedding_norm_bias, *final_norm, *final_norm_bias, *head_bias;
  std::vector<DeviceLayer> layers;
  DeviceHead entrance;
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
  // f32 where all matrices are f32, so that nothing is rounded; else bf16. `front`: null where the
  // model is no head, here and below.
  static Input type_for(const Model& model, const Head* front = nullptr);
  // Of what `load` will allocate. Formats that `readable_by_rows` refuses are its error, and
  // `load`'s; of several ranks also what each of them would have to judge for itself. `cut`: null
  // where there is one rank.
  static Result<WeightNeeds> needs_of(const Model& model, const Head* front = nullptr,
                                      const ModelCut* cut = nullptr);

  explicit DeviceWeights(Driver& driver) : DeviceArrays(), memory_(driver) {}
  Status load(const Model& model, const Head* front = nullptr, const ModelCut* cut = nullptr);
  uint64_t bytes() const { return memory_.held_bytes(); }
  // Of matrices that are not packed, and of what products read.
  Input type() const { return type_; }
  std::string_view numerics() const;

 private:
  DeviceMemory memory_;
  WeightCut cut_;
  Input type_ = Input::bf16;
  bool has_packed_ = false;
};

}  // namespace tenon::cuda
