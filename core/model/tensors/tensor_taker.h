// Takes the tensors that a model needs out of a checkpoint, and remembers which it took and what
// was wrong.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/model/formats/quant_format.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_places.h"
#include "core/model/tensors/tensor_roles.h"

namespace tenon {

// Row n of q, k and v in order, among rows that are stored KV head by KV head
// (FolderLayout::per_head): the q that share it, its k, its v.
uint64_t stored_row_by_head(uint64_t n, const SelfAttentionPlan& attention);

class TensorTaker {
 public:
  // Reads `model.checkpoint`, by the names of `model.plan`'s family; model.layers are as many as
  // the plan's.
  explicit TensorTaker(Model& model);

  // All but embedding and head.
  void take(const TensorSpec& spec);
  // A matrix [n_out, k_in] under its full name.
  Weight matrix(const std::string& name, uint64_t n_out, uint64_t k_in);

  // What the checkpoint calls it: bare base models are saved without the prefix.
  std::string name(const std::string& full) const;
  bool has(const std::string& name) const { return checkpoint_.find(name) != nullptr; }
  uint64_t vector_bytes() const { return vector_bytes_; }
  bool ok() const { return faults_ == 0; }
  bool enough_faults() const;
  // Tensors of layers that the model has but that nothing took: they would be silently ignored.
  // Whole layers behind the last are told of.
  void refuse_leftovers();
  // Of a GGUF file, which holds no other model, also those outside the layers.
  void refuse_strangers();
  Status status() const;

 private:
  void fault(std::string_view text);
  bool has_newer_names() const;
  bool has_names_of_memory() const;
  bool belongs_here(const std::string& name) const;
  std::optional<uint64_t> layer_of(const std::string& name) const;
  void warn_of_layers_behind() const;
  bool is_idle_bias(const std::string& name) const;
  bool is_of_shared_kv(const std::string& name) const;
  bool is_of_idle_expert(const std::string& name) const;
  bool is_empty(const std::string& name) const;
  bool is_copy_of_block(const std::string& name) const;
  // With `blocks`, the columns of `shape` are stored in blocks of that format.
  const TensorView* find(const std::string& name, std::span<const uint64_t> shape,
                         const QuantFormat* blocks);
  void take_vector(const TensorSpec& spec);
  // Whether transformers has cut a convolution's q, k and v into three equal parts, which it does
  // whatever their sizes are; then takes the one that the tensor is.
  bool take_third(const TensorSpec& spec);
  // Whether a folder has a convolution's q, k and v in one tensor, as transformers has them in
  // memory; then takes the part that the tensor is.
  bool take_joined(const TensorSpec& spec);
  // take_rates.cc: rates of lightning attention that a folder does not store, and whether a tensor
  // has powers of those that it has, which must follow from them.
  bool take_rates(const TensorSpec& spec);
  bool is_of_rates(const std::string& name);
  // The values of a vector as they are stored; empty with a fault.
  std::vector<float> stored_values(const TensorSpec& spec, const SelfAttentionPlan* attention);
  std::vector<float> values_of(const std::string& name, std::span<const uint64_t> shape);
  void take_matrix(const TensorSpec& spec);
  void gather_parts(const Weight& whole, const std::vector<TensorPlace>& places);
  // In files that have the parts of a tensor apart.
  void take_parts(const TensorSpec& whole);
  Weight transposed(const Weight& weight);
  void take_latent_heads(const TensorSpec& spec);
  // `count` matrices [n_out, k_in] of one tensor of three dimensions, as one below the other.
  Weight matrices(const std::string& name, uint64_t count, uint64_t n_out, uint64_t k_in);
  void put_heads_apart(const TensorSpec& spec, Weight& weight);
  Weight weight_of(const std::string& name, const TensorView& view, uint64_t n_out, uint64_t k_in);
  std::byte* copy(size_t bytes);
  // Experts (core/model/tensors/take_experts.cc): a matrix or a vector of each.
  void take_experts(const TensorSpec& spec);
  void take_expert_vectors(const TensorSpec& spec);
  bool is_turned(const TensorSpec& spec, const std::string& own) const;
  void take_apart(const TensorSpec& spec);
  void take_stacked(const TensorSpec& spec, const std::string& name, uint64_t first_row,
                    uint64_t all_rows);
  void take_turned(const TensorSpec& spec, bool in_turn);
  void take_turned_blocks(const TensorSpec& spec, const std::string& stored, uint64_t step,
                          uint64_t first);
  void take_interleaved_vectors(const TensorSpec& spec);
  void widen_exactly(Weight& weight);

  Model& model_;
  const Checkpoint& checkpoint_;
  std::vector<std::string> strange_;  // vectors with values that are no finite numbers
  std::string source_;                // what the shapes come from, for messages
  std::string layers_;                // "model.layers.", as the checkpoint has it
  std::string outside_;               // "model."
  std::string head_;                  // "lm_head."
  std::string base_;                  // what the checkpoint leaves out; empty = nothing
  TensorNames names_;
  bool folder_;
  FolderLayout layout_;
  ExpertLayout experts_;
  bool stacks_may_turn_;
  std::string_view stacked_in_, stacked_out_;
  std::string part_, newer_part_;  // of names
  std::span<const std::pair<std::string_view, std::string_view>> more_parts_;
  bool newer_ = false;  // the checkpoint has newer_part_
  std::span<const std::pair<std::string_view, std::string_view>> in_memory_;  // empty: it has none
  bool adds_one_;  // to norms whose plan says plus_one
  std::set<std::string, std::less<>> taken_;
  uint64_t vector_bytes_ = 0;
  size_t faults_ = 0;
  std::string message_;
};

// Fills a model, whose plan and checkpoint are there, with all that its plan needs. Error: the
// first tensors that are missing or have another shape, and those that nothing takes.
Status take_weights(Model& model);

}  // namespace tenon
