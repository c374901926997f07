// The tensors of a model: what each is for, and what it is called in folders and in GGUF files.
// Loading, packing, `model info`, `model convert` and `model synth` all walk this one list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model_plan.h"

namespace tenon {

enum class Role : uint8_t {
  embedding,
  positions,
  final_norm,
  head,
  // Of a layer.
  attention_norm,
  attention_post_norm,
  q,
  k,
  v,
  qkv,  // one tensor in place of the three
  q_norm,
  k_norm,
  output,
  mlp_norm,
  mlp_post_norm,
  gate,
  up,
  gate_up,  // one tensor in place of the two
  down,
  // Of a layer's recurrence.
  ssm_in,  // one tensor of those that follow; mamba: x, gate; mamba2: gate, x with B and C, Δ
  ssm_in_gate,
  ssm_in_x,
  ssm_in_step,  // mamba2
  ssm_conv,
  ssm_x,      // mamba: one tensor of the two that follow
  ssm_x_low,  // what Δ is made of
  ssm_x_bc,
  ssm_dt,       // mamba: Δ of it
  ssm_dt_bias,  // mamba2, a tensor of its own
  ssm_a,        // folders store log(-a)
  ssm_d,
  ssm_norm,
  ssm_out,
};
// Tensors whose names have no ".weight" behind them.
constexpr bool is_bare(Role role) {
  return role == Role::ssm_dt_bias || role == Role::ssm_a || role == Role::ssm_d;
}

// How a folder stores matrices that other places want as [n_out, k_in] with q, k and v in order.
//   plain       so
//   per_head    of qkv: the rows of q, k and v of head 0, then those of head 1, …
//   transposed  [k_in, n_out]
enum class FolderLayout : uint8_t { plain, per_head, transposed };

// Both without ".weight" and ".bias", unless the name is bare; of a layer's tensors what follows
// the layer's number.
struct TensorName {
  Role role;
  std::string_view name;    // "self_attn.q_proj"
  std::string_view stored;  // in GGUF files: "attn_q"
};

struct FamilyTensors {
  std::span<const TensorName> names = {};  // where they differ from Llama's
  std::string_view base = "model.";        // what bare base models leave out
  std::string_view layers = "layers.";     // behind it
  FolderLayout layout = FolderLayout::plain;
  bool gguf_parts_gate_up = false;  // one tensor in folders, two in GGUF files
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

struct TensorSpec {
  Role role;
  int32_t layer = -1;  // -1: outside the layers
  bool bias = false;
  std::string name;      // in a folder, complete
  uint64_t rows = 0;     // of a vector its length
  uint64_t columns = 0;  // 0: a vector
  Axis rows_axis = Axis::other;
  Axis columns_axis = Axis::none;
  // The extents of a vector in folders and in GGUF files, where it stands in several dimensions.
  std::vector<uint64_t> shape = {}, stored_shape = {};

  // Its product goes into the residual stream.
  bool adds_back() const {
    return role == Role::output || role == Role::down || role == Role::ssm_out;
  }
};

// Every tensor that the plan needs, in the order of use; no head when tied.
std::vector<TensorSpec> list_tensors(const ModelPlan& plan);

// The norm that a tensor belongs to; null: to none.
const NormPlan* norm_of(const ModelPlan& plan, const TensorSpec& spec);

struct Family;

// The names of a family's tensors, and those of GGUF files for them.
class TensorNames {
 public:
  explicit TensorNames(const Family& family);
  // Null when the family has no such tensor.
  const TensorName* find(Role role) const;
  bool has(Role role) const { return find(role) != nullptr; }
  // "model.layers.3.self_attn.q_proj"
  std::string stem(Role role, int32_t layer) const;
  // "model.layers.3.self_attn.q_proj.weight" → "blk.3.attn_q.weight". A name without a counterpart
  // keeps its part behind the layer, so that both directions undo each other.
  std::string stored(std::string_view name) const;
  std::string name_of_stored(std::string_view stored) const;

 private:
  std::string layers_;  // "model.layers."
  std::vector<TensorName> outside_;
  std::vector<TensorName> in_layer_;
};

}  // namespace tenon
