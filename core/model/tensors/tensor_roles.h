// The tensors of a model: what each is for, and what it is called in folders and in GGUF files.
// Loading, packing, `model info`, `model convert` and `model synth` all walk this one list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/blocks/block.h"
#include "core/model/plan/model_plan.h"

namespace tenon {

// How a folder stores matrices that other places want as [n_out, k_in] with q, k and v in order.
//   plain       so
//   per_head    of qkv: the rows of KV head 0 – the q that share it, k, v –, then those of head 1,
//   … transposed  [k_in, n_out]
enum class FolderLayout : uint8_t { plain, per_head, transposed };

// How a folder stores the experts of a layer, whose names have a * for the expert's number.
//   apart        a tensor for each matrix; or, as transformers 5 holds them in memory, one of all
//                experts: experts.gate_up_proj [experts, 2 · width, hidden], the gate's rows first,
//                and experts.down_proj [experts, hidden, width]
//   stacked      always those two tensors, by the family's own names
//   interleaved  the same two tensors with k_in in front of n_out, and the gate's columns in turn
//                with those of up
//   turned       likewise, but the gate's columns first; or apart
//   by_matrix    a tensor of all experts for each matrix, whose names have no *; or stacked, as
//   above
enum class ExpertLayout : uint8_t { apart, stacked, interleaved, turned, by_matrix };

// Both without ".weight" and ".bias"; of a layer's tensors what follows the layer's number.
struct TensorName {
  Role role;
  std::string_view name;         // "self_attn.q_proj"; empty: the family has no such tensor
  std::string_view stored = {};  // in GGUF files, with `whole`; empty: as in the block's table
  bool whole = false;            // both are complete: nothing follows
  bool row = false;              // a vector that folders have as a matrix of one row
};

struct FamilyTensors {
  std::span<const TensorName> names = {};  // where they differ from those of the blocks' tables
  // In place of those, where parallel halves have a norm each.
  std::span<const TensorName> two_norm_names = {};
  // In place of those, in models with experts.
  std::span<const TensorName> expert_names = {};
  std::string_view base = "model.";     // what bare base models leave out
  std::string_view layers = "layers.";  // behind it
  // Two layers are one of a folder's, and a # in a name stands for which of them it is, 0 or 1.
  bool halves = false;
  // What a ~ in a name stands for in layers with a shared block; in others it stands for nothing. A
  // # is then the number of the layer's use of the block, from 0, and the tensor is among those of
  // the layer that has the block.
  std::string_view in_shared = {};
  FolderLayout layout = FolderLayout::plain;
  bool gguf_parts_gate_up = false;  // one tensor in folders, two in GGUF files
  ExpertLayout experts = ExpertLayout::apart;
  // Experts that are not apart may also stand as with `turned`, which their shapes say.
  bool stacks_may_turn = false;
  // What stands in place of the * and what follows it, where experts stand together.
  std::string_view stacked_in = "gate_up_proj";
  std::string_view stacked_out = "down_proj";
  // A part of the names that checkpoints of transformers 5 may call otherwise, all or none of them,
  // and what stands for the experts there.
  std::string_view part = {};
  std::string_view newer_part = {};
  // Further such parts, which are called otherwise where that one is.
  std::span<const std::pair<std::string_view, std::string_view>> more_parts = {};
  // Parts of the names that transformers 5 calls otherwise in memory, and in folders that it saves
  // as they are there, all or none of them. They are replaced one after the other.
  std::span<const std::pair<std::string_view, std::string_view>> in_memory = {};
  std::string_view newer_stacked_in = "gate_up_proj";
  std::string_view newer_stacked_out = "down_proj";
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
  uint32_t experts = 0;  // above 0: so many matrices or vectors of that shape, a * in the name
  // The extents of a vector in folders and in GGUF files, where it stands in several dimensions.
  std::vector<uint64_t> shape = {}, stored_shape = {};
  const BlockTensor* tensor = nullptr;  // the row of its block's table; never null in a list

  // Its product goes into the residual stream.
  bool adds_back() const { return columns > 0 && rows_axis == Axis::hidden; }
};

// The name of one expert's tensor: its number in place of the *.
std::string expert_name(std::string_view name, uint32_t expert);
// That of a tensor of all experts: "experts.*.gate_proj.weight" or "experts.gate_proj.weight",
// "gate_up_proj" → "experts.gate_up_proj".
std::string stacked_name(std::string_view name, std::string_view tensor);

// One tensor that holds a gate's rows, then as many of up.
constexpr bool holds_gate_and_up(Role role) {
  return role == Role::gate_up || role == Role::shared_gate_up;
}
struct Family;
// Whether GGUF files of the family have what the tensor holds by itself.
bool is_stored_in_parts(const Family& family, const BlockTensor& tensor);
// Every tensor that the plan needs, in the order of use; no head when tied.
std::vector<TensorSpec> list_tensors(const ModelPlan& plan);

// The norm that a tensor belongs to; null: to none.
const NormPlan* norm_of(const ModelPlan& plan, const TensorSpec& spec);
// By which a bias is divided where it is taken, since a factor on its product is meant for what
// the product reads.
float input_scale_of(const ModelPlan& plan, const TensorSpec& spec);

// The spec of a tensor that `whole` holds, by itself.
class TensorNames;
TensorSpec part_of(const TensorSpec& whole, Role part, const ModelPlan& plan,
                   const TensorNames& names);

// The names of a family's tensors, and those of GGUF files for them.
class TensorNames {
 public:
  explicit TensorNames(const Family& family);
  // As the plan's layers have them.
  explicit TensorNames(const ModelPlan& plan);
  // Null when the family has no such tensor.
  const TensorName* find(Role role) const;
  bool has(Role role) const { return find(role) != nullptr; }
  // "model.layers.3.self_attn.q_proj"
  std::string stem(Role role, int32_t layer) const;
  // With ".weight" or ".bias" behind it, unless the name is whole.
  std::string full(Role role, int32_t layer, bool bias) const;
  // "model.layers.3.self_attn.q_proj.weight" → "blk.3.attn_q.weight". A name without a counterpart
  // keeps its part behind the layer, so that both directions undo each other.
  std::string stored(std::string_view name) const;
  std::string name_of_stored(std::string_view stored) const;

 private:
  std::string shared_stem(std::string own, int32_t layer) const;

  std::string layers_;  // "model.layers."
  bool halves_ = false;
  std::string in_shared_;
  std::vector<SharedBlockPlan> shared_;  // [layers], or empty where no plan is known
  std::vector<TensorName> outside_;
  std::vector<TensorName> in_layer_;
};

}  // namespace tenon
