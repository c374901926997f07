// Tensors of a checkpoint that the blocks' tables do not list: which are passed over, and which are
// refused.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/model/families/family.h"
#include "core/model/strange_values.h"
#include "core/model/tensors/tensor_taker.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

// "mtp.layers.0.…", and ERNIE's "model.mtp_block.0.…".
bool is_of_drafts(const std::string& name) {
  return name.starts_with("mtp.") || name.starts_with("model.mtp_") ||
         name.starts_with("model.mtp.");
}

// Those of GGUF files that are read with the metadata.
bool is_rotary(const std::string& stored) {
  return stored == "rope_freqs.weight" || stored == "rope_factors_short.weight" ||
         stored == "rope_factors_long.weight";
}

// Towers of images and sounds, which some tools put into the same GGUF file, and heads that give a
// text a class or a score.
bool is_of_another_part(const std::string& stored) {
  constexpr std::string_view kBeginnings[] = {"v.", "mm.", "a.", "cls."};
  return std::ranges::any_of(kBeginnings, [&](auto begin) { return stored.starts_with(begin); });
}

}  // namespace

// Whether a tensor is one of the text model's, by its name: outside the layers, or of one that the
// model has. Others, such as layers behind the last, are no part of it.
bool TensorTaker::belongs_here(const std::string& name) const {
  if (is_of_drafts(name)) return false;
  if (!name.starts_with(layers_)) return name.starts_with(head_) || name.starts_with(outside_);
  const std::optional<uint64_t> layer = layer_of(name);
  return layer && *layer < model_.plan.layers.size();
}

std::optional<uint64_t> TensorTaker::layer_of(const std::string& name) const {
  if (!name.starts_with(layers_)) return std::nullopt;
  const char* digits = name.c_str() + layers_.size();
  if (*digits < '0' || *digits > '9') return std::nullopt;
  return std::strtoull(digits, nullptr, 10);
}

// Some models store a layer for drafts behind the others. A config.json with too few layers looks
// the same.
void TensorTaker::warn_of_layers_behind() const {
  const uint64_t layers = model_.plan.layers.size();
  uint64_t last = 0, of_drafts = 0;
  for (const std::string& name : checkpoint_.names()) {
    last = std::max(last, layer_of(name).value_or(0));
    if (is_of_drafts(name)) ++of_drafts;
  }
  if (of_drafts > 0) {
    log(LogLevel::warning, "model",
        model_.path + ": " + std::to_string(of_drafts) +
            " tensors of layers for drafts (mtp…) are read by the drafter \"mtp\" alone");
  }
  if (last < layers) return;
  log(LogLevel::warning, "model",
      model_.path + ": tensors of layers " + std::to_string(layers) + " to " +
          std::to_string(last) + " are not used: " + source_ + " has " + std::to_string(layers) +
          " layers, numbered from 0");
}

// Tools that quantise write zeros where a matrix has no bias.
bool TensorTaker::is_idle_bias(const std::string& name) const {
  constexpr std::string_view kBias = ".bias";
  if (!folder_ || !name.ends_with(kBias)) return false;
  const std::string matrix = name.substr(0, name.size() - kBias.size()) + ".weight";
  const TensorView* view = checkpoint_.find(name);
  if (view == nullptr || checkpoint_.quant_format(matrix).empty()) return false;
  if (!is_plain_type(view->dtype)) return false;
  for (size_t i = 0; i < element_count(*view); ++i) {
    if (element(*view, i) != 0.0f) return false;
  }
  return true;
}

// Models are trained with K and V, or an index of positions, in every layer; those of layers that
// use another's stay in files and are used by nobody.
bool TensorTaker::is_of_shared_kv(const std::string& name) const {
  const std::optional<uint64_t> layer = layer_of(name);
  if (!layer || *layer >= model_.plan.layers.size()) return false;
  const auto is_one_of = [&](std::span<const Role> roles) {
    return std::ranges::any_of(roles, [&](Role role) {
      const auto index = static_cast<int32_t>(*layer);
      return name == this->name(names_.full(role, index, false)) ||
             name == this->name(names_.full(role, index, true));
    });
  };
  static constexpr Role kOfKv[] = {Role::k, Role::v, Role::k_norm};
  static constexpr Role kOfIndex[] = {Role::index_q, Role::index_k, Role::index_k_norm,
                                      Role::index_weights};
  const LayerPlan& plan = model_.plan.layers[*layer];
  return (plan.attention.kv_from_layer >= 0 && is_one_of(kOfKv)) ||
         (plan.index && plan.index.heads == 0 && is_one_of(kOfIndex));
}

// transformers stores gates of experts that do nothing.
bool TensorTaker::is_of_idle_expert(const std::string& name) const {
  std::optional<uint64_t> layer = layer_of(name);
  if (layer && family_of(model_.plan).tensors.halves) *layer *= 2;
  if (!layer || *layer >= model_.plan.layers.size()) return false;
  const ExpertsPlan& experts = model_.plan.layers[*layer].experts;
  for (const Role role : {Role::expert_gate, Role::expert_up}) {
    const std::string all = this->name(names_.full(role, static_cast<int32_t>(*layer), false));
    for (uint32_t i = experts.count; i < experts.routed(); ++i) {
      if (name == expert_name(all, i)) return true;
    }
  }
  return false;
}

// transformers stores matrices of shared experts that are none.
bool TensorTaker::is_empty(const std::string& name) const {
  const TensorView* view = checkpoint_.find(name);
  return view != nullptr && element_count(*view) == 0;
}

// Whether it is a tensor of a block that the layer shares, which an earlier layer has as well. As
// transformers has it, the two must be equal.
bool TensorTaker::is_copy_of_block(const std::string& name) const {
  const std::optional<uint64_t> layer = layer_of(name);
  if (!layer || *layer >= model_.plan.layers.size()) return false;
  const SharedBlockPlan& shared = model_.plan.layers[*layer].shared;
  if (!shared.borrows()) return false;
  const std::string rest = name.substr(name.find('.', layers_.size()));
  const std::string first = layers_ + std::to_string(shared.from_layer) + rest;
  const TensorView* own = checkpoint_.find(name);
  const TensorView* other = checkpoint_.find(first);
  return taken_.contains(first) && own != nullptr && other != nullptr &&
         own->dtype == other->dtype && std::ranges::equal(bytes_of(*own), bytes_of(*other));
}

void TensorTaker::refuse_leftovers() {
  for (const std::string& name : checkpoint_.names()) {
    if (enough_faults()) return;
    if (taken_.contains(name) || !belongs_here(name)) continue;
    // Buffers that old checkpoints store: rotary frequencies and masks, which follow from the
    // config.
    constexpr std::string_view kBuffers[] = {".rotary_emb.inv_freq", ".attention.bias",
                                             ".attention.masked_bias", ".attn.bias",
                                             ".attn.masked_bias"};
    if (std::ranges::any_of(kBuffers, [&](auto buffer) { return name.ends_with(buffer); })) {
      continue;
    }
    if (is_idle_bias(name) || is_of_shared_kv(name) || is_of_rates(name)) continue;
    if (is_of_idle_expert(name) || is_copy_of_block(name) || is_empty(name)) continue;
    fault("tensor " + in_quotes(checkpoint_.stored_name(name)) +
          " has no place in the model that " + source_ + " describes");
  }
  warn_of_layers_behind();
  warn_of_strange_values(strange_);
}

void TensorTaker::refuse_strangers() {
  if (folder_) return;
  std::vector<std::string> unused;
  for (const std::string& name : checkpoint_.names()) {
    if (enough_faults()) return;
    if (taken_.contains(name) || layer_of(name) || belongs_here(name)) continue;
    const std::string stored = checkpoint_.stored_name(name);
    if (is_of_drafts(stored) || is_rotary(stored)) continue;
    if (is_of_another_part(stored)) {
      unused.push_back(stored);
      continue;
    }
    fault("tensor " + in_quotes(stored) + " has no place in the model that " + source_ +
          " describes");
  }
  if (unused.empty()) return;
  log(LogLevel::warning, "model",
      model_.path + ": " + std::to_string(unused.size()) + " tensors beside the text model (" +
          in_quotes(unused.front()) + "…) are not used");
}

}  // namespace tenon
