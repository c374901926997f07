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
  // Latent attention, beside q and output.
  q_a,
  q_a_norm,
  q_b,  // in place of q where that is made in two steps
  kv_a,
  kv_a_norm,
  kv_b,  // for each head its rows of K, then those of V
  k_b,   // in GGUF files the two of kv_b by themselves: K [heads, kv_rank, nope]
  v_b,   // and V [heads, v, kv_rank]
};

// How a folder stores matrices that other places want as [n_out, k_in] with q, k and v in order.
//   plain       so
//   per_head    of qkv: the rows of q, k and v of head 0, then those of head 1, …
//   transposed  [k_in, n_out]
enum class FolderLayout : uint8_t { plain, per_head, transposed };

// Both without ".weight" and ".bias"; of a layer's tensors what follows the layer's number.
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

  // Its product goes into the residual stream.
  bool adds_back() const { return role == Role::output || role == Role::down; }
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
